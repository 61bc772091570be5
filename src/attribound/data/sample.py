"""A few test images of Fashion-MNIST that come with the package, for a start without downloads."""

from __future__ import annotations

from importlib import resources

import numpy as np

from attribound.basics.errors import InputError
from attribound.data.examples import InMemory
from attribound.data.registry import IDX_SETS
from attribound.data.splits import Split
from attribound.data.values import array_examples

NAME = "fashion-mnist-sample"
_FILES = resources.files("attribound.data") / "samples"


def fashion_mnist_sample(split: Split | None) -> InMemory:
    """The first 128 images of the test part of Fashion-MNIST, ``(1, 28, 28)``.

    Enough to try something out and to divide for a calibration; too few to measure the
    accuracy of a network to better than a few percent.

    Raises:
        InputError: the training part was asked for.
    """
    if split == "train":
        raise InputError(
            NAME,
            expected="split='test', or none",
            got="'train'",
            remedy="it has test images only; load fashion-mnist for the training part",
        )
    with (_FILES / "fashion-mnist.npz").open("rb") as stream, np.load(stream) as file:
        classes = IDX_SETS["fashion-mnist"].classes
        return array_examples(NAME, file["images"], file["labels"], classes)
