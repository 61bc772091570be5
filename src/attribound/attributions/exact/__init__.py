"""Integrated gradients of piecewise linear networks without quadrature: value and Jacobian."""

from attribound.attributions.exact.limits import crossing_limit
from attribound.attributions.exact.paths import ExactPaths

__all__ = ["ExactPaths", "crossing_limit"]
