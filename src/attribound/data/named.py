"""The data sets known by name: where each lies in the data directory, and how it is read."""

from __future__ import annotations

from pathlib import Path

import torch

from attribound.basics.errors import InputError
from attribound.data.archive import read_members
from attribound.data.cifar import cifar_examples
from attribound.data.credit import CREDIT, GERMAN, TAIWAN, credit_german, credit_taiwan
from attribound.data.digits import digits
from attribound.data.examples import Examples
from attribound.data.folder import (
    flowers17_folder,
    flowers17_parts,
    imagenet_folder,
)
from attribound.data.idx import idx_examples, read_idx
from attribound.data.images import Encoded, Frame, Images, no_images
from attribound.data.places import data_directory, obtain
from attribound.data.registry import (
    CIFAR10,
    CIFAR10_CLASSES,
    FLOWERS17,
    FLOWERS17_CLASSES,
    IDX_SETS,
)
from attribound.data.sample import NAME as SAMPLE
from attribound.data.sample import fashion_mnist_sample
from attribound.data.splits import Split

NAMES = ("digits", SAMPLE, *CREDIT, *IDX_SETS, "cifar10", "flowers17", "imagenet")

_BATCHES = "cifar-10-batches-py"


def named(
    name: str, split: Split | None, root: str | Path | None, download: bool, size: int | None
) -> Examples:
    """The part ``split`` of the data set ``name``, one of ``NAMES``.

    Raises:
        InputError: it is nowhere, cannot be fetched, or is damaged.
    """
    if size is not None and name not in ("flowers17", "imagenet"):
        raise no_images(name)
    if name == "digits":
        return digits(split)
    if name == SAMPLE:
        return fashion_mnist_sample(split)
    if name == GERMAN:
        return credit_german(split)
    folder = data_directory(root) / name
    if name == TAIWAN:
        return credit_taiwan(folder, split)
    if name == "cifar10":
        return _cifar10(folder, split, download)
    if name == "flowers17":
        frame = Frame.square(3, 128, 144) if size is None else Frame.square(3, size)
        return _flowers17(folder, split, download, frame)
    if name == "imagenet":
        return _imagenet(folder, split, Frame.square(3, 224 if size is None else size))
    return _idx_set(name, folder, split, download)


def _idx_set(name: str, folder: Path, split: Split | None, download: bool) -> Examples:
    known = IDX_SETS[name]
    images, labels = (
        read_idx(
            obtain(file, folder, installed=known.installed, download=download), sha256=file.content
        )
        for file in known.files[split or "test"]
    )
    return idx_examples(name, images, labels, known.classes)


def _cifar10(folder: Path, split: Split | None, download: bool) -> Examples:
    unpacked = next((f for f in (folder / _BATCHES, folder) if any(f.glob("*_batch*"))), None)
    if unpacked is not None:
        files = unpacked.glob("data_batch_?" if split == "train" else "test_batch")
        batches = {file.name: file.read_bytes() for file in files}
    else:
        archive = obtain(CIFAR10, folder, download=download)
        part = r"data_batch_\d" if split == "train" else "test_batch"
        members = read_members(archive, CIFAR10.digest, rf"{_BATCHES}/{part}")
        batches = {member.rpartition("/")[2]: content for member, content in members.items()}
    return cifar_examples("cifar10", batches, split == "train", CIFAR10_CLASSES)


def _flowers17(folder: Path, split: Split | None, download: bool, frame: Frame) -> Examples:
    unpacked = folder / "jpg"
    images: dict[str, Encoded]
    if unpacked.is_dir():
        files = unpacked.glob("image_[0-9][0-9][0-9][0-9].jpg")
        images = {file.stem: Encoded(str(file), file) for file in files}
    elif folder.is_dir() and any(entry.is_dir() for entry in folder.iterdir()):
        return flowers17_folder(folder, split, FLOWERS17_CLASSES, frame)
    else:
        archive = obtain(FLOWERS17, folder, download=download)
        members = read_members(archive, FLOWERS17.digest, r"jpg/image_\d{4}\.jpg")
        images = {n[4:14]: Encoded(f"{archive}, {n}", content) for n, content in members.items()}
    # The files are numbered from 1, eighty of each class: the number, not the place in the list,
    # gives the label, so that a missing file cannot shift the others.
    names = sorted(images)
    numbers = torch.tensor([int(name.removeprefix("image_")) for name in names], dtype=torch.int64)
    labels = (numbers - 1) // 80
    flowers = Images("flowers17", [images[n] for n in names], labels, FLOWERS17_CLASSES, frame)
    return flowers17_parts(flowers, split)


def _imagenet(folder: Path, split: Split | None, frame: Frame) -> Examples:
    if not folder.is_dir():
        part = folder / ("train" if split == "train" else "val")
        raise InputError(
            "imagenet",
            expected=f"class folders in {part}",
            got="no such folder",
            remedy="ImageNet is for registered users and never downloaded: get it from "
            f"https://image-net.org and put its images in {part}/CLASS",
        )
    return imagenet_folder(folder, split, frame)
