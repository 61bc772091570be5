from __future__ import annotations

import pytest
import torch
from torch import Tensor

import cases
from attribound.attacks.objectives import Problem
from attribound.attributions import Saliency
from attribound.training.groups import POINTS_AT_ONCE, GroupedScore, groups, mean_over_examples


@pytest.fixture(params=[1, 4, 64])
def points_at_once(request, monkeypatch) -> int:
    monkeypatch.setitem(POINTS_AT_ONCE, "cpu", request.param)
    return request.param


def test_groups_cover_the_batch_and_fit(points_at_once: int) -> None:
    x = torch.zeros(11, 2)
    for points in (1, 2, 5):
        rows = list(groups(x, points))
        assert torch.cat([torch.arange(11)[part] for part in rows]).tolist() == list(range(11))
        sizes = [part.stop - part.start for part in rows]
        assert max(sizes) == 1 or max(sizes) * points <= points_at_once


def test_mean_and_gradient_are_those_of_the_whole_batch(points_at_once: int) -> None:
    model, x = cases.tabular()
    unused = torch.nn.Linear(2, 2).double()
    both = torch.nn.ModuleList([model, unused])
    weights = torch.tensor([1.0, 2.0, -1.0, 0.5, 3.0]).double()

    def term(rows: slice) -> Tensor:
        return weights[rows] * model(x[rows]).pow(2).sum(1)

    value = mean_over_examples(both, x, 2, term)
    parameters = list(model.parameters())
    found = torch.autograd.grad(3 * value, [*parameters, *unused.parameters()], allow_unused=True)
    whole = term(slice(0, 5)).mean()
    torch.testing.assert_close(value, whole)
    for a, b in zip(found, torch.autograd.grad(3 * whole, parameters), strict=False):
        torch.testing.assert_close(a, b)
    assert found[-1] is None


def test_parameters_that_some_groups_do_not_use_keep_their_gradient(monkeypatch) -> None:
    monkeypatch.setitem(POINTS_AT_ONCE, "cpu", 1)
    model = torch.nn.ModuleList([torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)])
    x = torch.rand(3, 2)
    mean_over_examples(model, x, 1, lambda rows: model[rows.start % 2](x[rows])[:, 0]).backward()
    torch.testing.assert_close(model[0].weight.grad[0], (x[0] + x[2]) / 3)
    torch.testing.assert_close(model[1].weight.grad[0], x[1] / 3)


def test_without_gradients_only_the_value_is_computed() -> None:
    model, x = cases.tabular()
    with torch.no_grad():
        silent = mean_over_examples(model, x, 1, lambda rows: model(x[rows]).sum(1))
    assert not silent.requires_grad
    torch.testing.assert_close(silent, model(x).sum(1).mean().detach())
    model.requires_grad_(False)
    assert not mean_over_examples(model, x, 1, lambda rows: model(x[rows]).sum(1)).requires_grad


def test_a_climb_has_the_scores_and_slopes_of_the_whole_batch(points_at_once: int) -> None:
    model, x = cases.tabular()
    problem = Problem(Saliency(model), x, torch.zeros(5, dtype=torch.long), x)
    climb = GroupedScore(lambda moved, rows: (moved - 0.1 * x[rows]).pow(3).sum(1), points=2)
    here = climb.evaluate(problem, x, slope=True)
    torch.testing.assert_close(here.score, (0.9 * x).pow(3).sum(1))
    torch.testing.assert_close(here.slope, 3 * (0.9 * x).pow(2))
    assert climb.evaluate(problem, x, slope=False).slope is None
    assert climb.cost(problem) == 4
