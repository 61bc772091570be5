from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import attribound as ab
import cases
import laws


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


def test_closed_form_of_a_quadratic() -> None:
    """x * (Ax + b) has the Jacobian diag(Ax + b) + diag(x) A."""
    saliency, x = cases.quadratic([-5.0, 3.0, 1.0])
    model = saliency.classifier.model
    matrix, gradient = model.matrices[0], x @ model.matrices[0] + model.slopes[0]
    linear = ab.InputXGradient(model).linearize(x)
    torch.testing.assert_close(linear.value, x * gradient)
    laws.equals_dense(linear.jacobian, torch.diag_embed(gradient) + x.unsqueeze(-1) * matrix)
