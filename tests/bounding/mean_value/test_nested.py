from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import attribound as ab
import cases
import laws
from attribound.bounding.mean_value import MEAN_VALUE, Known, mean_value_bound

QUICK = ab.attacks.AttributionAscent(steps=3)


class Cubic(nn.Module):
    """f = x^2 / 2 + x^3 / 6 in one dimension: the slope of the saliency is 1 + x."""

    def forward(self, x: Tensor) -> Tensor:
        score = (x**2 / 2 + x**3 / 6).sum(1)
        return torch.stack([score + 5, 0 * score], 1)


@pytest.mark.parametrize("shells", [1, 2, 4, 8])
@pytest.mark.parametrize("ball", [ab.L2Ball(0.3), ab.LinfBall(0.3)], ids=repr)
def test_closed_form_in_one_dimension(ball, shells) -> None:
    """S(r) = 1 + x + r, so that the bound is epsilon times 1 + x + epsilon (K + 1) / 2K."""
    x = torch.tensor([[0.2], [1.5]], dtype=torch.float64)
    method = ab.MeanValue(shells=shells, attack=QUICK)
    bound = ab.bound(ab.Saliency(Cubic()), x, ball, claim="mean_value", method=method)
    truth = 0.3 * (1 + x[:, 0] + 0.3 * (shells + 1) / (2 * shells))
    torch.testing.assert_close(bound.euclidean, truth, rtol=2e-5, atol=0)
    exact = 0.3 * (1 + x[:, 0]) + 0.3**2 / 2  # the deviation at +epsilon, the limit of many shells
    assert (bound.euclidean > exact).all()
    assert (ab.bound(ab.Saliency(Cubic()), x, ball).euclidean < exact).all()


def test_equals_first_order_where_the_attribution_is_linear() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    both = ab.bounds(attribution, x, ab.L2Ball(0.1))
    torch.testing.assert_close(
        both["mean_value"].euclidean, both["first_order"].euclidean, rtol=1e-4, atol=0
    )


@pytest.mark.parametrize("ball", [ab.L2Ball(0.4), ab.LinfBall(0.15)], ids=repr)
@pytest.mark.parametrize("attribution", cases.ATTRIBUTIONS.values(), ids=cases.ATTRIBUTIONS)
def test_attacks_stay_below_where_they_exceed_first_order(attribution, ball) -> None:
    model, x = cases.tabular()
    g = attribution(model)
    x = x[:3]
    both = ab.bounds(g, x, ball)
    found = ab.attacks.AttributionAscent(steps=15, random_starts=6, seed=99)(g, x, ball)
    laws.attack_below(found, both["mean_value"])
    with pytest.raises(AssertionError):  # the same attacks break the paper's bound
        laws.attack_below(found, both["first_order"])


def test_is_never_below_an_attack_it_was_shown() -> None:
    """Even if it searches nothing itself and the perturbation is found by other means."""
    model, x = cases.tabular()
    g, ball = ab.Saliency(model), ab.L2Ball(2.0)
    found = ab.attacks.AttributionAscent(steps=20, random_starts=6)(g, x, ball)
    lazy = ab.MeanValue(shells=3, rounds=0, attack=None)
    blind = mean_value_bound(g, x, ball, None, lazy)
    told = mean_value_bound(g, x, ball, None, lazy, Known([found]))
    laws.attack_below(found, told)
    assert (told.euclidean >= blind.euclidean).all()


@pytest.mark.parametrize("ball", [ab.L2Ball(0.3), ab.LinfBall(0.1)], ids=repr)
def test_more_search_only_raises_it(ball) -> None:
    model, x = cases.tabular()
    g = ab.InputXGradient(model)
    little = ab.MeanValue(shells=2, rounds=0, attack=QUICK)
    base = ab.bound(g, x, ball, method=little).euclidean
    for more in [
        replace(little, rounds=2),
        replace(little, restarts=2),
        replace(little, rounds=1, restarts=1),
    ]:
        assert (ab.bound(g, x, ball, method=more).euclidean >= base).all()
    found = ab.attacks.RandomPerturbation()(g, x, ball)
    assert (ab.bound(g, x, ball, method=little, attacked=[found]).euclidean >= base).all()


def test_more_shells_are_tighter() -> None:
    model, x = cases.tabular()
    g, ball = ab.Saliency(model), ab.L2Ball(0.5)
    one, four = (
        ab.bound(g, x, ball, method=ab.MeanValue(shells=k, rounds=4)).euclidean for k in (1, 4)
    )
    assert (four < one).all()


