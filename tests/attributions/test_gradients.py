"""Saliency, input x gradient and SmoothGrad, and their Jacobians."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import attribound as ab
import cases
import laws
from attribound.attributions.scaled import ScaledGradientJacobian
from attribound.operators import DenseOperator


@pytest.mark.parametrize("network", cases.NETWORKS)
def test_value_and_jacobian_are_gradient_and_hessian(network) -> None:
    model, x = cases.NETWORKS[network]()
    target = torch.arange(len(x)) % 2
    linear = ab.Saliency(model).linearize(x, target)
    with sdpa_kernel(SDPBackend.MATH):
        value = cases.gradient(model, x, target)
        hessian = cases.dense_jacobian(lambda p: cases.gradient(model, p, target), x)
    torch.testing.assert_close(linear.value, value.detach(), **laws.TIGHT)
    assert hessian.norm() > 1e-3
    laws.equals_dense(linear.jacobian, hessian)
    assert linear.jacobian.symmetric


def test_closed_form_of_a_quadratic_of_saliency() -> None:
    saliency, x = cases.quadratic([-5.0, 3.0, 1.0])
    matrix, slope = saliency.classifier.model.matrices[0], saliency.classifier.model.slopes[0]
    torch.testing.assert_close(saliency(x), x @ matrix + slope)
    laws.equals_dense(saliency.linearize(x).jacobian, matrix.expand(len(x), 3, 3))


@pytest.mark.parametrize("network", cases.NETWORKS)
def test_value_and_jacobian_equal_plain_autograd(network) -> None:
    model, x = cases.NETWORKS[network]()
    target = torch.arange(len(x)) % 2

    def slow(p: torch.Tensor) -> torch.Tensor:
        return p * cases.gradient(model, p, target)

    linear = ab.InputXGradient(model).linearize(x, target)
    with sdpa_kernel(SDPBackend.MATH):
        torch.testing.assert_close(linear.value, slow(x).detach(), **laws.TIGHT)
        laws.equals_dense(linear.jacobian, cases.dense_jacobian(slow, x))
    assert not linear.jacobian.symmetric


def test_closed_form_of_a_quadratic_of_input_x_gradient() -> None:
    """x * (Ax + b) has the Jacobian diag(Ax + b) + diag(x) A."""
    saliency, x = cases.quadratic([-5.0, 3.0, 1.0])
    model = saliency.classifier.model
    matrix, gradient = model.matrices[0], x @ model.matrices[0] + model.slopes[0]
    linear = ab.InputXGradient(model).linearize(x)
    torch.testing.assert_close(linear.value, x * gradient)
    laws.equals_dense(linear.jacobian, torch.diag_embed(gradient) + x.unsqueeze(-1) * matrix)


HALF = cases.random_operator(4, seed=0, batch=3)
HESSIAN = HALF + HALF.mT
GRADIENT, DISPLACEMENT = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).double()
JACOBIAN = ScaledGradientJacobian(GRADIENT, DISPLACEMENT, DenseOperator(HESSIAN))


def test_is_diag_gradient_plus_diag_displacement_times_hessian() -> None:
    rows = torch.diag_embed(GRADIENT) + DISPLACEMENT.unsqueeze(-1) * HESSIAN
    laws.equals_dense(JACOBIAN, rows)
    assert not torch.allclose(rows, rows.mT)
    assert not JACOBIAN.symmetric


@pytest.mark.parametrize("law", laws.OPERATOR_LAWS)
def test_laws(law) -> None:
    law(JACOBIAN)


def test_a_product_costs_what_the_hessian_costs() -> None:
    class Path(DenseOperator):
        points = 7

    assert ScaledGradientJacobian(GRADIENT, DISPLACEMENT, Path(HESSIAN)).points == 7
    assert JACOBIAN.domain.shape == (3, 4)


SAMPLES, SIGMA, SEED = 3, 0.2, 5


def slow(model, x: Tensor, target: Tensor) -> Tensor:
    """The mean over a plain loop, with the same noise and its graph."""
    generator = torch.Generator().manual_seed(SEED)
    noise = torch.randn((SAMPLES, *x.shape[1:]), generator=generator, dtype=torch.float64)
    return sum(cases.gradient(model, x + SIGMA * draw, target) for draw in noise) / SAMPLES


@pytest.mark.parametrize("network", cases.NETWORKS)
def test_value_and_jacobian_equal_a_loop_with_the_same_noise(network) -> None:
    model, x = cases.NETWORKS[network]()
    target = torch.arange(len(x)) % 2
    attribution = ab.SmoothGrad(model, SAMPLES, SIGMA, SEED)
    linear = attribution.linearize(x, target)
    with sdpa_kernel(SDPBackend.MATH):
        value = slow(model, x, target).detach()
        jacobian = cases.dense_jacobian(lambda p: slow(model, p, target), x)
    torch.testing.assert_close(attribution(x, target), value, **laws.TIGHT)
    torch.testing.assert_close(linear.value, value, **laws.TIGHT)
    laws.equals_dense(linear.jacobian, jacobian)


def test_is_deterministic_and_ignores_the_global_seed() -> None:
    model, x = cases.tabular()
    torch.manual_seed(1)
    first = ab.SmoothGrad(model)(x)
    state = torch.get_rng_state()
    assert torch.equal(ab.SmoothGrad(model)(x), first)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.allclose(ab.SmoothGrad(model, seed=1)(x), first)


def test_is_the_same_at_every_place_of_the_batch() -> None:
    model, x = cases.tabular()
    values = ab.SmoothGrad(model)(x[:1].expand(4, -1))
    torch.testing.assert_close(values, values[:1].expand(4, -1), rtol=0, atol=1e-12)


def test_without_noise_it_is_the_saliency() -> None:
    model, x = cases.tabular()
    torch.testing.assert_close(ab.SmoothGrad(model, sigma=0.0)(x), ab.Saliency(model)(x))


def test_draws_the_same_noise_in_single_precision() -> None:
    model, x = cases.tabular()
    double = ab.SmoothGrad(model)(x, 0)
    single = ab.SmoothGrad(model.float())(x.float(), 0)
    torch.testing.assert_close(single, double.float(), rtol=1e-4, atol=1e-5)


def test_is_called_smooth_grad() -> None:
    assert ab.SmoothGrad(cases.tabular()[0]).name == "smooth_grad"


@pytest.mark.parametrize(
    "settings",
    [
        {"samples": 0},
        {"samples": -3},
        {"samples": 2.5},
        {"sigma": -0.1},
        {"sigma": float("nan")},
        {"sigma": float("inf")},
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings) -> None:
    with pytest.raises(ab.InputError, match=r"^(samples|sigma): expected a .*, got .*; use"):
        ab.SmoothGrad(cases.tabular()[0], **settings)
