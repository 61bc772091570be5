"""Parts of a data set, chosen at random from a seed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal, TypeVar

import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.data.examples import Examples

Split = Literal["train", "test"]
#: What to do with data that has no parts, for callers of :func:`attribound.data.load`.
UNDIVIDED = "leave split out to load everything, then divide it with attribound.data.split"

_AnyExamples = TypeVar("_AnyExamples", bound=Examples)


def split(
    dataset: _AnyExamples, sizes: Sequence[int] | Sequence[float], seed: int = 0
) -> tuple[_AnyExamples, ...]:
    """Disjoint random parts of ``dataset``, one for each of ``sizes``.

    Sizes are numbers of examples, or fractions between 0 and 1 (rounded down);
    what they leave over is in no part. The same data set, sizes and seed give
    the same parts on every machine, and a part depends only on the sizes up to
    its own.

    Raises:
        InputError: the sizes are not possible.
    """
    total = len(dataset)
    if len({type(size) for size in sizes}) > 1:
        raise InputError(
            "sizes",
            expected="only numbers of examples, or only fractions",
            got=f"{list(sizes)}",
            remedy="write all as int or all as float",
        )
    counts = [_count(size, total) for size in sizes]
    # 1e-9: fractions such as 0.7 + 0.2 + 0.1 add up to a little more than one.
    fractions = any(isinstance(size, float) for size in sizes)
    if sum(counts) > total or (fractions and sum(sizes) > 1 + 1e-9):
        raise InputError(
            "sizes",
            expected=f"parts of {total} examples",
            got=f"{list(sizes)}",
            remedy="lower them: parts do not overlap",
        )
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    ends = itertools.accumulate(counts)
    return tuple(
        dataset.select(order[end - count : end]) for count, end in zip(counts, ends, strict=True)
    )


def _count(size: float, total: int) -> int:
    if isinstance(size, float) and 0 <= size <= 1:
        return int(size * total + 1e-9)
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    raise InputError(
        "sizes",
        expected="numbers of examples (int) or fractions from 0.0 to 1.0 (float)",
        got=repr(size),
        remedy="write 1 for one example and 1.0 for all",
    )


def hold_out(dataset: _AnyExamples, which: Split | None, fraction: float) -> _AnyExamples:
    """A fixed test part, ``fraction`` of every class, or the rest: for data without official parts.

    ``None`` is the test part. Always the same: it stands in for an official split.
    """
    generator = torch.Generator().manual_seed(0)
    tests = []
    for label in range(len(dataset.classes)):
        members: Tensor = (dataset.labels == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator)
        tests.append(members[order[: round(fraction * len(members))]])
    held_out = torch.zeros(len(dataset), dtype=torch.bool)
    held_out[torch.cat(tests)] = True
    chosen = ~held_out if which == "train" else held_out
    return dataset.select(chosen.nonzero().flatten())


def whole(subject: str, which: Split | None) -> None:
    """Refuse to call data without a split of its own training or test data.

    Raises:
        InputError: a split was asked for.
    """
    if which is not None:
        raise InputError(
            subject,
            expected=f"a part for split={which!r}",
            got="one set without parts",
            remedy=UNDIVIDED,
        )
