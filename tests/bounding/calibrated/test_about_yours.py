"""Calibrations of a smooth copy's bounds about the network that people run."""

from __future__ import annotations

import copy as copying
from dataclasses import replace
from functools import cache

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import attribound as ab
from attribound.attacks import AttributionAscent, BestOf, KinkSteps, RandomPerturbation, earnest
from attribound.basics.tensors import norm
from attribound.bounding.calibrated import Calibration, SplitConformal, calibrate
from attribound.results import YOURS, Status

BALL = ab.L2Ball(0.05)
BETA = 5.0
ATTACK = BestOf(AttributionAscent(steps=3).through(BETA, 200), KinkSteps(8))
ALPHA = 0.1


@cache
def digits() -> tuple[nn.Module, Tensor]:
    """A small ReLU network, and digits that it has not seen."""
    torch.manual_seed(0)
    table = load_digits()
    order = torch.randperm(len(table.data))
    x = torch.as_tensor(table.data, dtype=torch.float32)[order] / 16
    y = torch.as_tensor(table.target)[order]
    net = nn.Sequential(
        nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10)
    )
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(100):
        loss = nn.functional.cross_entropy(net(x[:1400]), y[:1400])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.eval(), x[1400:]


@cache
def saliencies(beta: float = BETA) -> tuple[ab.Saliency, ab.Saliency]:
    """Of the copy and of the network."""
    net, _ = digits()
    return ab.Saliency(ab.smooth(net, beta)), ab.Saliency(net)


def settings(**changes) -> SplitConformal:
    return replace(SplitConformal(ATTACK, ALPHA), **changes)


def covers(method: SplitConformal, splits: int = 6, count: int = 60) -> None:
    """The share of new samples that the attack moves, on the network, no further than the bound.

    Given the samples, random splits are independent, each with the coverage that is promised.
    """
    copy, own = saliencies()
    _, x = digits()
    labels = own.targets(x)
    moved = ATTACK(own, x, BALL, labels).deviation
    base = ab.bound(copy, x, BALL, labels)
    shares = []
    for seed in range(splits):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        chosen, new = order[:count], order[count:]
        found = calibrate(copy, x[chosen], BALL, method=method)
        bound = found.factor * base.euclidean[new]
        shares.append((moved[new] <= bound).float().mean().item())
    error = (ALPHA * (1 - ALPHA) * (1 / count + 1 / (len(x) - count)) / splits) ** 0.5
    assert sum(shares) / splits >= 1 - ALPHA - 2 * error


def test_new_samples_of_the_network_itself_are_covered() -> None:
    covers(settings())


def test_scores_of_the_copy_would_not_cover_them() -> None:
    with pytest.raises(AssertionError):
        covers(settings(subject="copy"))


def test_the_bound_of_the_copy_alone_covers_far_less() -> None:
    copy, own = saliencies()
    _, x = digits()
    moved = ATTACK(own, x, BALL).deviation
    held = moved <= ab.bound(copy, x, BALL, own.targets(x)).euclidean
    assert held.float().mean() < 0.4


@cache
def calibration(subject: str = "yours") -> Calibration:
    copy, _ = saliencies()
    _, x = digits()
    return calibrate(copy, x[:30], BALL, method=settings(subject=subject))


def test_scores_are_the_deviations_of_the_network_over_the_bounds_of_the_copy() -> None:
    copy, own = saliencies()
    x = digits()[1][:30]
    labels = own.targets(x)
    for subject, attacked in (("yours", own), ("copy", copy)):
        found = calibration(subject)
        base = ab.bound(copy, x, BALL, labels).euclidean
        ratios = (ATTACK(attacked, x, BALL, labels).deviation / base).sort().values
        torch.testing.assert_close(torch.tensor(found.scores[None]), ratios)
        assert found.provenance.subject == subject
        assert (found.provenance.original is None) == (subject == "copy")
    assert f"original     {calibration().provenance.original}" in repr(calibration())
    assert "subject      copy" in repr(calibration("copy"))


