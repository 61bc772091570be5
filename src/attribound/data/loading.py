"""Load a data set by name or by path."""

from __future__ import annotations

from pathlib import Path

from attribound.basics.errors import InputError
from attribound.data.examples import Examples
from attribound.data.folder import image_folder
from attribound.data.idx import idx_examples, read_idx
from attribound.data.images import no_images
from attribound.data.named import NAMES, named
from attribound.data.npz import read_npz
from attribound.data.parquet import parquet_files, read_parquet
from attribound.data.splits import Split


def load(
    name_or_path: str | Path,
    split: Split | None = None,
    *,
    root: str | Path | None = None,
    download: bool = True,
    size: int | None = None,
) -> Examples:
    """The data set of that name (see ``NAMES``), or at that path, as a torch data set.

    Without ``split``: the test part, or everything if the data has no parts of
    its own. Named sets are looked for in ``root`` (by default ``ATTRIBOUND_DATA``
    or the platform's cache directory), then where a distribution installs them,
    then downloaded. A path is a folder of class folders, of idx or of Parquet files,
    or an ``.npz`` or ``.parquet`` file. ``size`` scales and crops images from files
    to ``size`` x ``size``.

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
        return named(name_or_path, split, root, download, size)
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return _directory(path, split, size)
    if path.is_file() and path.suffix == ".parquet":
        return read_parquet(path.stem, parquet_files(path, split), size)
    if path.is_file() and path.suffix == ".npz":
        if size is not None:
            raise no_images(str(path))
        return read_npz(path, split)
    raise InputError(
        str(name_or_path),
        expected=f"one of {', '.join(NAMES)}, a folder, or an .npz or .parquet file",
        got="a file of another kind" if path.exists() else "no such name or path",
        remedy="check the spelling; a path is taken from the current directory",
    )


def _directory(path: Path, split: Split | None, size: int | None) -> Examples:
    if any(path.glob("*.parquet")) or any(path.glob("data/*.parquet")):
        return read_parquet(path.name, parquet_files(path, split), size)
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
