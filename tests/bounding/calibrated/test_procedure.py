from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import attribound as ab
import cases
from attribound.attacks import Attack, AttributionAscent, RandomPerturbation, judge
from attribound.basics.tensors import unit
from attribound.bounding.calibrated import SplitConformal, calibrate
from attribound.bounding.calibrated.procedure import score
from attribound.bounding.first_order import first_order
from attribound.bounding.mean_value import MeanValue

BALL = ab.L2Ball(0.1)
QUICK = AttributionAscent(steps=2)


def tabular(count: int, seed: int = 0) -> tuple[ab.Saliency, Tensor]:
    model, _ = cases.tabular()
    draw = torch.randn(count, 7, generator=torch.Generator().manual_seed(seed)).double()
    return ab.Saliency(model), draw


def test_on_a_quadratic_the_factor_is_one() -> None:
    """There first order is the whole truth and the attack attains it."""
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0], batch=19)
    found = calibrate(attribution, x, BALL)
    assert found.factor == pytest.approx(1, rel=1e-6)
    assert found.counts == {None: 19}
    base = ab.bound(attribution, x, BALL)
    torch.testing.assert_close(
        found.apply(attribution, base, BALL),
        torch.full((19,), 0.5, dtype=torch.float64),
        rtol=1e-6,
        atol=0,
    )


@dataclass(frozen=True)
class Fixed(Attack):
    """Goes ``share`` of the way to the sphere along x: on a quadratic its score is known."""

    share: float

    def __call__(self, attribution, x, ball, target=None):
        return judge(attribution, x, self.share * ball.epsilon * unit(x), target)

    def seeded(self, seed):
        return self


def test_a_factor_in_closed_form() -> None:
    """With A = 2I the attribution moves by 2 epsilon share for a bound of 2 epsilon."""
    attribution, x = cases.quadratic([2.0, 2.0, 2.0], batch=19)
    for share in (0.25, 0.75):
        found = calibrate(attribution, x, BALL, method=SplitConformal(Fixed(share)))
        assert found.factor == pytest.approx(share, rel=1e-6)


@pytest.mark.parametrize(
    "base", [ab.FirstOrder(), MeanValue(shells=1, rounds=1), ab.Certified(), ab.Adjusted()]
)
def test_scores_are_those_of_the_definition(base) -> None:
    """More samples than are computed at once: joined in the right order."""
    attribution, x = tabular(70)
    settings = SplitConformal(QUICK, alpha=0.1, base=base)
    found = calibrate(attribution, x, BALL, method=settings)
    bound = ab.bound(attribution, x, BALL, method=base)
    ratios = (QUICK(attribution, x, BALL).deviation / bound.euclidean).sort().values
    torch.testing.assert_close(torch.tensor(found.scores[None]).double(), ratios)
    assert found.factor == pytest.approx(ratios[math.ceil(71 * 0.9) - 1].item())
    assert found.base.claim is bound.claim
    assert found.provenance.target == "predicted"
    assert found.provenance.ball == BALL
    assert found.provenance.base == base
    assert found.provenance.attack == ab.to_spec(QUICK, whole=True)
    assert found.provenance.code == {}
    found.apply(attribution, bound, BALL)


def test_new_samples_are_covered() -> None:
    """With 39 samples and alpha = 0.1 the coverage of one calibration is Beta(36, 4)."""
    attribution, x = tabular(39 + 300, seed=1)
    settings = SplitConformal(QUICK, alpha=0.1)
    found = calibrate(attribution, x[:39], BALL, method=settings)
    new = x[39:]
    bound = found.apply(attribution, first_order(attribution, new, BALL), BALL)
    covered = int((QUICK(attribution, new, BALL).deviation <= bound).sum())
    assert stats.betabinom(300, 36, 4).cdf(covered) > 1e-6
    assert covered < 300
    too_small = replace(found, scores={None: tuple(0.9 * s for s in found.scores[None])})
    bound = too_small.apply(attribution, first_order(attribution, new, BALL), BALL)
    covered = int((QUICK(attribution, new, BALL).deviation <= bound).sum())
    assert stats.betabinom(300, 36, 4).cdf(covered) < 1e-6


def two_classes(count: int) -> tuple[ab.Saliency, Tensor]:
    """Class 0 where the first feature is positive; its saliency is linear, that of class 1 not."""

    def logits(x: Tensor) -> Tensor:
        return torch.stack([10 * x[:, 0] + x[:, 1] ** 2, 10 * torch.exp(-x[:, 0]) - 10], 1)

    draw = torch.randn(count, 2, generator=torch.Generator().manual_seed(0)).double()
    return ab.Saliency(cases.Functional(logits)), draw


