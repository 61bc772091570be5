from __future__ import annotations

import pytest
import torch

import attribound as ab
from attribound.data import split
from attribound.data.examples import InMemory
from attribound.data.splits import hold_out


def numbered(count: int, classes: int = 1) -> InMemory:
    """Examples that are their own index."""
    rows = torch.arange(count, dtype=torch.float32)[:, None]
    return InMemory(
        "numbered", rows, torch.arange(count) % classes, [str(c) for c in range(classes)]
    )


def members(part: InMemory) -> list[int]:
    return [int(x) for x, _ in part]


def check_disjoint(parts: list[list[int]], total: int) -> None:
    everything = [index for part in parts for index in part]
    assert len(set(everything)) == len(everything)
    assert set(everything) <= set(range(total))


@pytest.mark.parametrize("sizes", [(60, 30, 10), (0.6, 0.3, 0.1), (50, 0, 20), (0.7, 0.2, 0.1), ()])
def test_parts_are_disjoint_and_of_the_size_asked_for(sizes) -> None:
    parts = split(numbered(100), sizes, seed=3)
    counts = [size if isinstance(size, int) else round(100 * size) for size in sizes]
    assert [len(part) for part in parts] == counts
    check_disjoint([members(part) for part in parts], 100)


def test_the_check_sees_an_overlap() -> None:
    with pytest.raises(AssertionError):
        check_disjoint([[0, 1, 2], [2, 3]], 100)


def test_a_seed_gives_the_same_parts_always() -> None:
    """The numbers themselves: they must not change with the machine or the version."""
    first, second = split(numbered(10), (4, 3), seed=0)
    assert members(first) == [4, 1, 7, 5]
    assert members(second) == [3, 9, 0]
    assert members(split(numbered(10), (4, 3), seed=1)[0]) != members(first)
    torch.manual_seed(7)  # the global generator plays no part
    assert members(split(numbered(10), (4,), seed=0)[0]) == members(first)


def test_labels_go_with_their_examples() -> None:
    (part,) = split(numbered(30, classes=3), (20,))
    assert all(int(x) % 3 == y for x, y in part)
    assert part.classes == ("0", "1", "2")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((60, 41), r"expected parts of 100 examples, got \[60, 41\]; lower them"),
        ((0.6, 0.5), r".* got \[0.6, 0.5\]"),
        ((0.5, 10), r"expected only numbers of examples, or only fractions, got \[0.5, 10\]"),
        ((-1,), "expected numbers of examples .*, got -1"),
        ((1.5,), "expected .* fractions from 0.0 to 1.0 .*, got 1.5"),
        ((True,), ".*, got True; write 1 for one example"),
    ],
)
def test_refuses_impossible_sizes(sizes, message) -> None:
    with pytest.raises(ab.InputError, match=f"^sizes: {message}"):
        split(numbered(100), sizes)


def test_held_out_parts_are_the_same_share_of_every_class() -> None:
    data = numbered(100, classes=4)
    test, train, default = (hold_out(data, which, 0.2) for which in ("test", "train", None))
    assert torch.bincount(test.labels).tolist() == [5, 5, 5, 5]
    check_disjoint([members(test), members(train)], 100)
    assert len(test) + len(train) == 100
    assert members(default) == members(test) == sorted(members(test))
    assert members(test) != list(range(20))
