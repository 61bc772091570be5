from __future__ import annotations

import pytest
import torch
from auditing import cases

import attribound as ab
from attribound.auditing.settings import (
    BallSettings,
    IGSettings,
    InputXGradientSettings,
    SaliencySettings,
    SmoothGradSettings,
)
from attribound.auditing.subject import Subject, default_k
from attribound.networks.fingerprint import fingerprint

QUICK = ab.SplitConformal(attack=ab.attacks.AttributionAscent(steps=1), alpha=0.5)


def test_every_attribution_is_built_as_it_says_on_one_classifier() -> None:
    chosen = (
        SaliencySettings(),
        InputXGradientSettings(),
        IGSettings(steps=3, baseline=0.5, quadrature="midpoint", multiply_by_inputs=False),
        SmoothGradSettings(samples=2, sigma=0.3, seed=5),
    )
    subject = cases.subject(attributions=chosen)
    saliency, product, path, noisy = subject.attributions.values()
    assert list(map(type, subject.attributions.values())) == [
        ab.Saliency,
        ab.InputXGradient,
        ab.IntegratedGradients,
        ab.SmoothGrad,
    ]
    assert (path.steps, path.baseline, path.quadrature) == (3, 0.5, "midpoint")
    assert not path.multiply_by_inputs
    assert (noisy.samples, noisy.sigma, noisy.seed) == (2, 0.3, 5)
    assert len({id(each.classifier) for each in (saliency, product, path, noisy)}) == 1


def test_the_model_is_brought_to_the_dtype_of_the_audit() -> None:
    model = cases.plain().train()
    subject = cases.subject(model, dtype="float64")
    assert next(subject.audited.parameters()).dtype == torch.float64
    assert not subject.audited.training
    assert subject.place(torch.rand(1, 7)).dtype == torch.float64
    assert subject.fingerprint == fingerprint("model", model)


def test_kinks_are_refused_with_what_to_do_in_an_audit() -> None:
    x = cases.batch().x
    with pytest.raises(ab.KinkError, match=r"setting smooth.*relu.*--smooth 20"):
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


def test_calibrations_find_their_attribution_and_ball(tmp_path) -> None:
    model = cases.plain().double()
    for epsilon in (0.05, 0.2):
        made = ab.calibrate(ab.Saliency(model), cases.batch().x, ab.L2Ball(epsilon), method=QUICK)
        made.save(tmp_path / f"{epsilon}.json")
    names = (SaliencySettings(), InputXGradientSettings())
    claims = ("first_order", "calibrated")
    given = {"attributions": names, "claims": claims}
    folder = cases.subject(model, calibration=str(tmp_path), **given).calibrations
    assert len(folder) == 4
    assert folder["saliency", ab.L2Ball(0.05)].provenance.ball == ab.L2Ball(0.05)
    assert "none of 2 calibrations" in folder["saliency", ab.L2Ball(0.1)]
    file = cases.subject(model, calibration=str(tmp_path / "0.05.json"), **given).calibrations
    assert "ball: expected" in file["saliency", ab.L2Ball(0.1)]
    assert "attribution: expected Saliency" in file["input_x_gradient", ab.L2Ball(0.05)]
    nothing = cases.subject(model, **given).calibrations
    assert "none of 0 calibrations" in nothing["saliency", ab.L2Ball(0.05)]


def test_a_calibration_of_another_model_is_not_used(tmp_path) -> None:
    """The broken variant: the same numbers for a network with other weights."""
    model = cases.plain().double()
    made = ab.calibrate(ab.Saliency(model), cases.batch().x, ab.L2Ball(0.1), method=QUICK)
    made.save(tmp_path / "c.json")
    with torch.no_grad():
        model[0].bias += 1e-3
    settings = cases.settings(
        claims=("calibrated",),
        calibration=str(tmp_path / "c.json"),
        balls=(BallSettings("l2", (0.1,)),),
    )
    found = Subject.of(settings, model).calibrations["saliency", ab.L2Ball(0.1)]
    assert "model: expected sha256" in found


def test_k_is_the_papers_where_it_tells_maps_apart() -> None:
    assert [default_k(features) for features in (784, 1024, 1025, 3072, 64, 1)] == [
        100,
        100,
        342,
        1000,
        22,
        1,
    ]
