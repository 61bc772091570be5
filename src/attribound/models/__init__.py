"""Networks to bound and to train."""

from attribound.models.mlp import MLP
from attribound.models.small_cnn import SmallCNN

__all__ = ["MLP", "SmallCNN"]
