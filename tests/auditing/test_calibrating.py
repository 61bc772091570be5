"""Calibrations from runs: those of the samples themselves, for the audits that may use them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import attribound as ab
from attribound.attacks import PGD, Attack, AttributionAscent, BestOf, KinkSteps, OnlyIn
from attribound.auditing.audit import audit
from attribound.auditing.calibrating import FromRun
from attribound.auditing.cells import cells
from attribound.auditing.engines import LocalEngine
from attribound.auditing.settings import read_settings
from attribound.auditing.sources import chosen
from attribound.auditing.store import Run
from attribound.bounding.calibrated import Calibration, SplitConformal, calibrate
from attribound.data import load
from attribound.values import from_spec, to_spec
from auditing import tiny

SAMPLES, AUDITED = 40, 30
BALLS = [ab.L2Ball(0.3), ab.L2Ball(0.6)]
SETTINGS: dict[str, Any] = {
    "attributions": ["saliency"],
    "balls": BALLS,
    "claims": [
        "first_order",
        ab.MeanValue(shells=1, rounds=0, attack=AttributionAscent(steps=1, random_starts=0)),
    ],
    "attacks": {
        "ascent": AttributionAscent(steps=4),
        "random": AttributionAscent(steps=1, seed=5),
    },
    "dtype": "float64",
}
FACTORY = "auditing.tiny:varied"
KINKED = "auditing.tiny:kinked"


def audited(**changes: Any) -> Run:
    settings = {**SETTINGS, "limit": SAMPLES, "skip": AUDITED, **changes}
    return audit(FACTORY, "digits", engine=LocalEngine(threads=1), **settings)


@pytest.fixture(scope="module")
def run() -> Run:
    return audited()


@pytest.mark.parametrize("base", ["first_order", "mean_value"])
def test_they_are_those_of_the_samples_themselves(run: Run, base: str) -> None:
    found = FromRun(alpha=0.1, base=base)(run)
    assert [(name, ball) for name, ball in found] == [("saliency", ball) for ball in BALLS]
    examples = load("digits")
    x = examples.read(chosen(len(examples), SAMPLES, skip=AUDITED)).double()
    claims = read_settings(run.manifest.settings).claims or ()
    (effort,) = (each for each in claims if each.claim.name == base)
    attribution = ab.Saliency(tiny.varied().double().eval())
    for (_, ball), own in found.items():
        # One step more from the same start is never worse: the second attack never wins.
        method = SplitConformal(AttributionAscent(steps=4), alpha=0.1, base=effort)
        expected = calibrate(attribution, x, ball, method=method)
        assert own.scores[None] == pytest.approx(expected.scores[None], rel=1e-6)
        assert own.factor == pytest.approx(expected.factor, rel=1e-6)
        own.check(attribution, ball)
        assert own.base == expected.base == effort
        assert own.provenance.target == "predicted"
        assert from_spec(own.provenance.attack, Attack) == BestOf(
            AttributionAscent(steps=4), AttributionAscent(steps=1, seed=5)
        )


def test_samples_that_a_program_gave_are_known_again(tmp_path: Path) -> None:
    """Their calibration has hashes of them, or there is none."""
    x, model = torch.rand(30, 1, 8, 8, dtype=torch.float64), tiny.build()
    told = {"engine": LocalEngine(threads=1), **SETTINGS, "balls": BALLS[0]}
    found = audit(model, x, limit=20, **told)
    with pytest.raises(ab.InputError, match=r"data: expected what the run was given.*, got none"):
        FromRun(alpha=0.1)(found, model)
    with pytest.raises(ab.InputError, match="data: expected the samples of the run, sha256"):
        FromRun(alpha=0.1)(found, model, 2 * x)
    (own,) = FromRun(alpha=0.1)(found, model, x).values()
    assert len(own.provenance.samples) == 20
    own.save(tmp_path / "own.json")
    told |= {"calibrated": ab.Calibrated(str(tmp_path))}
    with pytest.raises(
        ab.InputError, match=r"none that a calibration was made with.* got 20 of 30"
    ):
        audit(model, x, **told)
    assert audit(model, x, skip=20, limit=10, **told).finished
    document = json.loads((tmp_path / "own.json").read_text())
    (tmp_path / "own.json").write_text(json.dumps({**document, "sample_hashes": []}))
    with pytest.raises(
        ab.InputError, match=r"file own.json: expected hashes of the samples.*again"
    ):
        audit(model, x, skip=20, limit=10, **told)


def test_a_bound_of_a_sample_of_the_calibration_says_so() -> None:
    model, x = tiny.build().double(), torch.rand(20, 1, 8, 8, dtype=torch.float64)
    saliency = ab.Saliency(model)
    found = ab.calibrate(saliency, x, BALLS[0])
    mixed = torch.cat([x[3:4], x[3:4] + 1e-3])
    bound = ab.bound(saliency, mixed, BALLS[0], method=found)
    assert [ab.Status.CALIBRATED_WITH in each for each in bound.status] == [True, False]


def test_an_audit_of_other_samples_uses_them(run: Run, tmp_path: Path) -> None:
    for number, own in enumerate(FromRun(alpha=0.2)(run).values()):
        own.save(tmp_path / f"{number}.json")
    given = {"claims": ["first_order"], "calibrated": {"folder": str(tmp_path)}}
    new = audited(skip=0, limit=AUDITED, **given)
    assert not set(new.rows()["sample"].to_pylist()) & set(run.rows()["sample"].to_pylist())
    assert sorted(new.manifest.inputs) == ["0.json", "1.json"]
    for number, cell in enumerate(cells(new.rows())):
        exceeded = cell.bound("calibrated", "exceeded")
        assert not np.isnan(exceeded).any()
        # Of 30 at alpha .2 more than 13 are exceeded with probability .001, if coverage is right.
        assert exceeded.sum() <= 13
        factors = cell.bound("calibrated") / cell.bound("first_order")
        expected = Calibration.load(tmp_path / f"{number}.json").factor
        assert factors.tolist() == pytest.approx([expected] * AUDITED, rel=1e-6)


def test_by_class_each_has_its_own_scores(run: Run) -> None:
    found = FromRun(alpha=0.3, by_class=True)(run)["saliency", BALLS[0]]
    predictions = run.samples()["prediction"].to_pylist()[::2]
    assert found.counts == {label: predictions.count(label) for label in sorted(set(predictions))}
    together = sorted(score for own in found.scores.values() for score in own)
    assert tuple(together) == FromRun(alpha=0.3)(run)["saliency", BALLS[0]].scores[None]
    infinite = {label for label, factor in found.factors.items() if factor == math.inf}
    assert infinite == {label for label, count in found.counts.items() if count < 3}
    assert infinite


def test_only_attacks_that_were_made_in_a_ball_are_told() -> None:
    attacks = {"pgd": OnlyIn(PGD(steps=1), ("l2",)), "cube": OnlyIn(PGD(steps=2), ("linf",))}
    balls = [ab.L2Ball(0.3), ab.LinfBall(0.1)]
    run = audited(attacks=attacks, balls=balls, claims=["first_order"], limit=20)
    found = FromRun(alpha=0.1)(run)
    told = [from_spec(own.provenance.attack, Attack) for own in found.values()]
    assert told == [attacks["pgd"], attacks["cube"]]
    assert [ball for _, ball in found] == balls


class TestWithACopy:
    """By default about the network itself: its attacks over the bounds of its copy."""

    COPIED: ClassVar[dict[str, Any]] = {
        "smooth": 1.0,  # so blunt that the copy predicts other classes, too
        "balls": BALLS[:1],
        "claims": ["first_order"],
        "attacks": {"ascent": AttributionAscent(steps=2)},
        "own_attacks": {"kinks": KinkSteps(4), "through": AttributionAscent(steps=2).through(50)},
    }

    @classmethod
    def copied(cls, **changes: Any) -> Run:
        settings = {**SETTINGS, "limit": SAMPLES, "skip": AUDITED, **cls.COPIED, **changes}
        return audit(KINKED, "digits", engine=LocalEngine(threads=1), **settings)

    def test_scores_are_those_of_the_subject(self, copy_run: Run) -> None:
        (cell,) = cells(copy_run.rows())
        for subject, reached in (("yours", cell.yours), ("copy", cell.strongest)):
            (own,) = FromRun(alpha=0.1, subject=subject)(copy_run).values()
            ratios = np.sort(reached("deviation") / cell.bound("first_order"))
            assert own.scores[None] == pytest.approx(ratios.tolist())
            assert own.provenance.subject == subject
        assert not np.allclose(cell.yours("deviation"), cell.strongest("deviation"))

    def test_it_says_what_attacked_what(self, copy_run: Run) -> None:
        (yours,) = FromRun(alpha=0.1)(copy_run).values()
        made = {name: to_spec(each, whole=True) for name, each in self.COPIED["attacks"].items()}
        own = {name: to_spec(each, whole=True) for name, each in self.COPIED["own_attacks"].items()}
        transferred = {"kind": "transferred", "attack": made["ascent"]}
        assert yours.provenance.attack == {
            "kind": "best_of",
            "attacks": [own["kinks"], own["through"], transferred],
        }
        assert yours.provenance.original == copy_run.manifest.model["fingerprint"]
        (copy,) = FromRun(alpha=0.1, subject="copy")(copy_run).values()
        assert copy.provenance.attack == made["ascent"]
        assert copy.provenance.original is None

    def test_an_audit_holds_them_against_attacks_on_their_subject(
        self, copy_run: Run, tmp_path: Path
    ) -> None:
        """Where copy and network predict different classes, too: the network's is explained."""
        for subject in ("yours", "copy"):
            ((_, own),) = FromRun(alpha=0.2, subject=subject)(copy_run).items()
            own.save(tmp_path / f"{subject}.json")
        given = {"calibrated": {"folder": str(tmp_path / "yours.json")}}
        new = self.copied(skip=0, limit=AUDITED, **given)
        (cell,) = cells(new.rows())
        assert 0 in cell.fidelity("label"), "else there is nothing to disagree on"
        assert cell.subjects("first_order") == {"copy"}
        assert cell.subjects("calibrated") == {"yours"}
        beyond = cell.yours("deviation") > cell.bound("calibrated")
        assert cell.exceeded("calibrated").tolist() == beyond.tolist()
        assert cell.yours_exceeded("calibrated").tolist() == beyond.tolist()
        assert beyond.sum() <= 13
        said = ["copy-disagrees" in str(text) for text in cell.bound_texts("calibrated", "status")]
        assert said == [not agree for agree in cell.fidelity("label")]

    def test_attacks_on_the_network_alone_are_enough(self) -> None:
        run = self.copied(attacks={}, limit=9)
        (own,) = FromRun(alpha=0.1)(run).values()
        assert [each["kind"] for each in own.provenance.attack["attacks"]] == [
            "kink_steps",
            "through",
        ]
        with pytest.raises(ab.InputError, match="expected attacks in every ball, got none in l2"):
            FromRun(alpha=0.1, subject="copy")(run)

    def test_a_subject_that_there_is_not(self) -> None:
        with pytest.raises(ab.InputError, match="subject: expected one of yours, copy"):
            FromRun(subject="mine")