def test_without_a_copy_both_are_the_same() -> None:
    plain = ab.Saliency(nn.Sequential(nn.Linear(64, 5), nn.Softplus(), nn.Linear(5, 3)))
    _, x = digits()
    one, other = (
        calibrate(plain, x[:9], BALL, method=settings(attack=RandomPerturbation(), subject=each))
        for each in ("yours", "copy")
    )
    assert one == other
    assert (one.provenance.subject, one.provenance.original) == ("yours", None)


def test_the_attack_that_is_made_by_default() -> None:
    copy, own = saliencies()
    plain = AttributionAscent(random_starts=4)
    assert SplitConformal().attack_on(copy) == earnest(BETA)
    assert SplitConformal(subject="copy").attack_on(copy) == plain
    assert SplitConformal().attack_on(own) == plain
    assert SplitConformal().attack_on(ab.FunctionAttribution(lambda x, _: x)) == plain
    assert SplitConformal(ATTACK).attack_on(copy) is ATTACK
    found = calibrate(copy, digits()[1][:4], BALL, method=SplitConformal(alpha=0.25))
    assert found.provenance.attack == ab.to_spec(earnest(BETA), whole=True)


def test_the_bound_speaks_of_the_network() -> None:
    copy, own = saliencies()
    x = digits()[1][30:40]
    found = ab.bound(copy, x, BALL, method=calibration())
    assert found.subject == YOURS
    assert f"deviation of {YOURS}" in repr(found)
    torch.testing.assert_close(found.attribution_norm, norm(own(x)))
    torch.testing.assert_close(found.relative, found.euclidean / norm(own(x)))
    assert found.label is None
    base = ab.bound(copy, x, BALL)
    assert not torch.allclose(base.attribution_norm, found.attribution_norm)
    torch.testing.assert_close(found.euclidean, calibration().factor * base.euclidean)
    torch.testing.assert_close(found.euclidean, calibration().apply(copy, base, BALL, x))
    assert all(ab.Status.ZERO_ATTRIBUTION not in status for status in found.status)
    about_copy = ab.bound(copy, x, BALL, method=calibration("copy"))
    assert about_copy.subject == base.subject != YOURS
    torch.testing.assert_close(about_copy.attribution_norm, base.attribution_norm)


def test_scores_that_do_not_add_up_are_those_of_the_network() -> None:
    net, x = digits()
    short = ab.IntegratedGradients(ab.smooth(net, BETA), steps=2)
    method = settings(attack=RandomPerturbation())
    found = ab.bound(short, x[:9], BALL, method=calibrate(short, x[:9], BALL, method=method))
    own = short.of(net)
    expected = own.steps_needed(x[:9], own.targets(x[:9]), own(x[:9]))
    assert found.steps_needed is not None
    assert found.steps_needed.tolist() == expected.tolist()
    assert any(expected.tolist())


def test_where_the_map_of_the_network_is_zero_it_is_said() -> None:
    """Of one example in two: inputs times gradients at zero."""
    net, x = digits()
    times = ab.InputXGradient(ab.smooth(net, BETA))
    found = calibrate(times, x[:9], BALL, method=settings(attack=RandomPerturbation()))
    some = torch.stack([0 * x[9], x[9]])
    bound = ab.bound(times, some, BALL, method=found)
    assert [Status.ZERO_ATTRIBUTION in status for status in bound.status] == [True, False]


