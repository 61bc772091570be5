from __future__ import annotations

import pytest
import torch

import attribound as ab
from attribound.auditing.bounded import bound_records
from attribound.auditing.subject import Subject, top
from attribound.bounding.method import Question
from attribound.networks.fingerprint import fingerprint
from auditing import cases

QUICK = ab.SplitConformal(attack=ab.attacks.AttributionAscent(steps=1), alpha=0.5)


def test_every_attribution_is_built_as_it_says_on_one_classifier() -> None:
    chosen = (
        ab.Saliency(),
        ab.InputXGradient(),
        ab.IntegratedGradients(
            steps=3, baseline=0.5, quadrature="midpoint", multiply_by_inputs=False
        ),
        ab.SmoothGrad(samples=2, sigma=0.3, seed=5),
        cases.Pooled(width=2),
    )
    subject = cases.subject(attributions=chosen)
    assert tuple(subject.attributions.values()) == chosen
    assert list(subject.attributions) == [each.name for each in chosen]
    assert [type(each) for each in subject.attributions.values()] == [type(each) for each in chosen]
    assert len({id(each.classifier) for each in subject.attributions.values()}) == 1
    assert next(iter(subject.attributions.values())).classifier.model is subject.audited


def test_the_model_is_brought_to_the_dtype_of_the_audit() -> None:
    model = cases.plain().train()
    subject = cases.subject(model, dtype="float64")
    assert next(subject.audited.parameters()).dtype == torch.float64
    assert not subject.audited.training
    assert subject.place(torch.rand(1, 7)).dtype == torch.float64
    assert subject.fingerprint == fingerprint("model", model)


def test_kinks_are_refused_with_what_to_do_in_an_audit() -> None:
    x = cases.batch().x
    with pytest.raises(ab.KinkError, match=r"setting smooth.*relu.*--smooth auto"):
        cases.subject(cases.plain(kinked=True)).refuse_kinks(x)
    cases.subject(cases.plain(kinked=True), smooth=20.0).refuse_kinks(x)
    cases.subject(cases.plain()).refuse_kinks(x)


def test_kinks_that_smoothing_leaves_are_refused_as_they_are() -> None:
    class Kinked(torch.nn.Module):
        def forward(self, x):
            return x.abs() @ torch.ones(7, 2, dtype=x.dtype)

    with pytest.raises(ab.KinkError, match="abs") as caught:
        cases.subject(Kinked(), smooth=20.0).refuse_kinks(cases.batch().x)
    assert "--smooth" not in str(caught.value)


def test_a_sample_that_fails_is_no_reason_to_refuse_the_model() -> None:
    cases.subject(cases.Network()).refuse_kinks(cases.batch(bad=(0,)).x)


def test_a_smooth_copy_stands_beside_the_original() -> None:
    model = cases.plain(kinked=True)
    subject = cases.subject(model, smooth=20.0)
    assert subject.model is model
    assert isinstance(subject.audited[1], torch.nn.Softplus)
    assert subject.originals["saliency"].classifier.model is model
    assert cases.subject().originals == {}


CERTIFIED = {"claims": ("certified",), "attacks": None, "dtype": "float32"}


