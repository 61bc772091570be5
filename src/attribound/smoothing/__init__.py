"""Smooth copies of networks."""

from attribound.smoothing.pooling import LogSumExpPool
from attribound.smoothing.smooth import smooth

__all__ = ["LogSumExpPool", "smooth"]
