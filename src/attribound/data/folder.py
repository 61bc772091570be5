"""Folders of images, one folder a class."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch

from attribound.basics.errors import InputError
from attribound.data.images import Encoded, Frame, Images, common_frame
from attribound.data.splits import Split, hold_out, whole

_SUFFIXES = (".jpg", ".jpeg", ".png")
#: Which folders hold a part, in order of preference.
_PARTS: Mapping[Split, Sequence[str]] = {
    "train": ("train", "training"),
    "test": ("test", "val", "validation"),
}
_IMAGENET_CLASSES = 1000


def image_folder(path: Path, split: Split | None, size: int | None) -> Images:
    """The images of ``path/class/*`` or ``path/split/class/*``, classes in order of names.

    All headers are read, to find the common size and whether all are grey.

    Raises:
        InputError: there are no class folders, one is empty, images lie outside
            of them, or their sizes differ and ``size`` is not given.
    """
    part = _part(path, split)
    if part == path:
        whole(str(path), split)
    folders = class_folders(part)
    images, labels = _flat(folders.values(), range(len(folders)))
    frame = common_frame(str(part), images, size)
    return Images(path.name, images, labels, list(folders), frame)


def flowers17_folder(
    path: Path, split: Split | None, classes: Sequence[str], frame: Frame
) -> Images:
    """Flowers-17 from folders that are named after ``classes``, with or without a number before.

    Raises:
        InputError: the folders are not the seventeen classes of eighty images.
    """
    folders = class_folders(path)
    by_letters = {_letters(name): images for name, images in folders.items()}
    if sorted(by_letters) != sorted(map(_letters, classes)):
        raise InputError(
            str(path),
            expected=f"one folder for each of {', '.join(classes)}",
            got=", ".join(folders),
            remedy="rename the folders, or put 17flowers.tgz there instead",
        )
    images, labels = _flat([by_letters[_letters(name)] for name in classes], range(len(classes)))
    return flowers17_parts(Images("flowers17", images, labels, classes, frame), split)


def flowers17_parts(flowers: Images, split: Split | None) -> Images:
    """A fixed quarter of every class for testing, or the rest.

    Raises:
        InputError: there are not eighty images of every class.
    """
    counts = torch.bincount(flowers.labels, minlength=len(flowers.classes)).tolist()
    if set(counts) != {80}:
        raise InputError(
            "flowers17",
            expected="80 images of each class",
            got=f"{counts}",
            remedy="the copy is incomplete or mixed with something else, fetch it again",
        )
    return hold_out(flowers, split, 0.25)


def imagenet_folder(path: Path, split: Split | None, frame: Frame) -> Images:
    """ImageNet from ``train``, ``val`` or ``test`` folders, or from class folders alone.

    Class folders alone are a test part.
    Folders are the 1,000 WordNet numbers, whose order gives the labels, or any
    of the class indices 0 to 999: labels are those that pretrained networks use.

    Raises:
        InputError: the labels cannot be known from the folders' names.
    """
    part = _part(path, split)
    if part == path and split == "train":
        whole(str(path), split)
    folders = class_folders(part)
    if all(re.fullmatch(r"\d{1,3}", name) for name in folders):
        labels = [int(name) for name in folders]
        classes = [str(label) for label in range(_IMAGENET_CLASSES)]
    elif len(folders) == _IMAGENET_CLASSES:
        labels, classes = list(range(_IMAGENET_CLASSES)), list(folders)
    else:
        raise InputError(
            str(part),
            expected="1000 class folders, or folders named by class index (0 to 999)",
            got=f"{len(folders)} folders such as {next(iter(folders))!r}",
            remedy="with a part of the classes, name each folder by the class's index",
        )
    images, targets = _flat(folders.values(), labels)
    return Images("imagenet", images, targets, classes, frame)


def class_folders(path: Path) -> dict[str, list[Path]]:
    """The images of every class folder, folders and images sorted by name.

    Other files, and names that begin with a dot, are ignored.

    Raises:
        InputError: there are no class folders, one is empty, or images lie outside of them.
    """
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    stray = [entry for entry in entries if entry.suffix.lower() in _SUFFIXES and entry.is_file()]
    folders = {
        entry.name: sorted(
            file
            for file in entry.iterdir()
            if file.suffix.lower() in _SUFFIXES and not file.name.startswith(".")
        )
        for entry in entries
        if entry.is_dir()
    }
    if stray or not folders:
        raise InputError(
            str(path),
            expected="one folder for each class",
            got=f"images without a class such as {stray[0].name}" if stray else "no folders",
            remedy="put images in path/class/name.jpg (or .png)",
        )
    empty = [name for name, files in folders.items() if not files]
    if empty:
        raise InputError(
            str(path),
            expected="JPEG or PNG images in every class folder",
            got=f"none in {', '.join(empty)}",
            remedy="remove the empty folders, or fetch their images again",
        )
    return folders


def _part(path: Path, split: Split | None) -> Path:
    """The folder of the wanted part, ``path`` itself if there are no parts."""
    parts = {name for names in _PARTS.values() for name in names}
    # A class may be called "test": parts have folders in them, classes have images.
    present = [
        entry.name
        for entry in path.iterdir()
        if entry.name in parts and entry.is_dir() and any(e.is_dir() for e in entry.iterdir())
    ]
    if not present:
        return path
    for name in _PARTS[split or "test"]:
        if name in present:
            return path / name
    raise InputError(
        str(path),
        expected=f"a folder {' or '.join(_PARTS[split or 'test'])}",
        got=", ".join(sorted(present)),
        remedy="choose another split, or rename the folder",
    )


def _letters(name: str) -> str:
    return re.sub("[^a-z]", "", name.lower())


def _flat(
    groups: Iterable[list[Path]], labels: Iterable[int]
) -> tuple[list[Encoded], torch.Tensor]:
    """All images, group after group, and the label of each."""
    pairs = [
        (Encoded(str(file), file), label)
        for files, label in zip(groups, labels, strict=True)
        for file in files
    ]
    return [image for image, _ in pairs], torch.tensor([label for _, label in pairs])
