"""Fixtures of these tests."""

from evaluation.disks import small_disk

__all__ = ["small_disk"]
