"""Every probe lets the right function through and refuses one that is broken on purpose."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import attribound as ab
import cases
from attribound.basics.tensors import norm
from attribound.networks.probe import (
    probe_adjoint,
    probe_derivative,
    probe_determinism,
    probe_inputs,
    probe_separation,
    random_direction,
)
from attribound.operators import DenseOperator

X = torch.rand(1, 4, generator=torch.Generator().manual_seed(0)).double()
MATRIX = cases.random_operator(4, seed=0)


@pytest.mark.parametrize("x", [X, torch.zeros(3, 4), torch.ones(2, 1, 3)])
def test_probe_inputs_are_two_different_examples(x) -> None:
    pair = probe_inputs(x)
    assert pair.shape == (2, *x.shape[1:])
    assert torch.equal(pair[:1], x[:1])
    assert (pair[0] != pair[1]).all()


def test_the_random_direction_is_fixed_and_of_length_one() -> None:
    direction = random_direction(torch.zeros(3, 2, 5))
    assert torch.equal(direction, random_direction(torch.ones(3, 2, 5)))
    torch.testing.assert_close(norm(direction), torch.ones(3))


def test_determinism() -> None:
    probe_determinism("f", torch.tanh, X)
    probe_determinism("f", torch.zeros_like, X)
    for noisy in (lambda x: x + 0.01 * torch.rand_like(x), lambda x: x * torch.nan):
        with pytest.raises(ab.ProbeError, match="f: expected the same output for the same input"):
            probe_determinism("f", noisy, X)


def couple_by_value(x: Tensor) -> Tensor:
    return x + x.detach().mean(0)


def couple_by_derivative(x: Tensor) -> Tensor:
    """The rest of the batch moves nothing by value, only by its slope."""
    return x + x.sum(0) - x.detach().sum(0)


def test_separation() -> None:
    probe_separation("f", torch.tanh, X)
    probe_separation("f", torch.ones_like, X)
    for coupled in (lambda x: x - x.mean(0), couple_by_value, couple_by_derivative):
        with pytest.raises(ab.ProbeError, match="f: expected examples that do not see each other"):
            probe_separation("f", coupled, X)


@dataclass(frozen=True, eq=False)
class NotAdjoint(DenseOperator):
    def rmatvec(self, u: Tensor) -> Tensor:
        return self.matvec(u)


@dataclass(frozen=True, eq=False)
class NotAdjointColumn(DenseOperator):
    """Acts on (batch, n, 1)."""

    @property
    def domain(self) -> Tensor:
        return super().domain.unsqueeze(-1)

    @property
    def range(self) -> Tensor:
        return super().range.unsqueeze(-1)

    def matvec(self, v: Tensor) -> Tensor:
        return super().matvec(v.squeeze(-1)).unsqueeze(-1)

    def rmatvec(self, u: Tensor) -> Tensor:
        return self.matvec(u)


def test_adjoint() -> None:
    probe_adjoint("f", DenseOperator(MATRIX))
    probe_adjoint("f", DenseOperator(torch.zeros_like(MATRIX)))
    with pytest.raises(ab.ProbeError, match=r"f: expected forward and backward .* adjoint"):
        probe_adjoint("f", NotAdjoint(MATRIX))


def test_adjoint_where_the_last_axis_has_length_one() -> None:
    with pytest.raises(ab.ProbeError, match="adjoint"):
        probe_adjoint("f", NotAdjointColumn(MATRIX))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_derivative(dtype, scale) -> None:
    x = X.to(dtype)

    def value(x: Tensor) -> Tensor:
        return scale * torch.tanh(3 * x)

    def slope(v: Tensor) -> Tensor:
        return 3 * scale * (1 - torch.tanh(3 * x) ** 2) * v

    probe_derivative("f", value, x, slope)
    for factor in (0.0, -1.0, 0.8, 1.2, torch.nan):
        with pytest.raises(ab.ProbeError, match="f: expected derivatives that agree with finite"):
            probe_derivative("f", value, x, lambda v, factor=factor: factor * slope(v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_derivative_of_a_large_constant_is_zero(dtype) -> None:
    """Rounding is not held against it."""
    probe_derivative("f", lambda x: 1e6 + 0 * x, X.to(dtype), torch.zeros_like)


def test_derivative_in_single_precision_under_a_large_value() -> None:
    """The largest step still resolves a slope of one beside a value of 300."""
    x = X.float()
    probe_derivative("f", lambda x: 300 + x, x, torch.clone)
    with pytest.raises(ab.ProbeError, match="agree with finite differences"):
        probe_derivative("f", lambda x: 300 + x, x, torch.zeros_like)


def test_differences_that_have_not_settled_contradict_nothing() -> None:
    """A function that curves on the scale of the steps has no difference to compare with."""
    x = X.float()
    wild = 3e3  # a wave is shorter than most steps

    def slope(v: Tensor) -> Tensor:
        return wild * torch.cos(wild * x) * v

    probe_derivative("f", lambda x: torch.sin(wild * x), x, slope)
    with pytest.raises(ab.ProbeError, match="agree with finite differences"):
        probe_derivative("f", torch.sin, x, lambda v: 2 * torch.cos(x) * v)


def test_the_switch_of_a_softplus_contradicts_nothing() -> None:
    """Beyond it slopes are constant, and second derivatives by a formula are not quite zero."""
    x = torch.tensor([[0.25, 0.5]], dtype=torch.float64)

    def slope(x: Tensor) -> Tensor:
        return torch.where(100 * x > 20, 1.0, torch.sigmoid(100 * x))

    def product(v: Tensor) -> Tensor:
        share = torch.sigmoid(100 * x)
        return 100 * share * (1 - share) * v

    assert not (slope(x + 1e-4) - slope(x)).any()
    assert product(torch.ones_like(x)).max() > 0
    probe_derivative("model", slope, x, product)
    with pytest.raises(ab.ProbeError, match="finite differences"):
        probe_derivative("model", slope, x, lambda v: 1e-3 * v)
