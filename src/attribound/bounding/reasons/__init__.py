"""Guarantees about what people read: which reasons stay, with which sign, in which order."""

from attribound.bounding.reasons.asking import reasons
from attribound.bounding.reasons.radius import max_epsilon
from attribound.bounding.reasons.record import Displacement, Reasons
from attribound.bounding.reasons.switches import Switches, switches

__all__ = ["Displacement", "Reasons", "Switches", "max_epsilon", "reasons", "switches"]
