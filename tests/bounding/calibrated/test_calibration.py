from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy import stats

import attribound as ab
import cases
from attribound.bounding.calibrated import Calibration, Provenance
from attribound.bounding.calibrated.conformal import conformal_factor
from attribound.bounding.calibrated.provenance import code_of, described, identify
from attribound.bounding.mean_value import MEAN_VALUE

MODEL, X = cases.tabular(classes=3)
ATTRIBUTION = ab.Saliency(MODEL)
BALL = ab.L2Ball(0.1)
BASE = ab.bound(ATTRIBUTION, X, BALL)
PROVENANCE = Provenance(
    model=identify(ATTRIBUTION),
    attribution=described(ATTRIBUTION),
    ball=BALL,
    target="predicted",
    base=ab.FirstOrder(),
    attack={"kind": "any"},
    code={},
    version="0",
)
SCORES = tuple(i / 10 for i in range(1, 21))
ONE = Calibration(0.1, {None: SCORES}, PROVENANCE)
BY_CLASS = Calibration(0.1, {0: SCORES, 2: (0.5,) * 9, 1: (0.5,) * 8}, PROVENANCE)


def labelled(labels, euclidean=None):
    count = len(labels)
    value = torch.ones(count).double() if euclidean is None else euclidean
    return replace(BASE, target=torch.tensor(labels), euclidean=value, label=None)


def test_one_factor_scales_the_bound() -> None:
    assert not ONE.by_class
    assert ONE.factor == ONE.factor_of(7) == 1.9
    assert ONE.factors == {None: 1.9}
    assert ONE.counts == {None: 20}
    found = ONE.apply(ATTRIBUTION, BASE, BALL)
    torch.testing.assert_close(found, 1.9 * BASE.euclidean, rtol=1e-14, atol=0)


def test_every_class_has_its_factor_and_none_borrows_another() -> None:
    """Class 1 had too few samples, class 3 none at all."""
    assert BY_CLASS.factors == {0: 1.9, 2: 0.5, 1: math.inf}
    assert BY_CLASS.counts == {0: 20, 2: 9, 1: 8}
    assert BY_CLASS.factor_of(3) == math.inf
    found = BY_CLASS.apply(ATTRIBUTION, labelled([0, 1, 2, 3]), BALL)
    assert found.tolist() == pytest.approx([1.9, math.inf, 0.5, math.inf])
    with pytest.raises(ab.InputError, match="factor: expected a calibration with one factor"):
        _ = BY_CLASS.factor


