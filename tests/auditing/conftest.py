"""Fixtures of these tests."""

from auditing.disks import small_disk

__all__ = ["small_disk"]
