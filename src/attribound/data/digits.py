"""The 8 x 8 handwritten digits that come with scikit-learn."""

from __future__ import annotations

import torch

from attribound.basics.packages import package
from attribound.data.examples import InMemory
from attribound.data.splits import Split, hold_out


def digits(split: Split | None) -> InMemory:
    """1,797 grey images ``(1, 8, 8)``; a fixed fifth of every class is the test part.

    Raises:
        InputError: scikit-learn is not installed.
    """
    bunch = package("sklearn.datasets", extra="demo", purpose="digits").load_digits()
    images = torch.as_tensor(bunch.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.as_tensor(bunch.target)
    whole = InMemory("digits", images, labels, [str(digit) for digit in range(10)])
    return hold_out(whole, split, 0.2)
