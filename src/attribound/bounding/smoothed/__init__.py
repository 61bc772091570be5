"""Certificates by noise, for any network and any attribution: of its averaged map."""

from attribound.bounding.smoothed.method import SMOOTHED, Smoothed

__all__ = ["SMOOTHED", "Smoothed"]
