from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
import cases
import slow_objectives as slow
from attribound import metrics
from attribound.networks.path import Path
from attribound.training import AdvAAT, ATWithIGR
from attribound.training.maps import along, cosine, explained, loss, pearson, target_logit

IG = ab.IntegratedGradients


@pytest.mark.parametrize("network", cases.NETWORKS)
@pytest.mark.parametrize(
    "ig",
    [
        IG(steps=4),
        IG(steps=3, baseline=0.3, quadrature="midpoint"),
        IG(steps=2, baseline=-0.1, quadrature="gauss_legendre"),
        IG(steps=3, multiply_by_inputs=False),
    ],
)
def test_is_the_attribution_of_the_package(network: str, ig: IG) -> None:
    model, x = cases.NETWORKS[network]()
    y = torch.arange(len(x)) % 2
    found = explained(ig, model, x, y).detach()
    torch.testing.assert_close(found, ig.of(model)(x, y), rtol=1e-9, atol=1e-11)


def test_a_baseline_of_features_is_that_of_every_example() -> None:
    model, x = cases.tabular()
    y = torch.zeros(len(x), dtype=torch.long)
    ig = IG(steps=3, baseline=0.1 * x[0])
    torch.testing.assert_close(explained(ig, model, x, y).detach(), ig.of(model)(x, y))
    with pytest.raises(ab.InputError, match=r"ig\.baseline: .*same for all examples, got shape"):
        explained(IG(baseline=x), model, x, y)


def test_is_the_loop_over_examples_and_nodes() -> None:
    model, x = cases.tabular()
    y = torch.tensor([0, 1, 2, 0, 1])
    expected = torch.stack([slow.ig(model, row, int(c), 4) for row, c in zip(x, y, strict=True)])
    torch.testing.assert_close(explained(IG(steps=4), model, x, y), expected)


def test_the_graph_leads_to_inputs_and_to_trained_parameters_only() -> None:
    model, x = cases.tabular()
    y = torch.zeros(5, dtype=torch.long)
    kept, *rest = model.parameters()
    kept.requires_grad_(False)
    point = x.clone().requires_grad_()
    total = explained(IG(steps=2), model, point, y).pow(2).sum()
    found = torch.autograd.grad(total, [point, *rest], allow_unused=True)
    assert found[0].abs().max() > 0
    assert found[1].abs().max() > 0
    assert not explained(IG(steps=2), model, x, y, again=False).requires_grad


def test_attributions_of_the_loss_sum_to_its_change() -> None:
    """Completeness, with nodes enough."""
    model, x = cases.tabular()
    y = torch.tensor([0, 1, 2, 0, 1])
    nodes, weights = ab.attributions.quadrature.rule("gauss_legendre", 20)
    moved = x + 0.3
    for score in (loss, target_logit):
        scores = along(model, Path(x, moved - x, nodes, weights, y), score)
        change = score(model(moved), y) - score(model(x), y)
        torch.testing.assert_close(scores.sum(1), change, rtol=1e-8, atol=1e-10)


def test_models_that_work_in_place_are_given_a_copy() -> None:
    model = torch.nn.Sequential(torch.nn.ReLU(inplace=True), torch.nn.Linear(3, 2)).double()
    x = torch.randn(4, 3).double()
    before = x.clone()
    explained(IG(steps=2), model, x, torch.zeros(4, dtype=torch.long))
    assert torch.equal(x, before)


@pytest.mark.parametrize("method", [AdvAAT, ATWithIGR])
def test_refuses_a_baseline_that_is_none(method) -> None:
    with pytest.raises(ab.InputError, match=r"ig\.baseline: expected finite numbers, got NaN"):
        method(ig=IG(baseline=math.nan))


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
