"""Bounds by the mean value theorem: no linearity assumed, the supremum inside searched."""

from attribound.bounding.mean_value.nested import Known, MeanValue, mean_value_bound

__all__ = ["Known", "MeanValue", "mean_value_bound"]
