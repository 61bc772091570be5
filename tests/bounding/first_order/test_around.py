"""What is around the first-order bound: remainder, adjustment, labels, unit balls."""

from __future__ import annotations

import math
import time

import pytest
import torch
from torch import Tensor, nn

import attribound as ab
import cases
from attribound.attributions import Linearization
from attribound.bounding.first_order import first_order, first_order_in_balls
from attribound.bounding.first_order.label_constraint import label_constraint
from attribound.bounding.first_order.sensitivity import sensitivity
from attribound.bounding.first_order.unit_balls import UnitBalls
from attribound.bounding.method import Question
from attribound.spectral import NormSolver, SpectralSolver


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


class Quartic(nn.Module):
    """f = x²/2 + k x³/6 + x⁴: the saliency x + k x²/2 + 4x³ bends, and not alike to both sides."""

    def __init__(self, bend: float) -> None:
        super().__init__()
        self.bend = bend

    def forward(self, x: Tensor) -> Tensor:
        score = (x**2 / 2 + self.bend * x**3 / 6 + x**4).sum(1)
        return torch.stack([score + 5, 0 * score], 1)


def deviation(bend: float, x: float, delta: float) -> float:
    def slope(z: float) -> float:
        return z + bend * z**2 / 2 + 4 * z**3

    return abs(slope(x + delta) - slope(x))


def test_is_the_largest_of_first_order_and_both_ends() -> None:
    """The same network mirrored: once the one end wins, once the other."""
    winners = set()
    for side in (1, -1):
        x = torch.tensor([[0.4 * side]], dtype=torch.float64)
        bound = ab.bound(ab.Saliency(Quartic(3.0 * side)), x, ab.L2Ball(0.3))
        plus, minus = (deviation(3.0 * side, 0.4 * side, 0.3 * sign) for sign in (1, -1))
        winners.add(plus > minus)
        torch.testing.assert_close(
            bound.adjusted.item(), max(bound.euclidean.item(), plus, minus), rtol=1e-6, atol=0
        )
        assert bound.c.item() > 1
    assert winners == {True, False}


def test_c_is_one_where_the_attribution_is_linear_along_v() -> None:
    x = torch.tensor([[-0.1]]).double()
    bound = ab.bound(ab.Saliency(Quartic(0.0)), x, ab.L2Ball(1e-6))
    torch.testing.assert_close(bound.c.item(), 1.0, rtol=1e-4, atol=0)


def test_normal_and_margin_are_those_of_the_logits() -> None:
    model, x = cases.tabular()
    classifier = ab.Classifier(model)
    target = classifier.targets(x)
    found = label_constraint(classifier, x, target, 0 * x)
    logits = model(x).detach()
    order = logits.argsort(1, descending=True)
    assert torch.equal(found.runner_up, order[:, 1])
    torch.testing.assert_close(
        found.margin, logits.gather(1, order[:, :1])[:, 0] - logits.gather(1, order[:, 1:2])[:, 0]
    )
    expected = cases.gradient(model, x, order[:, 1]) - cases.gradient(model, x, target)
    torch.testing.assert_close(found.normal, expected.detach())
    assert found.attained.all()
    assert not found.misclassified.any()


def test_normal_is_the_papers_by_completeness() -> None:
    """M = (J_y'ᵀ - J_yᵀ) 1 of integrated gradients, when the quadrature is exact enough."""
    model, x = cases.tabular()
    attribution = ab.IntegratedGradients(model, steps=30, quadrature="gauss_legendre")
    bound = ab.bound(attribution, x, ab.L2Ball(0.1))
    ones = torch.ones_like(x)
    columns = [
        attribution.linearize(x, labels).jacobian.rmatvec(ones)
        for labels in (bound.label.runner_up, bound.target)
    ]
    torch.testing.assert_close(bound.label.normal, columns[0] - columns[1], rtol=1e-6, atol=1e-9)


def test_feasibility_of_both_ends() -> None:
    """f0 - f1 = 1 - 2 x_0: the label turns at x_0 = 0.5."""
    slopes = torch.tensor([[-2.0, 0.0], [0.0, 0.0]]).double()
    model = torch.nn.Linear(2, 2).double()
    model.weight.data, model.bias.data = slopes, torch.tensor([1.0, 0.0]).double()
    x, up = torch.zeros(1, 2).double(), torch.tensor([[1.0, 0.0]]).double()
    target = torch.zeros(1, dtype=torch.long)
    short, far = (label_constraint(ab.Classifier(model), x, target, r * up) for r in (0.4, 0.6))
    assert (short.plus_feasible.item(), short.minus_feasible.item()) == (True, True)
    assert (far.plus_feasible.item(), far.minus_feasible.item()) == (False, True)
    assert far.attained.item()
    rim = [label_constraint(ab.Classifier(model), x, target, r * up) for r in (0.5, -0.5)]
    ends = [(each.plus_feasible.item(), each.minus_feasible.item()) for each in rim]
    assert ends == [(False, True), (True, False)], "a tie keeps no label"