def by_grid(g: ab.Attribution, x: Tensor, ball: ab.LpBall, shells: int) -> Tensor:
    """The same bound with every supremum over a fine grid of points, two features."""
    side = torch.linspace(-1, 1, 61, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    grid = grid[torch.linalg.vector_norm(grid, ball.p, dim=1) <= 1]
    corners = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    bounds = []
    for row, label in zip(x, g.targets(x), strict=True):
        points = row + ball.epsilon * grid
        jacobian = g.linearize(points, label.expand(len(points))).jacobian
        columns = [jacobian.matvec(e.expand(len(points), 2)) for e in torch.eye(2).double()]
        matrices = torch.stack(columns, 2)
        if ball.p == 2:
            steep = torch.linalg.svdvals(matrices)[:, 0]
        else:
            steep = (matrices @ corners.T).norm(dim=1).amax(1)
        radius = torch.linalg.vector_norm(grid, ball.p, dim=1)
        sups = [steep[radius <= k / shells + 1e-12].max() for k in range(1, shells + 1)]
        bounds.append(ball.epsilon * torch.stack(sups).mean())
    return torch.stack(bounds)


@pytest.mark.parametrize("ball", [ab.L2Ball(0.5), ab.LinfBall(0.4)], ids=repr)
def test_agrees_with_a_grid_in_two_dimensions(ball) -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(2, 12), nn.Softplus(3), nn.Linear(12, 3)).double().eval()
    g, x = ab.Saliency(model), torch.rand(3, 2).double()
    method = ab.MeanValue(shells=2, rounds=12, restarts=3)
    found = ab.bound(g, x, ball, method=method).euclidean
    truth = by_grid(g, x, ball, 2)
    assert (found >= truth * (1 - 1e-3)).all()
    assert (found <= truth * 1.02).all()


def test_says_that_it_was_searched() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    bound = ab.bound(attribution, x, ab.L2Ball(0.1), claim="mean_value")
    assert bound.claim is MEAN_VALUE
    assert "searched" in repr(bound)
    assert "searched" in bound.claim.promise
    assert bound.source == ("mean value",) * 2
    assert (bound.products > ab.bound(attribution, x, ab.L2Ball(0.1)).products).all()
    assert (bound.adjusted >= bound.euclidean).all()


def test_cosine_follows_from_it() -> None:
    model, x = cases.tabular()
    bound = ab.bound(ab.Saliency(model), x, ab.L2Ball(0.01), claim="mean_value")
    sine = bound.euclidean / bound.attribution_norm
    torch.testing.assert_close(bound.degrees, torch.rad2deg(torch.asin(sine)))
    torch.testing.assert_close(bound.cosine, 1 - torch.sqrt(1 - sine**2))


def test_batches_and_memory_limits_change_nothing() -> None:
    model, x = cases.image()
    baseline = torch.rand(3, 2, 6, 6, generator=torch.Generator().manual_seed(0)).double() / 4
    ball, method = ab.L2Ball(0.05), ab.MeanValue(shells=1, rounds=1, restarts=1, attack=None)
    whole = ab.bound(ab.IntegratedGradients(model, 2, baseline), x, ball, method=method)
    small = ab.Classifier(model, memory_limit=1)
    grouped = ab.bound(ab.IntegratedGradients(small, 2, baseline), x, ball, method=method)
    single = ab.bound(ab.IntegratedGradients(model, 2, baseline[1]), x[1:2], ball, method=method)
    torch.testing.assert_close(grouped.euclidean, whole.euclidean, rtol=1e-6, atol=0)
    torch.testing.assert_close(single.euclidean, whole.euclidean[1:2], rtol=1e-6, atol=0)


def test_a_value_range_lowers_it_and_attacks_in_range_stay_below() -> None:
    model, x = cases.tabular()
    x = x.clamp(0, 1)
    g = ab.Saliency(model)
    ranged, free = ab.LinfBall(0.3, low=0, high=1), ab.LinfBall(0.3)
    inside = ab.bound(g, x, ranged, claim="mean_value")
    assert (inside.euclidean < ab.bound(g, x, free, claim="mean_value").euclidean).all()
    laws.attack_below(ab.attacks.AttributionAscent(random_starts=5, seed=9)(g, x, ranged), inside)