def test_zero_and_infinity_are_never_nan() -> None:
    zero, endless = torch.zeros(2).double(), torch.full((2,), math.inf).double()
    nothing = replace(ONE, scores={None: (0.0,) * 20})
    unlimited = replace(ONE, scores={None: (math.inf,) * 20})
    for calibration, base, expected in [
        (ONE, zero, 0.0),
        (ONE, endless, math.inf),
        (nothing, zero, 0.0),
        (nothing, endless, math.inf),
        (unlimited, zero, math.inf),
        (unlimited, endless, math.inf),
    ]:
        assert (
            calibration.apply(ATTRIBUTION, labelled([0, 1], base), BALL).tolist() == [expected] * 2
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_never_puts_the_bound_below_the_deviation_that_made_it(dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    bounds, deviations = torch.rand(2, 2000, generator=generator, dtype=dtype)
    plain = deviations / bounds * bounds
    lost = (plain < deviations).nonzero().flatten().tolist()
    assert len(lost) > 20  # what the margin is for
    for row in lost[:20]:
        bound, deviation = bounds[row], deviations[row].item()
        scores = (deviation / bound.double().item(),) * 20
        one = replace(ONE, scores={None: scores})
        found = one.apply(ATTRIBUTION, labelled([0], bound.view(1)), BALL)
        assert found.dtype is dtype
        assert found.item() >= deviation
        assert found.item() == pytest.approx(deviation, rel=8 * torch.finfo(dtype).eps)


def test_a_product_is_rounded_up_in_float32() -> None:
    values = torch.rand(50, generator=torch.Generator().manual_seed(0))
    found = ONE.apply(ATTRIBUTION, labelled([0] * 50, values), BALL)
    assert found.dtype is torch.float32
    assert (found.double() >= ONE.factor * values.double()).all()
    assert (found.double() <= ONE.factor * values.double() * (1 + 2e-7)).all()


def by_class_coverage(factors_of) -> None:
    """Both classes are covered: a frequent, well-behaved one and a rare one that is moved far."""
    generator, alpha, hits, seen = np.random.default_rng(0), 0.1, [0, 0], [0, 0]
    for _ in range(8000):
        labels = (generator.random(121) < 0.3).astype(int)
        scores = generator.lognormal(labels, 0.5)
        factor = factors_of(labels[:-1].tolist(), scores[:-1].tolist(), alpha)
        seen[labels[-1]] += 1
        hits[labels[-1]] += scores[-1] <= factor(labels[-1])
    for hit, total in zip(hits, seen, strict=True):
        assert stats.binomtest(hit, total, 1 - alpha, alternative="less").pvalue > 1e-6
        assert stats.binomtest(hit, total, 0.97, alternative="greater").pvalue > 1e-6


def mondrian(labels, scores, alpha):
    groups = {
        k: tuple(sorted(s for s, own in zip(scores, labels, strict=True) if own == k))
        for k in (0, 1)
    }
    return Calibration(alpha, groups, PROVENANCE).factor_of


def marginal(labels, scores, alpha):
    """One factor for all covers 90% of all and much less of the rare class."""
    factor = conformal_factor(scores, alpha)
    return lambda label: factor


def test_coverage_by_class() -> None:
    by_class_coverage(mondrian)
    with pytest.raises(AssertionError):
        by_class_coverage(marginal)


OTHER_MODEL, _ = cases.tabular(classes=4)


@pytest.mark.parametrize(
    ("attribution", "ball", "message"),
    [
        (ab.Saliency(OTHER_MODEL), BALL, "model: expected sha256:.* as calibrated, got sha256:"),
        (
            ab.InputXGradient(MODEL),
            BALL,
            r"attribution: expected .*'saliency'.* as calibrated, got .*'input",
        ),
        (ATTRIBUTION, ab.L2Ball(0.2), r"ball: expected L2Ball\(epsilon=0.1\) as .*epsilon=0.2"),
        (ATTRIBUTION, ab.LinfBall(0.1), r"ball: expected L2Ball.* got LinfBall\(epsilon=0.1\)"),
        (ATTRIBUTION, ab.L2Ball(0.1, low=0, high=1), "ball: expected .* got .*low=0.0, high=1.0"),
        (ATTRIBUTION, 0.1, "ball: expected .* got 0.1; a calibration holds for what it was made"),
    ],
)
def test_refuses_what_it_was_not_made_with(attribution, ball, message) -> None:
    ONE.check(ATTRIBUTION, ab.LpBall(0.1, 2))
    with pytest.raises(ab.InputError, match=message):
        ONE.check(attribution, ball)
    with pytest.raises(ab.InputError, match=message):
        ONE.apply(attribution, BASE, ball)


def test_refuses_a_model_trained_further() -> None:
    model, _ = cases.tabular(classes=3)
    ONE.check(ab.Saliency(model), BALL)
    with torch.no_grad():
        model[0].bias[0] += 1e-9
    with pytest.raises(ab.InputError, match="model: expected sha256"):
        ONE.check(ab.Saliency(model), BALL)


def test_refuses_another_base_bound() -> None:
    wrong_claim = replace(BASE, claim=MEAN_VALUE)
    with pytest.raises(ab.InputError, match="claim of the base bound: expected first-order as cal"):
        ONE.apply(ATTRIBUTION, wrong_claim, BALL)
    wrong_ball = replace(BASE, ball=ab.L2Ball(0.2))
    with pytest.raises(ab.InputError, match=r"ball of the base bound: .*got L2Ball\(epsilon=0.2\)"):
        ONE.apply(ATTRIBUTION, wrong_ball, BALL)


def test_the_base_is_computed_as_for_the_calibration() -> None:
    """The question's own first-order bound, with other settings, is not taken for it."""
    rough = ab.FirstOrder(ab.SpectralSolver(0.5, max_iterations=1))
    both = ab.bounds(ATTRIBUTION, X, BALL, claims=[rough, ONE])
    assert (both["first_order"].euclidean > BASE.euclidean).any()
    torch.testing.assert_close(both["calibrated"].euclidean, ONE.apply(ATTRIBUTION, BASE, BALL))


def test_refuses_code_that_was_changed(monkeypatch) -> None:
    name = f"{__name__}:Halved"
    changed = replace(ONE, provenance=replace(PROVENANCE, attribution=described(Halved(MODEL))))
    with pytest.raises(ab.InputError, match=r"code: expected .* as calibrated, got .*sha256:"):
        changed.check(Halved(MODEL), BALL)
    code = code_of(Halved(MODEL))
    assert list(code) == [name]
    known = replace(changed, provenance=replace(changed.provenance, code=code))
    known.check(Halved(MODEL), BALL)
    assert known.fault(Halved(MODEL), BALL) is None
    stale = replace(changed, provenance=replace(changed.provenance, code={name: "sha256:0"}))
    assert "code: expected" in str(stale.fault(Halved(MODEL), BALL))


@dataclass(frozen=True)
class Halved(ab.Saliency):
    def _value(self, x, target):
        return super()._value(x, target) / 2


def saved(folder, **changes) -> str:
    folder.mkdir(exist_ok=True)
    radius = changes.pop("radius", 0.1)
    own = replace(PROVENANCE, ball=ab.L2Ball(radius), **changes)
    replace(ONE, provenance=own).save(folder / f"{radius}.json")
    return str(folder)


def test_the_one_of_a_folder_that_fits_is_used(tmp_path) -> None:
    for radius in (0.05, 0.1, 0.2):
        folder = saved(tmp_path / "several", radius=radius)
    method = ab.Calibrated(folder)
    assert [file.name for file in method.files()] == ["0.05.json", "0.1.json", "0.2.json"]
    bound = ab.bound(ATTRIBUTION, X, BALL, method=method)
    torch.testing.assert_close(bound.euclidean, ONE.apply(ATTRIBUTION, BASE, BALL))
    assert ab.bound(ATTRIBUTION, X, BALL, claim=f"calibrated:folder={folder}").claim is bound.claim
    with pytest.raises(ab.InputError, match=r"calibration: expected one for this .*got 3 others"):
        ab.bound(ATTRIBUTION, X, ab.L2Ball(0.3), method=method)


def test_a_single_file_says_why_it_does_not_fit(tmp_path) -> None:
    file = f"{saved(tmp_path)}/0.1.json"
    ab.bound(ATTRIBUTION, X, BALL, method=ab.Calibrated(file))
    with pytest.raises(ab.InputError, match=r"ball: expected L2Ball\(epsilon=0.1\) as calibrated"):
        ab.bound(ATTRIBUTION, X, ab.L2Ball(0.3), method=ab.Calibrated(file))


def test_a_file_that_was_written_anew_is_read_anew(tmp_path) -> None:
    file = tmp_path / "it.json"
    ONE.save(file)
    before = ab.bound(ATTRIBUTION, X, BALL, method=ab.Calibrated(str(file)))
    replace(ONE, scores={None: tuple(2 * s for s in SCORES)}).save(file)
    after = ab.bound(ATTRIBUTION, X, BALL, method=ab.Calibrated(str(file)))
    torch.testing.assert_close(after.euclidean, 2 * before.euclidean)


def test_without_any_calibration_it_says_how_to_make_one(tmp_path) -> None:
    for method in (ab.Calibrated(), ab.Calibrated(str(tmp_path))):
        with pytest.raises(
            ab.InputError, match=r"calibration.*got none( in it)?;.*attribound.calibrate"
        ):
            ab.bound(ATTRIBUTION, X, BALL, method=method)


def test_methods_are_told_apart_by_their_calibration() -> None:
    assert ONE.as_method() == ONE.as_method() == ab.Calibrated(calibration=ONE)
    assert ONE.as_method() != BY_CLASS.as_method()
    assert ab.Calibrated("here") == ab.Calibrated("here") != ab.Calibrated("there")
    assert len({ONE.as_method(), ONE.as_method(), ab.Calibrated("here")}) == 2
    assert ONE.as_method().files() == ()


def test_refuses_labels_that_are_not_predicted() -> None:
    wrong = (BASE.target + torch.tensor([0, 1, 0, 1, 0])) % 3
    base = ab.bound(ATTRIBUTION, X, BALL, wrong)
    with pytest.raises(ab.InputError, match=r"target: expected the predicted .* examples \[1, 3\]"):
        ONE.apply(ATTRIBUTION, base, BALL)
    given = replace(ONE, provenance=replace(PROVENANCE, target="given"))
    assert given.apply(ATTRIBUTION, base, BALL).isfinite().all()


def test_the_table_says_what_it_belongs_to() -> None:
    shown = repr(BY_CLASS)
    assert "claim: calibrated (factor x first-order bound holds" in shown
    assert "with probability >= 0.9" in shown
    for text in (
        "inf",
        "1.9",
        "saliency",
        "L2Ball(epsilon=0.1)",
        PROVENANCE.model,
        "first_order",
    ):
        assert text in shown
    rows = [line.replace("│", " ").split() for line in repr(ONE).splitlines()]
    assert ["all", "20", "19", "1.9", "1.05", "2"] in rows


def test_it_is_ready_with_a_folder_or_with_a_calibration() -> None:
    made = ab.Calibrated(), ab.Calibrated("folder"), ab.Calibrated(calibration=ONE)
    assert [method.ready for method in made] == [False, True, True]
