"""The order of examples; shifted and mirrored images against a slow re-implementation."""

from __future__ import annotations

import pytest
import torch

from attribound.basics.errors import InputError
from attribound.training.draws import (
    batch_count,
    batch_rows,
    crop_flip,
    crop_flip_draws,
    derived,
)


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


def test_seeds_keep_their_arguments_apart() -> None:
    assert derived(1, "a", 23) != derived(12, "a", 3) != derived(1, "a", 2, 3)
    assert all(0 <= derived(0, "a", i) < 2**63 for i in range(100))


def slow(image: torch.Tensor, down: int, right: int, mirrored: int) -> torch.Tensor:
    """Pixel by pixel: crop the image with a border of 4 zeros, then mirror."""
    channels, height, width = image.shape
    result = torch.zeros_like(image)
    for c in range(channels):
        for i in range(height):
            for j in range(width):
                row, column = i + down - 4, j + right - 4
                if 0 <= row < height and 0 <= column < width:
                    result[c, i, j] = image[c, row, column]
    return result.flip(2) if mirrored else result


def test_each_image_is_cropped_and_mirrored_by_its_draws() -> None:
    x = torch.rand(12, 3, 6, 5)
    draws = crop_flip_draws(12, 0, 5)
    expected = torch.stack([slow(image, *d.tolist()) for image, d in zip(x, draws, strict=True)])
    assert torch.equal(crop_flip(x, draws), expected)
    broken = draws.clone()
    broken[:, 2] = 1 - broken[:, 2]
    assert not torch.equal(crop_flip(x, broken), expected)


def test_draws_cover_all_shifts_and_both_sides() -> None:
    draws = crop_flip_draws(2000, 0, 5)
    assert set(draws[:, 0].tolist()) == set(draws[:, 1].tolist()) == set(range(9))
    assert 0.45 < draws[:, 2].double().mean() < 0.55
    assert torch.equal(crop_flip_draws(2000, 0, 5), draws)
    for seed, step in ((1, 5), (0, 6)):
        assert not torch.equal(crop_flip_draws(2000, seed, step), draws)


def test_rows_of_features_are_refused() -> None:
    with pytest.raises(InputError, match="augmentation: expected images"):
        crop_flip(torch.rand(2, 5), torch.zeros(2, 3))
