"""Networks to bound and to train."""

from attribound.models.small_cnn import SmallCNN

__all__ = ["SmallCNN"]