def test_by_class() -> None:
    attribution, x = two_classes(40)
    labels = attribution.targets(x)
    assert {*labels.tolist()} == {0, 1}
    settings = SplitConformal(QUICK, alpha=0.1, by_class=True)
    found = calibrate(attribution, x, BALL, method=settings)
    ratios = QUICK(attribution, x, BALL).deviation / first_order(attribution, x, BALL).euclidean
    for label in (0, 1):
        own = ratios[labels == label].sort().values
        assert found.counts[label] == len(own)
        expected = own[math.ceil((len(own) + 1) * 0.9) - 1].item()
        assert found.factors[label] == pytest.approx(expected)
    assert found.factors[0] == pytest.approx(1, rel=1e-3)
    assert found.factors[1] > 1.01
    few = torch.cat([x[labels == 0], x[labels == 1][:8]])
    assert calibrate(attribution, few, BALL, method=settings).factors[1] == math.inf


def test_labels_can_be_given() -> None:
    attribution, x = tabular(9)
    labels = (attribution.targets(x) + 1) % 3
    settings = SplitConformal(RandomPerturbation(), alpha=0.1)
    found = calibrate(attribution, x, BALL, labels, settings)
    assert found.provenance.target == "given"
    found.apply(attribution, first_order(attribution, x, BALL, labels), BALL)


def test_too_few_samples_are_refused_before_anything_is_computed() -> None:
    attribution, x = tabular(18)
    with pytest.raises(
        ab.InputError, match=r"samples: expected 19 or more for alpha=0.05 .*got 18"
    ):
        calibrate(attribution, x, BALL, method=SplitConformal(Never()))
    with pytest.raises(
        ab.InputError, match=r"expected 19 or more of one class at least .* \(class"
    ):
        calibrate(attribution, x, BALL, method=SplitConformal(Never(), by_class=True))


@dataclass(frozen=True)
class Never(Attack):
    def __call__(self, attribution, x, ball, target=None):
        raise AssertionError("the attack was started")

    def seeded(self, seed):
        return self


def test_what_cannot_be_recognised_again_is_refused_before_anything_is_computed() -> None:
    attribution, x = tabular(19)
    model = attribution.classifier.model
    method = SplitConformal(Never())
    with pytest.raises(ab.ModelError, match=r"model: expected a torch\.nn\.Module"):
        calibrate(ab.Saliency(model.forward), x, BALL, method=method)
    with pytest.raises(
        ab.ModelError, match="attribution <lambda>: expected a class or function of a module"
    ):
        calibrate(ab.FunctionAttribution(lambda x, t: x, model), x, BALL, method=method)
    each = ab.IntegratedGradients(model, baseline=torch.zeros_like(x))
    with pytest.raises(ab.InputError, match="expected the same settings for all samples"):
        calibrate(each, x, BALL, method=method)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ab.InputError, match="alpha: expected a probability"):
        SplitConformal(alpha=5)
    with pytest.raises(ab.InputError, match="attack: expected an attack, got 'pgd'"):
        SplitConformal("pgd")
    with pytest.raises(ab.InputError, match="subject: expected one of yours, copy, got None"):
        SplitConformal(subject=None)
    with pytest.raises(ab.InputError, match="base: expected the method of a bound, got 'first_o"):
        SplitConformal(base="first_order")


def test_zero_over_zero_is_zero_and_nan_is_refused() -> None:
    deviation = torch.tensor([0.0, 1.0, 1.0, 2.0])
    euclidean = torch.tensor([0.0, 0.0, math.inf, 1.0])
    scores = score(deviation, euclidean)
    assert scores.tolist() == [0, math.inf, 0, 2]
    assert scores.dtype is torch.float64
    deviation[3] = math.nan
    with pytest.raises(
        ab.InputError, match=r"scores: expected a number .* 1 that are NaN, the first"
    ):
        score(deviation, euclidean)


def test_a_linear_model_is_never_moved() -> None:
    """Base bound and deviation are both zero, so are factor and calibrated bound."""
    torch.manual_seed(0)
    attribution, x = ab.Saliency(nn.Linear(3, 2).double()), torch.rand(9, 3).double()
    found = calibrate(attribution, x, BALL, method=SplitConformal(QUICK, alpha=0.1))
    assert found.factor == 0
    assert not found.apply(attribution, first_order(attribution, x, BALL), BALL).any()


def test_calibrating_again_gives_the_same(tmp_path, capsys) -> None:
    attribution, x = tabular(20)
    settings = SplitConformal(AttributionAscent(steps=2, random_starts=1), alpha=0.1)
    one = calibrate(attribution, x, BALL, method=settings)
    assert "calibrating" not in capsys.readouterr().out
    other = calibrate(attribution, x, BALL, method=replace(settings, progress=True))
    assert "calibrating" in capsys.readouterr().out
    assert one == other
    one.save(tmp_path / "it.json")
    assert type(one).load(tmp_path / "it.json") == one
