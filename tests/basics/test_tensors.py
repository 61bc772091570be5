from __future__ import annotations

import math

import pytest
import torch

from attribound.basics.tensors import angle_degrees, dot, norm, per_example, ratio, round_up, unit

A = torch.arange(12.0).double().reshape(2, 2, 3) - 4


def test_dot_and_norm_are_per_example() -> None:
    torch.testing.assert_close(dot(A, A), (A**2).sum((1, 2)))
    torch.testing.assert_close(norm(A), (A**2).sum((1, 2)).sqrt())
    torch.testing.assert_close(norm(A, math.inf), A.abs().amax((1, 2)))


def test_per_example_scales_rows() -> None:
    scaled = A * per_example(torch.tensor([1.0, 10.0]), A)
    torch.testing.assert_close(scaled[1], 10 * A[1])


def test_unit_leaves_zero_alone() -> None:
    torch.testing.assert_close(
        norm(unit(torch.stack([A[0], 0 * A[0]]))), torch.tensor([1.0, 0.0]).double()
    )


@pytest.mark.parametrize("degrees", [1e-7, 1e-3, 30.0, 90.0, 179.999, 180.0])
def test_angle_keeps_its_digits(degrees) -> None:
    radians = math.radians(degrees)
    a = torch.tensor([[2.0, 0.0]]).double()
    b = 3 * torch.tensor([[math.cos(radians), math.sin(radians)]], dtype=torch.float64)
    torch.testing.assert_close(angle_degrees(a, b).item(), degrees, rtol=1e-9, atol=1e-12)


def test_angle_with_a_zero_vector_is_180() -> None:
    assert angle_degrees(A, 0 * A).tolist() == [180, 180]
    assert angle_degrees(0 * A, 0 * A).tolist() == [180, 180]


def test_ratio_of_zeros_is_zero() -> None:
    assert ratio(torch.tensor([0.0, 1.0, 1.0]), torch.tensor([0.0, 0.0, 2.0])).tolist() == [
        0,
        math.inf,
        0.5,
    ]


def test_round_up_never_rounds_down() -> None:
    values = torch.rand(1000, generator=torch.Generator().manual_seed(0)).double() * 1.0000001
    single = round_up(values, torch.zeros(1))
    assert single.dtype == torch.float32
    assert (single.double() >= values).all()
    assert (single.double() <= values * (1 + 2**-22)).all()
    assert round_up(torch.tensor([1e-60], dtype=torch.float64), torch.zeros(1)) > 0
