"""Of quadratics and tiny networks: closed forms, dense grids, attacks; nothing is contradicted."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import attribound as ab
import cases
from attribound.attacks.displace import first_of, staying
from attribound.bounding.certified.exact_path import bound as exact_bound
from attribound.bounding.method import Question
from attribound.bounding.reasons.motions import motions

QUICK = ab.attacks.Displace(k=2, steps=6, random_starts=1)


def tiny(seed: int, activation: nn.Module, sizes: tuple[int, ...] = (2, 5, 4, 2)) -> nn.Module:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes[:-1]):
        layers += [nn.Linear(before, after), activation]
    return nn.Sequential(*layers, nn.Linear(*sizes[-2:])).double().eval()


def grid(ball: ab.Ball, x: Tensor, points: int = 41) -> Tensor:
    """Perturbations of one example with two features, dense in the ball."""
    line = torch.linspace(-ball.epsilon, ball.epsilon, points, dtype=torch.float64)
    every = torch.cartesian_prod(line, line)
    inside = ball.contains(every, x.expand(len(every), 2), 0.0)
    return every[inside]


def holds(r: ab.Reasons, attribution: ab.Attribution, x: Tensor, row: int, deltas: Tensor) -> None:
    """Nothing that was said of an example is contradicted at these perturbations."""
    labels = r.target[row].expand(len(deltas))
    maps = attribution.revalue(x[row] + deltas, labels).flatten(1)
    clean = attribution.revalue(x[[row]], r.target[[row]]).flatten(1).expand_as(maps)
    assert staying(maps, clean, r.k, r.by).min() >= r.kept[row]
    tops = first_of(maps, r.k, r.by)
    order = int(r.order_kept[row])
    assert (tops[:, :order] == r.features[row, :order]).all()
    for rank, place in enumerate(r.features[row].tolist()):
        assert (maps[:, place] >= r.low[row, rank]).all()
        assert (maps[:, place] <= r.high[row, rank]).all()
        assert not r.stays[row, rank] or (tops == place).any(1).all()
        if r.sign_kept[row, rank]:
            assert (maps[:, place] * clean[:, place] > 0).all()


@pytest.mark.parametrize("ball", [ab.L2Ball(0.3), ab.LinfBall(0.2)])
@pytest.mark.parametrize("by", ["value", "absolute"])
def test_of_a_quadratic_first_order_is_exact(ball, by) -> None:
    """Its saliency is linear: pairs are decided as the rows of the matrix say."""
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    matrix = attribution.classifier.model.matrices[0]
    scores = attribution(x)
    dual = 2 if ball.p == 2 else 1
    for claim in ("first_order", ab.MeanValue(attack=QUICK, rounds=0)):
        r = ab.reasons(attribution, x, ball, 1, claim=claim, by=by)
        place = r.features[:, 0]
        reach = ball.epsilon * torch.linalg.vector_norm(matrix[place], ord=dual, dim=1)
        torch.testing.assert_close(r.values[:, 0], scores.gather(1, r.features)[:, 0])
        torch.testing.assert_close(r.high[:, 0], r.values[:, 0] + reach)
        torch.testing.assert_close(r.low[:, 0], r.values[:, 0] - reach)
        for row, i in enumerate(place.tolist()):
            differences = torch.linalg.vector_norm(matrix[i] - matrix, ord=dual, dim=1)
            gap = scores[row, i] - scores[row] - ball.epsilon * differences
            sure = all(gap[j] > 0 for j in range(4) if j != i)
            assert bool(r.stays[row, 0]) == sure  # all scores are positive: signs don't matter
            assert int(r.attained.kept[row]) == sure  # and the attack finds what is left


@pytest.mark.parametrize("by", ["value", "absolute"])
@pytest.mark.parametrize("seed", range(4))
def test_of_a_quadratic_in_a_cube_corners_tell_all(by, seed) -> None:
    """A linear map is extreme at corners: ends, pairs and the first place, by enumeration."""
    generator = torch.Generator().manual_seed(seed)
    eigenvalues = (4 * torch.randn(4, generator=generator)).tolist()
    attribution, x = cases.quadratic(eigenvalues)
    x = x + 0.2 * torch.randn(x.shape, generator=generator, dtype=x.dtype)
    ball = ab.LinfBall(0.1, scale=torch.tensor([1.0, 0.5, 0.0, 2.0]))
    units = 0.1 * torch.tensor([1.0, 0.5, 0.0, 2.0]).double()
    corners = units * torch.tensor([*itertools.product((-1.0, 1.0), repeat=4)]).double()
    labels = attribution.targets(x)
    r = ab.reasons(attribution, x, ball, 1, by=by, attack=False)
    for row in range(len(x)):
        maps = attribution.revalue(x[row] + corners, labels[row].expand(len(corners)))
        top = int(r.features[row, 0])
        torch.testing.assert_close(r.low[row, 0], maps[:, top].min())
        torch.testing.assert_close(r.high[row, 0], maps[:, top].max())
        # |g_i| above |g_j| everywhere: the sign of g_i can't change then, so that each of the two
        # differences is linear, and extreme at a corner.
        sign = 1.0 if by == "value" or attribution(x)[row, top] >= 0 else -1.0
        others = [j for j in range(4) if j != top]
        gaps = sign * maps[:, [top]] - maps[:, others]
        if by == "absolute":
            gaps = torch.minimum(gaps, sign * maps[:, [top]] + maps[:, others])
        assert bool(r.stays[row, 0]) == bool((gaps > 0).all())


def test_the_search_of_mean_values_finds_what_first_order_misses() -> None:
    """A cubic: rows grow towards the border, and all of it is seen there."""

    class Cubic(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            one = x[:, :1] + x[:, :1] ** 4 + 0.9 * x[:, 1:]
            return torch.cat([one, -one], 1)

    attribution, ball = ab.Saliency(Cubic()), ab.L2Ball(0.3)
    x = torch.zeros(1, 2, dtype=torch.float64)
    target = torch.tensor([0])
    first, searched = (
        ab.reasons(attribution, x, ball, 1, target, claim=claim)
        for claim in ("first_order", ab.MeanValue(shells=4))
    )
    # g_0 = 1 + 4 x^3 against .9: it falls below from x = -.292 on; the slope at 0 is 0.
    assert first.kept.item() == 1
    assert first.attained.kept.item() == 0
    assert searched.kept.item() == 0
    assert searched.low.item() <= 1 - 4 * 0.3**3 * (1 - 1e-6)
    # Shells are upper sums of the integral: more of them are tighter, and never below it.
    ends = [
        ab.reasons(attribution, x, ball, 1, target, claim=ab.MeanValue(shells=n)).low.item()
        for n in (1, 2, 8)
    ]
    assert ends[0] < ends[1] < ends[2] <= 1 - 4 * 0.3**3 * (1 - 1e-6)
    blind = ab.MeanValue(attack=None)  # nobody tells it where to look: no more than first order
    assert ab.reasons(attribution, x, ball, 1, target, claim=blind, attack=False).kept.item() == 1


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["relu", "softplus", "exact"]),
    times=st.booleans(),
    by=st.sampled_from(["value", "absolute"]),
    cube=st.booleans(),
)
def test_certified_reasons_hold_on_a_dense_grid(seed, kind, times, by, cube) -> None:
    model = tiny(seed, nn.Softplus(4) if kind == "softplus" else nn.ReLU())
    x = torch.randn(1, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    attribution: ab.Attribution = ab.InputXGradient(model) if times else ab.Saliency(model)
    if kind == "exact":
        attribution = ab.IntegratedGradients(model, baseline=0.1, quadrature="exact")
    radius = 0.05 + 0.3 * (seed % 7) / 7
    ball = ab.LinfBall(radius) if cube else ab.L2Ball(radius)
    r = ab.reasons(attribution, x, ball, 1, claim="certified", by=by, attack=False)
    holds(r, attribution, x, 0, grid(ball, x))


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), smooth=st.booleans(), by=st.sampled_from(["value", "absolute"]))
def test_certified_reasons_stand_attacks(seed, smooth, by) -> None:
    model = tiny(seed, nn.Softplus(4) if smooth else nn.ReLU(), (6, 8, 2))
    x = torch.randn(2, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    ball = ab.L2Ball(0.15, scale=torch.tensor([1.0, 0.0, 2.0, 1.0, 0.5, 1.0]))
    attribution = ab.Saliency(model)
    r = ab.reasons(attribution, x, ball, 3, claim="certified", by=by)
    assert (r.kept <= r.attained.kept).all()
    assert ball.contains(r.attained.delta, x, 1e-6).all()
    assert (r.attained.delta[:, 1] == 0).all()
    for row in range(2):
        tried = [ball.project(ball.sample_sphere(x, s), x)[row] for s in range(40)]
        holds(r, attribution, x, row, torch.stack([*tried, r.attained.delta[row]]))


def test_the_grid_rejects_intervals_half_as_wide() -> None:
    """Otherwise the tests above could not fail."""
    model = tiny(0, nn.Softplus(4))
    x = torch.tensor([[0.3, -0.2]], dtype=torch.float64)
    attribution, ball = ab.InputXGradient(model), ab.L2Ball(0.3)
    r = ab.reasons(attribution, x, ball, 1, claim="certified", attack=False)
    deltas = grid(ball, x)
    holds(r, attribution, x, 0, deltas)
    half = replace(r, low=(r.values + r.low) / 2, high=(r.values + r.high) / 2)
    with pytest.raises(AssertionError):
        holds(half, attribution, x, 0, deltas)
    far = ab.L2Ball(3.0)
    wide = ab.reasons(attribution, x, far, 1, claim="certified", attack=False)
    boast = replace(wide, kept=wide.kept + 1)
    with pytest.raises(AssertionError):
        holds(boast, attribution, x, 0, grid(far, x))


def test_certified_is_no_better_than_first_order_and_nearly_as_good_in_small_balls() -> None:
    model, x = cases.tabular()
    attribution = ab.IntegratedGradients(model, steps=4)
    ball = ab.L2Ball(1e-4)
    one, other = (
        ab.reasons(attribution, x, ball, 3, claim=claim, attack=False)
        for claim in ("first_order", "certified")
    )
    torch.testing.assert_close(one.high - one.values, other.high - other.values, rtol=0.02, atol=0)
    torch.testing.assert_close(one.kept, other.kept)


@pytest.mark.parametrize("ball", [ab.L2Ball(0.2), ab.LinfBall(0.1)])
def test_neurons_together_are_tighter_than_one_by_one(ball, monkeypatch) -> None:
    model, x = cases.tabular()
    attribution = ab.IntegratedGradients(model, steps=3)
    joint = ab.reasons(attribution, x, ball, 3, claim="certified", attack=False)
    monkeypatch.setattr("attribound.bounding.certified.taylor_along._JOINTLY", 0)
    apart = ab.reasons(attribution, x, ball, 3, claim="certified", attack=False)
    assert (joint.high <= apart.high).all()
    assert (joint.high < apart.high).any()
    for row in range(len(x)):
        tried = [ball.project(ball.sample_sphere(x, s), x)[row] for s in range(40)]
        holds(joint, attribution, x, row, torch.stack(tried))


def test_groups_of_a_certificate_are_directions_of_the_map() -> None:
    model, x = cases.tabular()
    base = ab.InputXGradient(model)
    grouped = ab.Grouped(base, [0, 0, 1, 1, 2, 2, -1])
    ball = ab.L2Ball(0.1)
    r = ab.reasons(grouped, x, ball, 2, claim="certified")
    assert (r.kept <= r.attained.kept).all()
    for row in range(len(x)):
        tried = [ball.project(ball.sample_sphere(x, s), x)[row] for s in range(40)]
        holds(r, grouped, x, row, torch.stack(tried))
    single = ab.reasons(ab.Grouped(base, torch.arange(7)), x, ball, 2, claim="certified")
    plain = ab.reasons(base, x, ball, 2, claim="certified")
    torch.testing.assert_close(single.low, plain.low)
    torch.testing.assert_close(single.kept, plain.kept)


def test_exact_integrals_are_proved_once_for_the_list_and_the_whole(monkeypatch) -> None:
    """What that proof says of the whole map is what ``ab.bound`` says, rounding aside."""
    model = tiny(3, nn.ReLU())
    exact = ab.IntegratedGradients(model, baseline=0.1, quadrature="exact")
    x, ball = torch.rand(3, 2).double(), ab.L2Ball(0.05)
    proofs: list[object] = []
    real = exact_bound.certify_path

    def counted(*asked: Any) -> Any:
        proofs.append(asked)
        return real(*asked)

    monkeypatch.setattr(exact_bound, "certify_path", counted)
    grouped = ab.Grouped(exact, [0, 1])
    asked = Question(grouped, x, ball, exact.targets(x))
    made = [*motions(ab.Certified(), asked, grouped(x), 1, "value")]
    assert len(proofs) == len(x)
    whole = ab.bound(grouped, x, ball, claim="certified").euclidean
    assert [each.whole for each in made] == pytest.approx(whole.tolist(), rel=1e-6)
    assert all(
        each.whole >= float(own) * (1 - 1e-12) for each, own in zip(made, whole, strict=True)
    )


def test_other_claims_speak_by_the_whole_map() -> None:
    model, x = cases.tabular()
    attribution, ball = ab.Saliency(model), ab.L2Ball(0.05)
    r = ab.reasons(attribution, x, ball, 2, claim="adjusted", by="absolute", attack=False)
    whole = ab.bound(attribution, x, ball, claim="adjusted").euclidean
    torch.testing.assert_close(r.high - r.values, whole.unsqueeze(1).expand(-1, 2))
    assert r.attained is None


def test_scaled_balls_are_those_of_scaled_inputs() -> None:
    scale = torch.tensor([1.0, 0.0, 2.0, 0.5], dtype=torch.float64)
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    r = ab.reasons(attribution, x, ab.L2Ball(0.1, scale=scale), 2, attack=False)
    matrix = attribution.classifier.model.matrices[0] * scale
    reach = 0.1 * matrix[r.features].norm(dim=2)
    torch.testing.assert_close(r.high - r.values, reach)


def test_the_table_has_names_and_sentences() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    names = ["age", "income", "debt", "loans"]
    r = ab.reasons(attribution, x, ab.L2Ball(1e-3), 2, names=names)
    shown = repr(r)
    assert "all 2 stay; an attack left all" in shown
    assert names[int(r.features[0, 0])] in shown
    assert "claim: first-order" in shown
    assert len(r) == 2
    wide = ab.reasons(attribution, x, ab.L2Ball(100.0), 2)
    assert "at least 0 of 2 stay; an attack left" in repr(wide)
    assert "gone" in repr(wide)
    silent = ab.reasons(attribution, x, ab.L2Ball(1e-3), 2, attack=False)
    assert silent.sentence(0) == "all 2 stay"


def test_an_attack_of_ones_own() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    still = ab.attacks.RandomPerturbation()
    r = ab.reasons(attribution, x, ab.L2Ball(1e-6), 2, attack=still)
    assert (r.attained.kept == 2).all()


def test_what_can_not_be_asked_is_refused() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    ball = ab.L2Ball(0.1)
    with pytest.raises(ab.InputError, match="k: expected a whole number from 1 to 3"):
        ab.reasons(attribution, x, ball, 4)
    with pytest.raises(ab.InputError, match="by: expected 'value' or 'absolute'"):
        ab.reasons(attribution, x, ball, 2, by="size")
    with pytest.raises(ab.InputError, match="names: expected 4 names, one a score, got 2"):
        ab.reasons(attribution, x, ball, 2, names=["a", "b"])
    with pytest.raises(ab.InputError, match="names: expected 4 names, one a score, got 'abcd'"):
        ab.reasons(attribution, x, ball, 2, names="abcd")


def test_float32_is_answered_in_float32() -> None:
    model, x = cases.tabular()
    r = ab.reasons(ab.Saliency(model.float()), x.float(), ab.L2Ball(0.05), 2, claim="certified")
    assert r.low.dtype == r.values.dtype == torch.float32
    assert (r.low <= r.values).all()
    assert (r.values <= r.high).all()
    assert not math.isnan(r.high.sum())
