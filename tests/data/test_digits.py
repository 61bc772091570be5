from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from attribound.data import arrays, load


def test_the_digits_in_two_fixed_parts() -> None:
    test, train = load("digits"), load("digits", "train")
    assert len(test) + len(train) == 1797
    assert test.shape == (1, 8, 8)
    assert test.classes == tuple("0123456789")
    x, y = arrays(test)
    assert (x.min(), x.max()) == (0, 1)
    assert torch.equal(arrays(load("digits", "test"))[0], x)
    originals = {
        image.tobytes(): label for image, label in zip(*load_digits(return_X_y=True), strict=True)
    }
    both = torch.cat([x, arrays(train)[0]]), torch.cat([y, train.labels])
    found = {
        (16 * image).double().numpy().tobytes(): int(label)
        for image, label in zip(*both, strict=True)
    }
    assert found == originals
