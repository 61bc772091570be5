from __future__ import annotations

import pytest
import torch

from attribound import metrics
from attribound.training.similarity import cosine, pearson


@pytest.fixture
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(4, 2, 3).double(), torch.randn(4, 2, 3).double() + 1


def test_are_those_of_the_reports(pair) -> None:
    torch.testing.assert_close(cosine(*pair), 1 - metrics.cosine(*pair))
    torch.testing.assert_close(pearson(*pair), metrics.pearson(*pair))


def test_derivatives_agree_with_finite_differences(pair) -> None:
    a, b = (z.clone().requires_grad_() for z in pair)
    for similarity in (cosine, pearson):
        assert torch.autograd.gradcheck(similarity, (a, b))
        assert torch.autograd.gradgradcheck(similarity, (a, b))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_small_and_large_maps_neither_vanish_nor_overflow(pair, scale: float) -> None:
    a, b = (z.float() for z in pair)
    for similarity in (cosine, pearson):
        torch.testing.assert_close(similarity(scale * a, b), similarity(a, b))


@pytest.mark.parametrize("similarity", [cosine, pearson])
def test_zero_maps_give_zero_and_finite_derivatives(similarity) -> None:
    zero, other = torch.zeros(2, 3, requires_grad=True), torch.rand(2, 3, requires_grad=True)
    for a, b in ((zero, other), (other, zero), (zero, zero)):
        value = similarity(a, b)
        assert torch.equal(value, torch.zeros(2))
        slope = torch.autograd.grad(value.sum(), zero, create_graph=True)[0]
        assert torch.isfinite(slope).all()
        again = torch.autograd.grad(slope.sum() + 0 * zero.sum(), [zero, other], allow_unused=True)
        assert all(torch.isfinite(g).all() for g in again if g is not None)
