"""Load a data set by name or by path."""

from __future__ import annotations

from pathlib import Path

from attribound.basics.errors import InputError
from attribound.data.csv_files import csv_of_part, read_csv
from attribound.data.examples import Examples
from attribound.data.folder import image_folder
from attribound.data.idx import idx_examples, read_idx
from attribound.data.images import no_images
from attribound.data.named import NAMES, named
from attribound.data.npz import read_npz
from attribound.data.parquet import parquet_files, read_parquet
from attribound.data.splits import Split
from attribound.data.tables import Layout


def load(
    name_or_path: str | Path,
    split: Split | None = None,
    *,
    root: str | Path | None = None,
    download: bool = True,
    size: int | None = None,
    layout: Layout | None = None,
) -> Examples:
    """The data set of that name (see ``NAMES``), or at that path, as a torch data set.

    Without ``split``: the test part, or everything if the data has no parts of
    its own. Named sets are looked for in ``root`` (by default ``ATTRIBOUND_DATA``
    or the platform's cache directory), then where a distribution installs them,
    then downloaded. A path is a folder of class folders, of idx, Parquet or CSV files,
    or an ``.npz``, ``.parquet`` or ``.csv`` file. ``size`` scales and crops images from files
    to ``size`` x ``size``; ``layout`` says which columns of a table are what.

    Raises:
        InputError: there is no such data, or it is damaged; the message has the remedy.
    """
    if split not in ("train", "test", None):
        raise InputError(
            "split", expected="'train' or 'test'", got=repr(split), remedy="choose one of these"
        )
    if size is not None and size < 1:
        raise InputError("size", expected="at least 1", got=str(size), remedy="give it in pixels")
    if isinstance(name_or_path, str) and name_or_path in NAMES:
        if layout is not None:
            raise no_table(name_or_path)
        return named(name_or_path, split, root, download, size)
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return _directory(path, split, size, layout)
    if path.is_file() and path.suffix == ".parquet":
        return read_parquet(path.stem, parquet_files(path, split), size, layout)
    if layout is not None and path.suffix != ".csv":
        raise no_table(str(path))
    if path.is_file() and path.suffix == ".csv":
        return _csv(path, split, size, layout)
    if path.is_file() and path.suffix == ".npz":
        if size is not None:
            raise no_images(str(path))
        return read_npz(path, split)
    raise InputError(
        str(name_or_path),
        expected=f"one of {', '.join(NAMES)}, a folder, or an .npz, .parquet or .csv file",
        got="a file of another kind" if path.exists() else "no such name or path",
        remedy="check the spelling; a path is taken from the current directory",
    )


def no_table(name: str) -> InputError:
    """The error for data without columns that is asked for some."""
    return InputError(
        name,
        expected="a table (.csv or .parquet) for --label, --id, --drop and categories",
        got="data without named columns",
        remedy="leave these out",
    )


def _csv(path: Path, split: Split | None, size: int | None, layout: Layout | None) -> Examples:
    if size is not None:
        raise no_images(str(path))
    return read_csv(csv_of_part(path, split), layout or Layout())


def _directory(
    path: Path, split: Split | None, size: int | None, layout: Layout | None
) -> Examples:
    if any(path.glob("*.parquet")) or any(path.glob("data/*.parquet")):
        return read_parquet(path.name, parquet_files(path, split), size, layout)
    if any(path.glob("*.csv")) and not any(entry.is_dir() for entry in path.iterdir()):
        return _csv(path, split, size, layout)
    if layout is not None:
        raise no_table(str(path))
    part = "train" if split == "train" else "t10k"
    if any(path.glob("*-images-idx3-ubyte*")):
        if size is not None:
            raise no_images(str(path))
        images, labels = (
            read_idx(_idx_file(path, f"{part}-{kind}-ubyte"))
            for kind in ("images-idx3", "labels-idx1")
        )
        return idx_examples(path.name, images, labels)
    return image_folder(path, split, size)


def _idx_file(path: Path, name: str) -> Path:
    for file in (path / name, path / f"{name}.gz"):
        if file.is_file():
            return file
    raise InputError(
        str(path),
        expected=f"{name} or {name}.gz",
        got="no such file",
        remedy="images and labels of a part must lie in one folder",
    )
