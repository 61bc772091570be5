"""Bounds by the mean value theorem: no linearity assumed, the supremum inside searched."""

from attribound.bounding.mean_value.nested import MEAN_VALUE, Known, MeanValue, mean_value_bound

__all__ = ["MEAN_VALUE", "Known", "MeanValue", "mean_value_bound"]
