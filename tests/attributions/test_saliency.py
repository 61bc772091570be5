from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import attribound as ab
import cases
import laws


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


def test_closed_form_of_a_quadratic() -> None:
    saliency, x = cases.quadratic([-5.0, 3.0, 1.0])
    matrix, slope = saliency.classifier.model.matrices[0], saliency.classifier.model.slopes[0]
    torch.testing.assert_close(saliency(x), x @ matrix + slope)
    laws.equals_dense(saliency.linearize(x).jacobian, matrix.expand(len(x), 3, 3))
