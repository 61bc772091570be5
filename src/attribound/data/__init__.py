"""Data sets as torch data sets: by name, or from folders, ``.npz`` and Parquet files."""

from attribound.data.examples import Examples, arrays
from attribound.data.idx import read_idx
from attribound.data.loading import load
from attribound.data.named import NAMES
from attribound.data.places import data_directory
from attribound.data.splits import Split, split

__all__ = ["NAMES", "Examples", "Split", "arrays", "data_directory", "load", "read_idx", "split"]