def test_refuses_kinks_even_on_the_users_word() -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    attribution = ab.Saliency(ab.Classifier(model, allow_kinks=True))
    with pytest.raises(ab.KinkError, match="no mean value theorem"):
        ab.bound(attribution, torch.rand(2, 3), ab.L2Ball(0.1), claim="mean_value")


@pytest.mark.parametrize("setting", [{"shells": 0}, {"rounds": -1}, {"restarts": -2}])
def test_refuses_effort_that_makes_no_sense(setting) -> None:
    ((name, value),) = setting.items()
    with pytest.raises(ab.InputError, match=rf"{name}: expected .* or more, got {value}"):
        ab.MeanValue(**setting)


def test_refuses_attacks_on_something_else() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    found = ab.attacks.AttributionAscent()(attribution, x, ab.L2Ball(0.2))
    with pytest.raises(ab.InputError, match="attack the same inputs in the same ball"):
        ab.bound(attribution, x, ab.L2Ball(0.1), claim="mean_value", attacked=[found])
    with pytest.raises(ab.InputError, match="attack the same inputs in the same ball"):
        ab.bound(attribution, x[:1], ab.L2Ball(0.2), claim="mean_value", attacked=[found])


def test_shows_progress(capsys) -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    ab.bound(attribution, x, ab.L2Ball(0.1), method=ab.MeanValue(progress=True))
    assert "searching" in capsys.readouterr().out


def _asked(attribution, x, radii, method, *, shared: bool) -> list[ab.Bound]:
    target = attribution.targets(x)
    questions = [ab.Question(attribution, x, ab.L2Ball(radius), target) for radius in radii]
    if shared:
        method.prepare(questions)
    return [question.bound(method) for question in questions]


def test_balls_share_the_shells_they_have_in_common() -> None:
    """In one dimension the bound is known: shared or not, it is the same, for fewer products."""
    x = torch.tensor([[0.2], [1.5]], dtype=torch.float64)
    method, radii = ab.MeanValue(shells=4, attack=QUICK), (0.4, 0.2, 0.1)
    alone = _asked(ab.Saliency(Cubic()), x, radii, method, shared=False)
    together = _asked(ab.Saliency(Cubic()), x, radii, method, shared=True)
    for radius, one, other in zip(radii, alone, together, strict=True):
        truth = radius * (1 + x[:, 0] + radius * 5 / 8)
        torch.testing.assert_close(one.euclidean, truth, rtol=2e-5, atol=0)
        torch.testing.assert_close(other.euclidean, truth, rtol=2e-5, atol=0)
    # Of 0.2 the shells 0.1 and 0.2 are known from 0.4, of 0.1 two more from 0.2.
    assert (together[0].products == alone[0].products).all()
    assert all(
        (b.products < a.products).all() for a, b in zip(alone[1:], together[1:], strict=True)
    )


def test_shared_shells_bound_attacks_in_every_ball() -> None:
    model, x = cases.tabular()
    attribution = ab.IntegratedGradients(model, steps=5)
    radii, method = (0.1, 0.2, 0.4), ab.MeanValue()
    for radius, bound in zip(
        radii, _asked(attribution, x[:3], radii, method, shared=True), strict=True
    ):
        ascent = ab.attacks.AttributionAscent(steps=15, random_starts=6, seed=99)
        laws.attack_below(ascent(attribution, x[:3], ab.L2Ball(radius)), bound)


@pytest.mark.parametrize(
    "others",
    [
        [ab.L2Ball(0.2), ab.LinfBall(0.1)],
        [ab.L2Ball(0.2), ab.L2Ball(0.1, scale=2.0)],
        [ab.LinfBall(0.2, low=0, high=1), ab.LinfBall(0.1, low=0, high=1)],
    ],
    ids=["norms", "units", "limits"],
)
def test_balls_that_are_no_multiples_of_each_other_share_nothing(others) -> None:
    model, x = cases.tabular()
    attribution, x = ab.Saliency(model), x[:2].clamp(0, 1)
    method, target = ab.MeanValue(), attribution.targets(x)
    questions = [ab.Question(attribution, x, ball, target) for ball in others]
    method.prepare(questions)
    for ball, question in zip(others, questions, strict=True):
        alone = ab.Question(attribution, x, ball, target).bound(method)
        torch.testing.assert_close(question.bound(method).euclidean, alone.euclidean)
        assert (question.bound(method).products == alone.products).all()
