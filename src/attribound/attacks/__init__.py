"""Attacks on attributions: what brackets a bound from below."""

from attribound.attacks.ascent import AttributionAscent

__all__ = ["AttributionAscent"]
