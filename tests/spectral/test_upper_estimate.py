from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attribound.spectral.upper_estimate import largest_root, log_component


@pytest.mark.parametrize(
    ("theta", "product", "tau"),
    [([3.0], 2.0, 0.1), ([3.0, 1.0], 0.5, 1e-3), ([2.0, -1.0, 0.5], 4.0, 1e-6)],
)
def test_is_the_largest_root_of_the_polynomial(theta, product, tau) -> None:
    coefficients = np.poly(theta)
    coefficients[-1] -= product / tau
    roots = np.roots(coefficients)
    truth = float(roots.real[np.abs(roots.imag) < 1e-9].max())
    root = largest_root(
        torch.tensor([theta], dtype=torch.float64),
        torch.tensor([math.log(product)], dtype=torch.float64),
        math.log(tau),
    )
    torch.testing.assert_close(root.item(), truth, rtol=1e-9, atol=0)


def test_half_a_root_at_zero() -> None:
    """sqrt(t) (t - 1) = 6 at t = 4."""
    found = largest_root(
        torch.ones(1, 1).double(),
        torch.tensor([math.log(6)], dtype=torch.float64),
        0.0,
        half_at_zero=True,
    )
    torch.testing.assert_close(found.item(), 4.0, rtol=1e-12, atol=0)


def test_an_exhausted_space_leaves_the_ritz_value() -> None:
    theta = torch.tensor([[4.0, 1.0]]).double()
    assert largest_root(theta, torch.tensor([-math.inf]).double(), -10.0).item() == 4.0


@pytest.mark.parametrize("dimension", [1, 2, 3, 10, 784])
def test_component_is_smaller_only_with_the_stated_probability(dimension) -> None:
    """Sampled at a failure probability that can be seen."""
    failure = 0.2
    tau = math.exp(log_component(dimension, failure))
    generator = torch.Generator().manual_seed(dimension)
    draws = torch.randn(20000, dimension, generator=generator).double()
    component = (draws[:, 0] / draws.norm(dim=1)).abs()
    share = (component < tau).double().mean().item()
    assert share <= failure + 3 * math.sqrt(failure * (1 - failure) / 20000)
    if dimension > 3:
        assert share > 0.8 * failure  # and not by being useless
