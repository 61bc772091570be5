"""Lists of averaged maps against averages in closed form: what is said holds, and says much."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from torch import Tensor

import attribound as ab
import cases
from attribound.attacks.displace import first_of
from attribound.attributions import FunctionAttribution
from attribound.bounding.method import Question
from attribound.bounding.reasons import averaged
from attribound.bounding.reasons.averaged import AveragedMotion, Entries, averaged_motions
from attribound.bounding.reasons.deciding import decide
from attribound.bounding.smoothed.confidence import lower_mean, upper_mean
from bounding.smoothed.truths import TRUTHS

ONE = torch.tensor([0.8, 0.5, 0.3, -0.14, 0.05], dtype=torch.float64)
OTHER = torch.tensor([0.1, 0.5, 0.3, -0.6, 0.5], dtype=torch.float64)
SIGMA = 0.5


def unit(vector: Tensor) -> Tensor:
    return vector / vector.norm()


def stepped(x: Tensor, target: Tensor) -> Tensor:
    """One map where the first feature is positive, another elsewhere: jumps, no slopes."""
    return torch.where(x[:, :1] > 0, unit(ONE), unit(OTHER))


def truth(first: Tensor, normal: Tensor | None = None) -> Tensor:
    """The average of these maps, by the first feature of x."""
    share = torch.from_numpy(np.asarray(ndtr(first.numpy() / SIGMA))).unsqueeze(1)
    pair = (unit(ONE), unit(OTHER)) if normal is None else normal
    return share * pair[0] + (1 - share) * pair[1]


G = FunctionAttribution(stepped)
X = torch.tensor([[0.45, 0.0, 1.0], [0.1, 1.0, 0.0]], dtype=torch.float64)
LABELS = torch.zeros(2, dtype=torch.long)
WORST = torch.linspace(-1, 1, 41, dtype=torch.float64)


def around(row: int, epsilon: float) -> Tensor:
    """The averages everywhere in the ball: only the first feature counts."""
    return truth(X[row, 0] + epsilon * WORST)


@pytest.mark.parametrize("by", ["value", "absolute"])
@pytest.mark.parametrize("normaliser", ["unit", "top"])
@pytest.mark.parametrize("epsilon", [0.05, 0.2])
def test_what_is_said_holds_everywhere_in_the_ball(by, normaliser, epsilon) -> None:
    if (by, normaliser) == ("value", "top"):
        return
    method = ab.Smoothed(SIGMA, draws=4000, normaliser=normaliser, seed=3)
    r = ab.reasons(G, X, ab.L2Ball(epsilon), 2, LABELS, claim=method, by=by, attack=False)
    assert r.subject == "the averaged map of your network"
    tops = [
        torch.zeros(5).double().index_fill(0, first_of(v[None], 2, "absolute")[0], 0.5**0.5)
        for v in (ONE, OTHER)
    ]
    for row in range(2):
        maps = (
            around(row, epsilon)
            if normaliser == "unit"
            else truth(X[row, 0] + epsilon * WORST, tuple(tops))
        )
        lists = first_of(maps, 2, by)
        same = (lists.unsqueeze(2) == r.features[row]).any(1).sum(1)
        assert same.min() >= r.kept[row]
        for rank, place in enumerate(r.features[row].tolist()):
            assert (maps[:, place] >= r.low[row, rank] - 1e-12).all()
            assert (maps[:, place] <= r.high[row, rank] + 1e-12).all()
            assert not r.stays[row, rank] or (lists == place).any(1).all()
    if epsilon == 0.05:
        assert r.kept.sum() > 0


def test_intervals_contain_the_average_and_shrink_with_draws() -> None:
    width = []
    for draws in (500, 20_000):
        method = ab.Smoothed(SIGMA, draws=draws)
        r = ab.reasons(G, X, ab.L2Ball(1e-6), 2, LABELS, claim=method, attack=False)
        here = truth(X[:, 0]).gather(1, r.features)
        assert (r.low <= here).all()
        assert (here <= r.high).all()
        width.append((r.high - r.low).mean().item())
    assert width[1] < width[0] / 4


def motion(epsilon: float = 0.1, seed: int = 0, draws: int = 400) -> AveragedMotion:
    question = Question(G, X[:1], ab.L2Ball(epsilon), LABELS[:1])
    (found,) = averaged_motions(ab.Smoothed(SIGMA, draws=draws, seed=seed), question, 2, "value")
    return found


def missed(found: AveragedMotion, epsilon: float) -> bool:
    maps = around(0, epsilon)
    single = (maps < found.single[0]) | (maps > found.single[1])
    return bool(single.any()) or decide(found.scores, found, 2, "value").kept > _least(found, maps)


def _least(found: AveragedMotion, maps: Tensor) -> int:
    own = first_of(found.scores[None], 2, "value")
    return int((first_of(maps, 2, "value").unsqueeze(2) == own[0]).any(1).sum(1).min())


def test_coverage_and_that_plain_means_would_be_no_certificate(monkeypatch) -> None:
    """Fewer misses than alpha of 40 samples; without the sampling error most of them miss."""
    seeds = range(40)
    assert not any(missed(motion(0.05, seed), 0.05) for seed in seeds)
    monkeypatch.setattr(averaged, "_lower", lambda mean, *_: mean)
    monkeypatch.setattr(averaged, "_upper", lambda mean, *_: mean)
    assert sum(missed(motion(1e-9, seed), 1e-9) for seed in seeds) > 10


@pytest.mark.parametrize("name", ["rare .01", "two vectors"])
def test_no_statement_about_scores_or_pairs_fails_more_often_than_alpha(name: str) -> None:
    """All of a list together at alpha = .05, a thousand times; plain variances often."""
    law, generator, alpha, repeats = TRUTHS[name], np.random.default_rng(0), 0.05, 1000
    h, spread = law.mean, law.covariance
    wrong = naive = 0
    for _ in range(repeats):
        members = (int(law.draw(generator, 50).mean(0).argmax()),)
        maps = law.draw(generator, 200)
        product = maps[:, list(members)].T @ maps / len(maps)
        found = Entries(len(maps), maps.mean(0), (maps**2).mean(0), product, members)
        failure = alpha / found.statements(1)
        low, high = found.singles(0.0, failure)
        least, deviation = found.pairs(0, 1.0, 1.0, failure)
        apart = (h[members[0]] - h) / math.sqrt(2)
        own, cross = np.diag(spread), spread[members[0]]
        variance = (own[members[0]] + own - 2 * cross) / 2
        wrong += bool(
            ((h < low) | (h > high) | (apart < least) | (variance > deviation**2 + 1e-12)).any()
        )
        naive += bool((maps.var(0) < own - 1e-12).any())
    assert wrong <= alpha * repeats
    assert naive > 0.3 * repeats


def test_a_bound_that_forgets_the_shift_is_caught(monkeypatch) -> None:
    monkeypatch.setattr(averaged, "growth", lambda _: 0.0)
    assert missed(motion(0.5, draws=20_000), 0.5)


def test_pairs_are_tighter_than_their_ends() -> None:
    """Of scores that move alike the difference hardly moves."""
    found = motion(0.1, draws=4000)
    first = found.members[0]
    others = torch.tensor([place for place in range(5) if place != first])
    joint = found.differences(first, 1.0, others, 1.0)
    outsider = next(place for place in range(5) if place not in found.members)
    high = found.features(others)[1]
    ends = found.features(torch.tensor([first]))[0] - high
    assert (joint >= ends - 1e-12).all()
    assert (joint > ends + 1e-3).any()
    rest = torch.tensor([first])
    apart = found.differences(outsider, -1.0, rest, -1.0)
    own = found.features(torch.tensor([outsider]))
    torch.testing.assert_close(apart, -own[1] + found.features(rest)[0])


def test_inequalities_are_those_of_single_numbers() -> None:
    random = np.random.default_rng(0)
    values = random.uniform(-1, 1, (200, 3)) / math.sqrt(3)
    entries = Entries(
        200, values.mean(0), (values**2).mean(0), (values[:, :1].T @ values) / 200, (0,)
    )
    low, high = entries.singles(0.0, 0.01)
    for i in range(3):
        variance = values[:, i].var(ddof=1)
        assert low[i] == pytest.approx(lower_mean(values[:, i].mean(), variance, 200, 0.01))
        assert high[i] == pytest.approx(-lower_mean(-values[:, i].mean(), variance, 200, 0.01))
    mean, wide = entries.pairs(0, 1.0, -1.0, 0.01)
    both = (values[:, 0] + values[:, 2]) / math.sqrt(2)
    assert mean[2] == pytest.approx(lower_mean(both.mean(), both.var(ddof=1), 200, 0.01))
    second = upper_mean((both**2).mean(), 200, 0.01)
    assert wide[2] == pytest.approx(math.sqrt(second - max(mean[2], 0) ** 2), rel=1e-6)
    assert entries.statements(2) == 5 * 3 + 2 * 2 * 3


def test_a_shift_without_limit_says_nothing() -> None:
    found = motion(40.0)
    assert torch.equal(found.single[0], torch.full((5,), -1.0).double())
    assert decide(found.scores, found, 2, "value").kept == 0


def test_the_attack_and_the_list_are_of_the_averaged_map() -> None:
    model, x = cases.tabular()
    method = ab.Smoothed(0.1, draws=600)
    r = ab.reasons(ab.Saliency(model), x[:2], ab.L2Ball(0.3), 2, claim=method)
    assert (r.kept <= r.attained.kept).all()
    assert r.attained.map.flatten(1).norm(dim=1).max() <= 1
    assert r.claim.name == "smoothed"
    again = ab.reasons(ab.Saliency(model), x[:2], ab.L2Ball(0.3), 2, claim=method)
    torch.testing.assert_close(again.low, r.low)
    torch.testing.assert_close(again.attained.kept, r.attained.kept)


def test_maps_without_slopes_are_attacked_by_draws() -> None:
    r = ab.reasons(
        G, X, ab.L2Ball(3.0), 1, LABELS, claim=ab.Smoothed(SIGMA, draws=400), by="absolute"
    )
    assert r.attained.kept.tolist() == [0, 0]  # far on the other side the other map rules


@pytest.mark.parametrize("normaliser", ["unit", "top"])
def test_the_largest_radius_of_an_averaged_list(normaliser) -> None:
    """It is the radius of the list that ``reasons`` makes, and says so: not of the map at x."""
    method = ab.Smoothed(SIGMA, draws=4000, normaliser=normaliser)
    asked = {"target": LABELS[:1], "method": method, "by": "absolute"}
    found = ab.max_epsilon(G, X[:1], keep=1, **asked)
    radius = found.epsilon.item()
    assert 0 < radius < 0.5
    assert found.subject == "the averaged map of your network"
    for factor, kept in ((1.0, 1), (1.001, 0)):
        ball = ab.L2Ball(factor * radius)
        assert ab.reasons(G, X[:1], ball, 1, attack=False, **asked).kept.item() == kept


def test_one_sample_serves_every_radius() -> None:
    evaluated = []

    def counted(x: Tensor, target: Tensor) -> Tensor:
        evaluated.append(len(x))
        return stepped(x, target)

    method = ab.Smoothed(SIGMA, draws=4000, chunk=100)
    cube = ab.LinfBall(1, scale=torch.tensor([0.5, 0.0, 1.0], dtype=torch.float64))
    found = ab.max_epsilon(counted, X[:1], cube, LABELS[:1], keep=1, method=method)
    both, second = 4000, 3200  # the second batch is drawn once more for the list
    assert 0 <= sum(evaluated) - both - second < 10  # maps at x
    assert 0 < found.epsilon.item() < 1


def test_a_radius_of_another_explanation_says_so() -> None:
    def spike(x: Tensor, target: Tensor) -> Tensor:
        near = (x - X[:1]).abs().amax(1, keepdim=True) < 0.01
        return torch.where(near, torch.eye(3).double()[:1], torch.eye(3).double()[1:2])

    found = ab.max_epsilon(spike, X[:1], target=LABELS[:1], keep=1, claim="smoothed:draws=400")
    assert ab.Status.ANOTHER_EXPLANATION in found.status[0]


def test_what_the_proofs_do_not_cover_is_refused() -> None:
    model, x = cases.tabular()
    ball = ab.L2Ball(0.1)
    uniform = ab.Smoothed(noise="uniform", draws=100)
    with pytest.raises(ab.InputError, match="noise: expected gaussian, for lists of reasons"):
        ab.reasons(ab.Saliency(model), x, ball, 2, claim=uniform, attack=False)
    with pytest.raises(ab.InputError, match="noise: expected gaussian, for what stays of a map"):
        uniform.reasons(ab.Saliency(model), x, ball)
    votes = ab.Smoothed(normaliser="top", draws=100)
    with pytest.raises(ab.InputError, match="by: expected 'absolute' with normaliser='top'"):
        ab.reasons(ab.Saliency(model), x, ball, 2, claim=votes, attack=False)
