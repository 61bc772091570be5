from __future__ import annotations

import pytest
import torch

import attribound as ab
import cases
from attribound.attacks.objectives import Problem
from attribound.bounding.mean_value.secants import secants


def problem() -> Problem:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    target = attribution.targets(x)
    return Problem(attribution, x, target, attribution(x, target))


def not_below(floors: torch.Tensor, deviation: torch.Tensor) -> None:
    assert (floors.mean(0) >= deviation * (1 - 1e-12)).all()


@pytest.mark.parametrize("shells", [1, 3, 4])
def test_their_mean_is_at_least_the_deviation(shells) -> None:
    """So that a bound made of them cannot lie below the attack."""
    given = problem()
    torch.manual_seed(0)
    delta = torch.randn_like(given.x)
    deviation = (given.attribution(given.x + delta, given.target) - given.clean).norm(dim=1)
    floors = secants(given, delta, shells)
    assert floors.shape == (shells, len(given.x))
    not_below(floors, deviation)
    with pytest.raises(AssertionError):  # chords that are not scaled to the whole way
        not_below(floors / 1.001 if shells == 1 else floors / shells, deviation)


def test_are_below_the_norms_on_the_way() -> None:
    """Mean value inequality: a chord is at most the steepest point of its segment."""
    given = problem()
    torch.manual_seed(1)
    delta = 0.3 * torch.randn_like(given.x)
    floors = secants(given, delta, 4)
    for k in range(4):
        steepest = torch.zeros(len(given.x)).double()
        for t in torch.linspace(k / 4, (k + 1) / 4, 41).tolist():
            jacobian = given.attribution.linearize(given.x + t * delta, given.target).jacobian
            steepest = torch.maximum(steepest, jacobian.matvec(delta).norm(dim=1))
        assert (floors[k] <= steepest * (1 + 1e-4)).all()
