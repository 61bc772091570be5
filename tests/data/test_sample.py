from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
import torch

import attribound as ab
from attribound.data import arrays, load
from shared import needed

DEBIAN = Path("/usr/share/datasets/fashion-mnist")


def test_the_sample_needs_no_files_and_no_network(tmp_path) -> None:
    sample = load("fashion-mnist-sample", root=tmp_path, download=False)
    x, y = arrays(sample)
    assert x.shape == (128, 1, 28, 28)
    assert (x.min(), x.max()) == (0, 1)
    assert sample.classes[int(y[0])] == "Ankle boot"
    assert torch.equal(arrays(load("fashion-mnist-sample", "test"))[0], x)


def test_it_is_the_beginning_of_the_test_part() -> None:
    needed(DEBIAN, "apt-get install dataset-fashion-mnist")
    whole = load("fashion-mnist", "test", root=DEBIAN.parent)
    sample = load("fashion-mnist-sample")
    first = torch.arange(len(sample))
    assert torch.equal(sample.read(first), whole.read(first))
    assert torch.equal(sample.labels, whole.labels[first])
    assert sample.classes == whole.classes


def test_no_test_image_is_called_training_data() -> None:
    with pytest.raises(ab.InputError, match="it has test images only"):
        load("fashion-mnist-sample", "train")


def test_its_licence_comes_with_it() -> None:
    folder = resources.files("attribound.data") / "samples"
    licence = (folder / "LICENSE-fashion-mnist.txt").read_text()
    assert "Zalando SE" in licence
    assert "Permission is hereby granted, free of charge" in licence
    assert len((folder / "fashion-mnist.npz").read_bytes()) < 80_000
