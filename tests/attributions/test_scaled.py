from __future__ import annotations

import pytest
import torch

import cases
import laws
from attribound.attributions.scaled import ScaledGradientJacobian
from attribound.operators import DenseOperator

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
