from __future__ import annotations

import math

import pytest
import torch

from attribound.bounding.cosine import cosine_and_degrees


def values(deviation, length, dtype=torch.float64):
    pair = cosine_and_degrees(*(torch.tensor([v], dtype=dtype) for v in (deviation, length)))
    return [tensor.item() for tensor in pair]


@pytest.mark.parametrize("ratio", [1e-9, 1e-4, 0.3, 0.999])
def test_corollary_2(ratio) -> None:
    cosine, degrees = values(2 * ratio, 2.0)
    assert degrees == pytest.approx(math.degrees(math.asin(ratio)), rel=1e-12)
    assert cosine == pytest.approx(2 * math.sin(math.asin(ratio) / 2) ** 2, rel=1e-12)


@pytest.mark.parametrize(("deviation", "length"), [(1.0, 1.0), (3.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_no_angle_is_bounded_once_the_origin_is_in_reach(deviation, length) -> None:
    assert values(deviation, length) == [2, 180]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_just_short_of_the_origin_is_no_number_that_is_none(dtype) -> None:
    """Rounded outwards the sine is above one there, which has no angle."""
    length = torch.ones(20, dtype=dtype)
    units = torch.arange(1, 21, dtype=dtype) * torch.finfo(dtype).eps
    cosine, degrees = cosine_and_degrees(length - units / 2, length)
    assert (cosine > 0.99).all()
    assert (degrees > 89).all()
    assert (cosine[0], degrees[0]) == (2, 180)
    assert degrees[-1] < 90


def test_bound_is_attained_by_the_tangent() -> None:
    """No point of the ball around g subtends a larger angle than the tangent to it."""
    g, radius = torch.tensor([2.0, 0.0], dtype=torch.float64), 0.7
    turns = torch.linspace(0, 2 * math.pi, 100001, dtype=torch.float64)
    points = g + radius * torch.stack([turns.cos(), turns.sin()], 1)
    largest = torch.atan2(points[:, 1], points[:, 0]).max().item()
    assert values(radius, 2.0)[1] == pytest.approx(math.degrees(largest), rel=1e-8)


def test_small_angles_survive_single_precision() -> None:
    assert values(1e-6, 1.0, torch.float32)[0] == pytest.approx(5e-13, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_is_outwards(dtype) -> None:
    """Against exact values: never below, and by a few units in the last place only."""
    mpmath = pytest.importorskip("mpmath")
    sines = torch.rand(200, dtype=dtype, generator=torch.Generator().manual_seed(0)) * 0.99
    length = torch.full_like(sines, 3.0)
    cosines, degrees = cosine_and_degrees(sines * 3, length)
    mpmath.mp.dps = 40
    for sine, cosine, angle in zip((sines * 3).tolist(), cosines, degrees, strict=True):
        exact = mpmath.asin(mpmath.mpf(sine) / 3)
        assert cosine.item() >= 1 - mpmath.cos(exact)
        assert angle.item() >= mpmath.degrees(exact)
        assert angle.item() <= mpmath.degrees(exact) * (1 + 1000 * torch.finfo(dtype).eps)
