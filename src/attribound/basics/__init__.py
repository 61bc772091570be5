"""What everything else is made with: errors, tensors, tables, files."""

from attribound.basics.locking import Lock
from attribound.basics.packages import package
from attribound.basics.tables import render
from attribound.basics.toml_files import read_toml
from attribound.basics.whole_files import StorageError, sha256_of, store_whole, storing

__all__ = [
    "Lock",
    "StorageError",
    "package",
    "read_toml",
    "render",
    "sha256_of",
    "store_whole",
    "storing",
]
