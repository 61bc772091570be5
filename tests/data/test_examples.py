from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

import attribound as ab
from attribound.basics.errors import MemoryLimitError
from attribound.data import arrays
from attribound.data.examples import InMemory

PIXELS = torch.arange(5 * 12, dtype=torch.uint8).reshape(5, 1, 3, 4)
LABELS = torch.tensor([0, 1, 2, 1, 0])


def images() -> InMemory:
    return InMemory("tiny", PIXELS, LABELS, ["a", "b", "c"])


def one_by_one(dataset: Dataset) -> tuple[Tensor, Tensor]:
    pairs = [dataset[index] for index in range(len(dataset))]
    return torch.stack([x for x, _ in pairs]), torch.tensor([y for _, y in pairs])


def test_gives_scaled_floats_and_plain_labels() -> None:
    data = images()
    x, y = data[4]
    assert x.dtype == torch.float32
    torch.testing.assert_close(x, PIXELS[4].float() / 255, rtol=0, atol=0)
    assert type(y) is int
    assert y == 0
    assert (data.name, data.classes, data.shape, len(data)) == (
        "tiny",
        ("a", "b", "c"),
        (1, 3, 4),
        5,
    )
    assert repr(data) == "InMemory('tiny', 5 examples of shape (1, 3, 4), 3 classes)"


def test_counts_from_the_end_and_stops_there() -> None:
    data = images()
    assert torch.equal(data[-1][0], data[4][0])
    assert len(list(data)) == 5
    for outside in (5, -6):
        with pytest.raises(IndexError, match="tiny: no example"):
            data[outside]


def test_features_are_left_as_they_are() -> None:
    rows = torch.tensor([[-3.0, 1e6], [0.5, 2.0]], dtype=torch.float64)
    x, _ = arrays(InMemory("rows", rows, torch.tensor([0, 0]), ["only"]))
    assert torch.equal(x, rows.float())


def test_everything_at_once_is_what_comes_one_by_one() -> None:
    x, y = arrays(images())
    for all_at_once, single in zip((x, y), one_by_one(images()), strict=True):
        assert all_at_once.dtype == single.dtype
        assert torch.equal(all_at_once, single)


def test_a_wrong_order_would_be_seen() -> None:
    assert not torch.equal(
        arrays(images())[0], one_by_one(images().select(torch.arange(5).flip(0)))[0]
    )


def test_arrays_of_parts_and_of_other_data() -> None:
    part = Subset(images(), [3, 0])
    for data in (part, images().select(torch.tensor([3, 0])), list(part)):
        x, y = arrays(data)
        assert torch.equal(x, PIXELS[[3, 0]] / 255)
        assert y.tolist() == [1, 0]


def test_labels_given_away_are_a_copy() -> None:
    data = images()
    arrays(data)[1].zero_()
    assert data.labels.tolist() == LABELS.tolist()


def test_too_much_for_one_array() -> None:
    with pytest.raises(MemoryLimitError, match=r"tiny: expected at most 1e-09 GiB.*DataLoader"):
        arrays(images(), limit_gib=1e-9)


def test_works_with_a_loader_and_survives_pickling() -> None:
    batches = list(DataLoader(pickle.loads(pickle.dumps(images())), batch_size=2))
    assert [x.shape[0] for x, _ in batches] == [2, 2, 1]
    assert torch.equal(torch.cat([y for _, y in batches]), LABELS)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS[:4], "expected as many labels as examples, got 5 examples and 4 labels"),
        (LABELS + 1, r"expected labels from 0 to 2, got 3 \(1 of 5 are outside\)"),
        (LABELS - 1, r"expected labels from 0 to 2, got -1 \(2 of 5"),
        (LABELS.double(), r"expected one whole number .*, got float64 labels of shape \(5,\)"),
        (LABELS[:, None], r"expected one whole number .*, got int64 labels of shape \(5, 1\)"),
    ],
)
def test_refuses_labels_that_do_not_fit(labels, message) -> None:
    with pytest.raises(ab.InputError, match=f"^tiny: {message}"):
        InMemory("tiny", PIXELS, labels, ["a", "b", "c"])
