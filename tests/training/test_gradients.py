from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
import cases
import slow_objectives as slow
from attribound.attributions.hessian import Path
from attribound.training.gradients import IG, along, loss, target_logit


@pytest.mark.parametrize("network", cases.NETWORKS)
@pytest.mark.parametrize("ig", [IG(4), IG(3, 0.3, "midpoint"), IG(2, -0.1, "gauss_legendre")])
def test_is_the_attribution_of_the_package(network: str, ig: IG) -> None:
    model, x = cases.NETWORKS[network]()
    y = torch.arange(len(x)) % 2
    expected = ab.IntegratedGradients(model, ig.steps, ig.baseline, ig.quadrature)(x, y)
    torch.testing.assert_close(ig(model, x, y).detach(), expected, rtol=1e-9, atol=1e-11)


def test_is_the_loop_over_examples_and_nodes() -> None:
    model, x = cases.tabular()
    y = torch.tensor([0, 1, 2, 0, 1])
    expected = torch.stack([slow.ig(model, row, int(c), 4) for row, c in zip(x, y, strict=True)])
    torch.testing.assert_close(IG(4)(model, x, y), expected)


def test_the_graph_leads_to_inputs_and_to_trained_parameters_only() -> None:
    model, x = cases.tabular()
    y = torch.zeros(5, dtype=torch.long)
    kept, *rest = model.parameters()
    kept.requires_grad_(False)
    point = x.clone().requires_grad_()
    total = IG(2)(model, point, y).pow(2).sum()
    found = torch.autograd.grad(total, [point, *rest], allow_unused=True)
    assert found[0].abs().max() > 0
    assert found[1].abs().max() > 0
    assert not IG(2)(model, x, y, again=False).requires_grad


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
    IG(2)(model, x, torch.zeros(4, dtype=torch.long))
    assert torch.equal(x, before)


def test_refuses_what_is_no_rule() -> None:
    with pytest.raises(ab.InputError, match="steps: expected a whole number of at least 1"):
        IG(0)
    with pytest.raises(ab.InputError, match="quadrature: expected one of riemann_right"):
        IG(quadrature="simpson")
    with pytest.raises(ab.InputError, match="baseline: expected a finite number, got nan"):
        IG(baseline=math.nan)
