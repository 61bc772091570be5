"""Data sets as torch data sets: by name, or from folders, ``.npz``, Parquet and CSV files."""

from attribound.data.columns import Columns
from attribound.data.examples import Examples, arrays
from attribound.data.idx import read_idx
from attribound.data.loading import load
from attribound.data.named import NAMES
from attribound.data.places import data_directory
from attribound.data.splits import Split, split
from attribound.data.tables import Layout

__all__ = [
    "NAMES",
    "Columns",
    "Examples",
    "Layout",
    "Split",
    "arrays",
    "data_directory",
    "load",
    "read_idx",
    "split",
]