def test_misclassified_examples_are_flagged() -> None:
    model, x = cases.tabular()
    wrong = (model(x).argmax(1) + torch.tensor([1, 0, 0, 2, 0])) % 3
    bound = ab.bound(ab.Saliency(model), x, ab.L2Ball(0.1), target=wrong)
    assert bound.label.misclassified.tolist() == [True, False, False, True, False]
    assert [ab.Status.MISCLASSIFIED in status for status in bound.status] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert (bound.label.margin < 0).tolist() == [True, False, False, True, False]


def test_a_single_logit_has_no_rival() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    bound = ab.bound(ab.Saliency(model.double()), torch.rand(2, 3).double(), ab.L2Ball(0.1))
    assert not bound.label.misclassified.any()
    assert bound.label.normal.abs().max() == 0


BALLS = [
    ab.L2Ball(0.1),
    ab.L2Ball(0.3),
    ab.LinfBall(0.05, low=0, high=1),
    ab.LinfBall(0.2, low=0, high=1),
    ab.LpBall(0.1, 1),
    ab.LpBall(0.1, 4),
]


def test_several_balls_at_once_equal_one_by_one() -> None:
    model, x = cases.tabular()
    x = x.clamp(0, 1)
    attribution = ab.InputXGradient(model)
    together = first_order_in_balls(attribution, x, BALLS)
    for ball, bound in zip(BALLS, together, strict=True):
        alone = first_order(attribution, x, ball)
        assert (bound.ball, bound.epsilon) == (ball, ball.epsilon)
        for name in ("euclidean", "adjusted", "degrees", "direction", "products"):
            torch.testing.assert_close(getattr(bound, name), getattr(alone, name), rtol=0, atol=0)
        assert (bound.source, bound.status) == (alone.source, alone.status)


def test_seconds_are_shared_among_the_questions_of_several_balls() -> None:
    """Each has its part of what all took together, as nothing is computed twice."""
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    target = attribution.targets(x)
    questions = [Question(attribution, x, ball, target) for ball in (*BALLS[:2], BALLS[-1])]
    method = ab.FirstOrder()
    begun = time.perf_counter()
    method.prepare(questions)
    took = time.perf_counter() - begun
    spent = [each.seconds[method] for each in questions]
    assert 0 < sum(spent) <= took
    assert len({*spent}) == 1
    for each in questions:
        alone = first_order(attribution, x, each.ball, target).euclidean
        torch.testing.assert_close(each.bound(method).euclidean, alone, rtol=0, atol=0)


def test_groups_are_put_together_again_ball_by_ball() -> None:
    model, x = cases.tabular()
    one = ab.Saliency(ab.Classifier(model, memory_limit=1))  # one example at a time
    for small, whole in zip(
        first_order_in_balls(one, x, BALLS[:2]),
        first_order_in_balls(ab.Saliency(model), x, BALLS[:2]),
        strict=True,
    ):
        torch.testing.assert_close(small.euclidean, whole.euclidean)


def test_each_problem_is_solved_once() -> None:
    matrix = cases.random_operator(12, seed=0)
    operator = cases.Counting(matrix)
    unit = UnitBalls(operator, SpectralSolver())
    spent = []
    for _ in range(3):
        assert unit.spectral is unit.spectral
        unit.norm(NormSolver(), math.inf)
        _ = unit.entrywise_sum, unit.largest_column
        spent.append(len(operator.rows))
    assert spent[0] == spent[1] == spent[2] > 0
    unit.norm(NormSolver(), 4.0)
    unit.norm(NormSolver(seed=1), 4.0)
    assert len(operator.rows) > spent[2]


def test_what_belongs_to_another_point_would_be_noticed() -> None:
    """The broken variant: solutions of one Jacobian used for another give another bound."""
    one, other = (cases.random_operator(6, seed=seed) * scale for seed, scale in ((0, 1), (1, 2)))
    x = torch.rand(1, 6).double()
    at = Linearization(x, cases.Counting(one), torch.zeros(1))
    right = sensitivity(at, ab.L2Ball(0.1), x, ab.FirstOrder())
    stale = UnitBalls(cases.Counting(other), SpectralSolver())
    wrong = sensitivity(at, ab.L2Ball(0.1), x, ab.FirstOrder(), stale)
    assert right.value.item() == pytest.approx(0.1, rel=0.02)
    assert wrong.value.item() == pytest.approx(0.2, rel=0.02)
