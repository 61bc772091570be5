"""Shifted and mirrored images against a slow re-implementation."""

from __future__ import annotations

import pytest
import torch

from attribound.basics.errors import InputError
from attribound.training.augmentation import crop_flip, crop_flip_draws


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
    draws = crop_flip_draws(12, torch.Generator().manual_seed(0))
    expected = torch.stack([slow(image, *d.tolist()) for image, d in zip(x, draws, strict=True)])
    assert torch.equal(crop_flip(x, draws), expected)
    broken = draws.clone()
    broken[:, 2] = 1 - broken[:, 2]
    assert not torch.equal(crop_flip(x, broken), expected)


def test_draws_cover_all_shifts_and_both_sides() -> None:
    draws = crop_flip_draws(2000, torch.Generator().manual_seed(0))
    assert set(draws[:, 0].tolist()) == set(draws[:, 1].tolist()) == set(range(9))
    assert 0.45 < draws[:, 2].double().mean() < 0.55


def test_rows_of_features_are_refused() -> None:
    with pytest.raises(InputError, match="augmentation: expected images"):
        crop_flip(torch.rand(2, 5), torch.zeros(2, 3))
