"""What is held out, the order of examples, the fingerprint."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attribound.basics.errors import InputError
from attribound.training.config import Data
from attribound.training.parts import batch_count, batch_rows, load_parts
from attribound.training.seeds import derived


def epoch_order(seed: int, epoch: int) -> list[int]:
    steps = range(epoch * 4, epoch * 4 + 4)
    return torch.cat([batch_rows(14, 4, seed, step, 4) for step in steps]).tolist()


def test_an_epoch_sees_each_example_once_in_an_order_of_its_own() -> None:
    orders = [epoch_order(seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert all(sorted(order) == list(range(14)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    assert orders[0] == epoch_order(0, 0)


def test_a_batch_without_an_example_for_each_device_is_left_out() -> None:
    assert [batch_count(n, 4, 2) for n in (8, 9, 10)] == [2, 2, 3]
    assert batch_count(9, 4, 1) == 3


def test_parts_are_disjoint_and_follow_the_seed_of_the_data() -> None:
    parts = load_parts(Data("digits", limit=100, held_out=30))
    assert (len(parts.train), len(parts.held_out)) == (70, 30)
    rows = [part.read(torch.arange(len(part))).flatten(1) for part in (parts.train, parts.held_out)]
    assert torch.cdist(*rows).min() > 0
    again = load_parts(Data("digits", limit=100, held_out=30))
    assert again.fingerprint == parts.fingerprint
    assert load_parts(Data("digits", limit=100, held_out=30, seed=1)).fingerprint != (
        parts.fingerprint
    )


def test_the_fingerprint_sees_a_pixel_and_a_label(tmp_path) -> None:
    def fingerprint(x, y) -> str:
        np.savez(tmp_path / "x.npz", x=x, y=y)
        return load_parts(Data(str(tmp_path / "x.npz"), part="whole", held_out=0)).fingerprint

    x, y = np.zeros((5, 3), np.float32), np.array([0, 1, 0, 1, 2])
    moved, relabelled = x.copy(), y.copy()
    moved[3, 1], relabelled[0] = 1e-3, 1
    assert len({fingerprint(x, y), fingerprint(moved, y), fingerprint(x, relabelled)}) == 3


@pytest.mark.parametrize("data", [Data(held_out=100, limit=100), Data(limit=10**6)])
def test_more_than_there_is_is_refused(data) -> None:
    with pytest.raises(InputError, match="data: expected limit up to 1438"):
        load_parts(data)


def test_seeds_keep_their_arguments_apart() -> None:
    assert derived(1, "a", 23) != derived(12, "a", 3) != derived(1, "a", 2, 3)
    assert all(0 <= derived(0, "a", i) < 2**63 for i in range(100))