@pytest.fixture(scope="module")
def copy_run() -> Run:
    return TestWithACopy.copied()


class TestRefusals:
    def test_a_probability_that_is_none(self) -> None:
        with pytest.raises(ab.InputError, match="alpha: expected a probability"):
            FromRun(alpha=0)

    def test_too_few_samples(self, run: Run) -> None:
        with pytest.raises(ab.InputError, match=r"expected 99 or more for alpha=0\.01"):
            FromRun(alpha=0.01)(run)

    @pytest.mark.parametrize("base", ["certified", "calibrated"])
    def test_a_base_that_cannot_be_scaled_or_is_not_there(self, run: Run, base: str) -> None:
        with pytest.raises(ab.InputError, match="of the run: first_order or mean_value, got"):
            FromRun(base=base)(run)

    def test_a_run_without_attacks(self) -> None:
        with pytest.raises(ab.InputError, match="expected attacks in every ball, got none in l2"):
            FromRun()(audited(limit=2, attacks={}))
        elsewhere = {"pgd": OnlyIn(PGD(steps=1), ("linf",))}
        with pytest.raises(ab.InputError, match="expected attacks in every ball, got none in l2"):
            FromRun()(audited(limit=2, attacks=elsewhere))

    def test_a_sample_that_failed(self) -> None:
        model = tiny.nan_for_some()
        found = audit(model, "digits", engine=LocalEngine(threads=1), limit=6, **SETTINGS)
        with pytest.raises(ab.InputError, match="got 2 rows that failed, the first with"):
            FromRun()(found, model)

    def test_a_run_that_is_not_finished(self, run: Run, tmp_path: Path) -> None:
        begun = Run.create(tmp_path / "run", run.manifest)
        with begun, pytest.raises(ab.InputError, match="a finished one, got 0 of 3 batches"):
            FromRun()(begun)

    def test_another_model(self, run: Run) -> None:
        with pytest.raises(ab.ModelError, match="expected the one of the run"):
            FromRun()(run, tiny.build())

    def test_an_object_that_is_not_there(self) -> None:
        model = tiny.build()
        found = audit(model, "digits", engine=LocalEngine(threads=1), limit=20, **SETTINGS)
        with pytest.raises(ab.InputError, match="this was an object in a program"):
            FromRun()(found)
        assert len(FromRun()(found, model)) == 2
