"""Certificates by noise, for any network and any attribution: of its averaged map."""

from attribound.bounding.smoothed.method import SMOOTHED, Smoothed
from attribound.bounding.smoothed.stating import ALIKE

__all__ = ["ALIKE", "SMOOTHED", "Smoothed"]
