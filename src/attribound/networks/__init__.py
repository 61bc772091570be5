"""Smooth copies of networks."""

from attribound.networks.pooling import LogSumExpPool
from attribound.networks.smooth import smooth

__all__ = ["LogSumExpPool", "smooth"]