class TestANetworkWithKinksItself:
    """Audits of certificates alone: no smooth copy, and attacks that climb no slopes."""

    def run(self, **changes) -> ab.Run:
        x = cases.batch().x.float()
        given = {**cases.SMALL, **CERTIFIED, **changes}
        del given["model"], given["data"]
        return ab.audit(cases.plain(kinked=True), (x, torch.zeros(len(x)).long()), **given)

    def test_every_number_is_of_your_network(self) -> None:
        found = self.run(balls=[ab.L2Ball(0.1), ab.LinfBall(0.05)])
        bounds, attacks = found.bounds().to_pydict(), found.attacks().to_pydict()
        assert {*bounds["subject"], *attacks["subject"]} == {"yours"}
        assert {*attacks["attack"]} == {"jumps", "kinks", "noise", "through"}
        assert not any(bounds["exceeded"])
        assert max(attacks["deviation"]) > 0
        assert all(value is None for value in found.rows()["fidelity"].to_pylist())
        own = ab.bound(
            ab.Saliency(cases.plain(kinked=True)),
            cases.batch().x.float(),
            ab.L2Ball(0.1),
            claim="certified",
        )
        assert bounds["euclidean"][::2] == pytest.approx(own.euclidean.tolist())
        page = ab.write_html(found).read_text(encoding="utf-8")
        assert "It is proved for every perturbation; the attacks agree." in page

    def test_attributions_that_cross_kinks_are_climbed_and_the_others_are_not(self) -> None:
        exact = ab.IntegratedGradients(quadrature="exact", label="exact")
        found = self.run(attributions=[ab.Saliency(), exact])
        made = {(row["attribution"], row["attack"]) for row in found.attacks().to_pylist()}
        assert {("exact", "ascent"), ("exact", "from_kinks")} <= made
        assert ("saliency", "ascent") not in made
        assert not any(found.bounds()["exceeded"].to_pylist())

    def test_exact_integrals_have_every_claim(self) -> None:
        exact = ab.IntegratedGradients(quadrature="exact")
        claims = ("first_order", "mean_value", "certified")
        found = self.run(attributions=[exact], claims=claims).bounds().to_pydict()
        assert {*zip(found["claim"], found["subject"], strict=True)} == {
            (claim, "yours") for claim in claims
        }
        assert all(value > 0 for value in found["euclidean"])

    def test_averaged_maps_stand_beside(self) -> None:
        claims = (ab.Certified(), ab.Smoothed(draws=200))
        found = self.run(claims=claims).bounds().to_pydict()
        assert {*zip(found["claim"], found["subject"], strict=True)} == {
            ("certified", "yours"),
            ("smoothed", "averaged"),
        }

    def test_chosen_attacks_are_made_or_refused_never_left_out(self) -> None:
        found = self.run(attacks={"pgd": ab.attacks.PGD(steps=2)})
        assert {*found.attacks()["attack"].to_pylist()} == {
            "pgd",
            "jumps",
            "kinks",
            "noise",
            "through",
        }
        climbing = ab.attacks.OnlyIn(ab.attacks.AttributionAscent().repeat(2), ("l2",))
        with pytest.raises(ab.KinkError, match=r"with attacks that climb no slopes"):
            self.run(attacks={"ascent": climbing})

    def test_other_claims_are_refused_and_smooth_networks_climbed(self) -> None:
        with pytest.raises(ab.KinkError, match=r"--claim certified, --claim smoothed"):
            self.run(claims=("first_order", "certified"))
        x, labels = cases.batch().x.float(), torch.zeros(4).long()
        found = ab.audit(cases.plain(), (x, labels), claims="certified", attributions="saliency")
        assert {*found.attacks()["attack"].to_pylist()} == {"ascent"}

    def test_what_cannot_be_certified_says_why(self) -> None:
        class Kinked(torch.nn.Module):
            def forward(self, x):
                return x.abs() @ torch.ones(7, 2, dtype=x.dtype)

        x = cases.batch(1).x.float()
        asked = {"claims": "certified", "attributions": "saliency"}
        with pytest.raises(ab.KinkError, match=r"smooth copies can be climbed.*--set own_attacks"):
            ab.audit(Kinked(), (x, torch.zeros(1).long()), **asked)
        own = {"kinks": "kink_steps", "noise": "random"}
        found = ab.audit(Kinked(), (x, torch.zeros(1).long()), own_attacks=own, **asked)
        assert {*found.attacks()["attack"].to_pylist()} == {"kinks", "noise"}
        (record,) = found.rows()["bounds"].to_pylist()[0]
        assert record["euclidean"] is None
        assert "does not apply: the model, Kinked" in record["status"]


def calibrated(subject: Subject, name: str, ball: ab.Ball) -> dict:
    """The record of the calibrated bound of the first sample."""
    attribution, x = subject.attributions[name], cases.batch().x
    question = Question(attribution, x, ball, attribution.targets(x))
    ((record,), *_) = bound_records([question], subject.settings.claims or ())
    return record


def test_calibrations_find_their_attribution_and_ball(tmp_path) -> None:
    model = cases.plain().double()
    factors = {}
    for epsilon in (0.05, 0.2):
        made = ab.calibrate(ab.Saliency(model), cases.batch().x, ab.L2Ball(epsilon), method=QUICK)
        made.save(tmp_path / f"{epsilon}.json")
        factors[epsilon] = made.factor
    names = (ab.Saliency(), ab.InputXGradient())

    def told(folder: str | None, name: str, ball: ab.Ball) -> dict:
        claims = ab.Calibrated(folder)
        return calibrated(cases.subject(model, attributions=names, claims=claims), name, ball)

    for epsilon, factor in factors.items():
        found = told(str(tmp_path), "saliency", ab.L2Ball(epsilon))
        assert found["source"] == f"{factor:.4g} x first-order"
    assert "got 2 others" in told(str(tmp_path), "saliency", ab.L2Ball(0.1))["status"]
    file = str(tmp_path / "0.05.json")
    assert "ball: expected" in told(file, "saliency", ab.L2Ball(0.1))["status"]
    other = told(file, "input_x_gradient", ab.L2Ball(0.05))["status"]
    assert "attribution: expected" in other
    assert "got none" in told(None, "saliency", ab.L2Ball(0.05))["status"]


def test_a_calibration_of_another_model_is_not_used(tmp_path) -> None:
    """The broken variant: the same numbers for a network with other weights."""
    model = cases.plain().double()
    made = ab.calibrate(ab.Saliency(model), cases.batch().x, ab.L2Ball(0.1), method=QUICK)
    made.save(tmp_path / "c.json")
    claims = ab.Calibrated(str(tmp_path / "c.json"))
    fine = calibrated(cases.subject(model, claims=claims), "saliency", ab.L2Ball(0.1))
    assert fine["euclidean"] > 0
    with torch.no_grad():
        model[0].bias += 1e-3
    found = calibrated(cases.subject(model, claims=claims), "saliency", ab.L2Ball(0.1))
    assert "model: expected sha256" in found["status"]
    assert "euclidean" not in found


def test_k_is_the_papers_where_it_tells_maps_apart_and_never_above_the_scores() -> None:
    usual = cases.settings()
    assert [top(usual, scores) for scores in (784, 1024, 1025, 3072, 64, 1)] == [
        100,
        100,
        342,
        1000,
        22,
        1,
    ]
    assert [top(cases.settings(k=5), scores) for scores in (784, 3)] == [5, 3]
