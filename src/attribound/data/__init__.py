"""Data sets. So far: the idx format."""

from attribound.data.idx import read_idx

__all__ = ["read_idx"]
