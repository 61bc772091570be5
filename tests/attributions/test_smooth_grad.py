from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import attribound as ab
import cases
import laws

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
    with pytest.raises(ab.InputError, match=r"SmoothGrad: expected .*samples"):
        ab.SmoothGrad(cases.tabular()[0], **settings)
