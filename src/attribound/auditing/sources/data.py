"""Load the examples of an audit."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from attribound import data
from attribound.basics.errors import InputError
from attribound.data import Examples, Layout, Split


def load_data(
    spec: str,
    split: str | None = None,
    size: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    layout: Layout | None = None,
) -> Examples:
    """The data set of that name or path (see ``attribound.data.load``), or ``limit`` of it.

    Which examples a ``limit`` takes is said by :func:`chosen`. Names of classes are passed
    on as they are, whatever characters they have.
    """
    examples = data.load(spec, cast("Split | None", split), size=size, layout=layout)
    return examples if limit is None else examples.select(chosen(len(examples), limit, seed))


def chosen(total: int, limit: int | None, seed: int = 0, skip: int = 0) -> Tensor:
    """Indices of the examples an audit takes, ascending: ``limit`` of a shuffle after ``skip``.

    The shuffle depends on ``seed`` and ``total`` alone, so a larger limit adds examples to
    those of a smaller one, and ``skip`` leaves out what an audit with that limit takes.
    Without a limit, or with a larger one: all that are left.

    >>> chosen(1000, 3), chosen(4, None)
    (tensor([ 37,  44, 675]), tensor([0, 1, 2, 3]))
    >>> chosen(4, 1), chosen(4, None, skip=1)
    (tensor([0]), tensor([1, 2, 3]))
    """
    if limit is not None and limit < 1:
        raise InputError(
            "limit",
            expected="1 or more examples",
            got=str(limit),
            remedy="leave it out to take all",
        )
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    return order[skip : None if limit is None else skip + limit].sort().values