class TestAnotherNetwork:
    def test_one_that_was_trained_further_is_refused(self) -> None:
        net = copying.deepcopy(digits()[0])
        copy = ab.Saliency(ab.smooth(net, BETA))
        calibration().check(copy, BALL)
        with torch.no_grad():
            net[0].bias[0] += 1
        message = "network that the smooth copy stands for: expected sha256:.* as calibrated"
        with pytest.raises(ab.InputError, match=message):
            calibration().check(copy, BALL)
        calibration("copy").check(copy, BALL)

    def test_a_copy_that_does_not_know_its_network_is_refused(self) -> None:
        net, _ = digits()
        copy = ab.smooth(net, BETA)
        del copy.__dict__["_attribound_copy_of"]
        with pytest.raises(ab.InputError, match=r"smooth copy stands for: expected .* got none"):
            calibration().check(ab.Saliency(copy), BALL)
        calibration("copy").check(ab.Saliency(copy), BALL)


class TestLabels:
    """What is explained is what the network predicts, though its copy may predict otherwise."""

    @staticmethod
    def blunt() -> tuple[ab.Saliency, ab.Saliency, Tensor, Calibration]:
        """A copy so blunt that it predicts other classes; samples half of which are such."""
        copy, own = saliencies(1.0)
        _, x = digits()
        apart = copy.targets(x) != own.targets(x)
        assert apart.sum() >= 5
        some = torch.cat([x[apart][:5], x[~apart][:5]])
        return copy, own, some, calibrate(copy, some, BALL, method=settings())

    def test_left_open_they_are_those_of_the_network(self) -> None:
        copy, own, x, found = self.blunt()
        bound = ab.bound(copy, x, BALL, method=found)
        assert bound.target.tolist() == own.targets(x).tolist()
        apart = [Status.COPY_DISAGREES in status for status in bound.status]
        assert apart == [True] * 5 + [False] * 5
        assert not any(Status.MISCLASSIFIED in status for status in bound.status)
        base = ab.bound(copy, x, BALL, own.targets(x))
        torch.testing.assert_close(bound.euclidean, found.factor * base.euclidean)
        given = ab.bound(copy, x, BALL, own.targets(x), method=found)
        torch.testing.assert_close(given.euclidean, bound.euclidean)

    def test_those_of_the_copy_are_refused(self) -> None:
        copy, own, x, found = self.blunt()
        with pytest.raises(ab.InputError, match=r"target: .* in examples \[0, 1, 2, 3, 4\]"):
            ab.bound(copy, x, BALL, copy.targets(x), method=found)
        base = ab.bound(copy, x, BALL, own.targets(x))
        with pytest.raises(ab.InputError, match="x: expected the inputs, to ask your network"):
            found.apply(copy, base, BALL)
        assert found.apply(copy, base, BALL, x).isfinite().all()

    def test_given_ones_may_be_any(self) -> None:
        copy, own, x, _ = self.blunt()
        labels = (own.targets(x) + 1) % 10
        found = calibrate(copy, x, BALL, labels, settings())
        bound = ab.bound(copy, x, BALL, labels, method=found)
        assert all(Status.MISCLASSIFIED in status for status in bound.status)
        assert bound.target.tolist() == labels.tolist()


class TestRefusals:
    def test_an_attack_that_climbs_the_network(self) -> None:
        copy, _ = saliencies()
        _, x = digits()
        with pytest.raises(ab.InputError, match=r"attack: expected one .*kinks.*attack\.through"):
            calibrate(copy, x[:9], BALL, method=settings(attack=AttributionAscent(steps=1)))

    def test_a_function_that_is_of_the_copy_alone(self) -> None:
        copy, _ = saliencies()
        _, x = digits()
        function = ab.FunctionAttribution(fixed, copy.classifier.model)
        method = settings(attack=RandomPerturbation())
        with pytest.raises(ab.InputError, match=r"attribution fixed: expected .*your network, too"):
            calibrate(function, x[:9], BALL, method=method)
        found = calibrate(function, x[:9], BALL, method=replace(method, subject="copy"))
        assert found.provenance.subject == "copy"

    def test_a_subject_that_there_is_not(self) -> None:
        with pytest.raises(ab.InputError, match="subject: expected one of yours, copy, got 'mine'"):
            SplitConformal(subject="mine")


def fixed(x: Tensor, target: Tensor) -> Tensor:
    return x.sin()
