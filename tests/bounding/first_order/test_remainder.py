from __future__ import annotations

import pytest
import torch

import attribound as ab
import cases


def test_eta_is_zero_where_the_attribution_is_linear() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    found = ab.eta(attribution, x, 0.1 * x)
    assert found.eta.max() < 1e-12
    assert found.deviation.min() > 0.01


def test_eta_has_the_right_sign_and_order() -> None:
    """Halving delta quarters it; with the paper's sign it would be about twice the deviation."""
    model, x = cases.tabular()
    attribution = ab.IntegratedGradients(model, steps=5)
    delta = 0.02 * torch.ones_like(x)
    whole, half = ab.eta(attribution, x, delta), ab.eta(attribution, x, delta / 2)
    torch.testing.assert_close(
        whole.eta / half.eta, torch.full((5,), 4.0).double(), rtol=0.1, atol=0
    )
    assert (whole.relative < 0.1).all()


@pytest.mark.parametrize("delta", [torch.zeros(1, 3), 0.1])
def test_refuses_a_perturbation_of_another_shape(delta) -> None:
    attribution, x = cases.quadratic([1.0, 2.0, 3.0])
    with pytest.raises(ab.InputError, match="delta: expected a tensor of the input's shape"):
        ab.eta(attribution, x, delta)
