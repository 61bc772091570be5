from __future__ import annotations

import hashlib
import importlib.metadata
import json
import struct
from dataclasses import dataclass

import pytest
import torch

import attribound as ab
import cases
from attribound.attacks import PGD, Attack, AttributionAscent, BestOf, judge
from attribound.bounding.calibrated import provenance
from attribound.bounding.calibrated.provenance import (
    code_of,
    described,
    first_of_each,
    identify,
    installed_version,
    refuse_settings_per_example,
    sample_hashes,
)
from attribound.values import names

MODEL, X = cases.tabular()

DIFFERENT = [
    ab.Saliency(MODEL),
    ab.InputXGradient(MODEL),
    ab.IntegratedGradients(MODEL),
    ab.IntegratedGradients(MODEL, steps=10),
    ab.IntegratedGradients(MODEL, baseline=0.1),
    ab.IntegratedGradients(MODEL, baseline=torch.zeros(7)),
    ab.IntegratedGradients(MODEL, baseline=torch.ones(7)),
    ab.IntegratedGradients(MODEL, quadrature="midpoint"),
    ab.IntegratedGradients(MODEL, multiply_by_inputs=False),
    ab.SmoothGrad(MODEL),
    ab.SmoothGrad(MODEL, samples=3),
    ab.SmoothGrad(MODEL, sigma=0.2),
    ab.SmoothGrad(MODEL, seed=1),
    ab.ExpectedGradients(MODEL),
    ab.ExpectedGradients(MODEL, baselines=torch.ones(2, 7)),
    ab.ExpectedGradients(MODEL, samples=3),
    ab.ExpectedGradients(MODEL, sigma=0.2),
    ab.ExpectedGradients(MODEL, seed=1),
    ab.ExpectedGradients(MODEL, multiply_by_inputs=False),
    ab.GradCAM(MODEL, layer="0"),
    ab.GradCAM(MODEL, layer="1"),
]


def test_samples_are_known_by_their_numbers_in_float32() -> None:
    """By names that stay what they are: files of older calibrations have them."""
    x = torch.tensor([[0.0, 1.0], [0.1, 2.0], [0.0, 1.0]])
    hashes = sample_hashes(x)
    assert hashes == sample_hashes(x.double()) == sample_hashes(x.clone().requires_grad_())
    assert hashes[0] == hashlib.sha256(struct.pack("<2f", 0.0, 1.0)).hexdigest()[:32]
    assert hashes[0] == hashes[2] != hashes[1]
    assert sample_hashes(-x * torch.tensor([1.0, -1.0]))[0] == hashes[0]  # a zero below zero
    assert first_of_each(hashes) == [0, 1]


def told(attribution: ab.Attribution) -> str:
    return json.dumps(described(attribution), sort_keys=True)


def test_every_setting_of_every_attribution_tells() -> None:
    assert len({told(attribution) for attribution in DIFFERENT}) == len(DIFFERENT)


def test_all_built_in_attributions_are_among_them() -> None:
    """Whoever adds one must say here what its settings are."""
    kinds = {described(attribution)["kind"] for attribution in DIFFERENT}
    assert kinds == {*names(ab.ModelAttribution)} - {"function", "captum"}  # of a user's own


def test_descriptions_can_be_read() -> None:
    assert described(DIFFERENT[4]) == {
        "kind": "ig",
        "steps": 20,
        "baseline": 0.1,
        "quadrature": "riemann_right",
        "multiply_by_inputs": True,
    }
    baselines = (0, 0.0, torch.tensor(0.0))
    same = {told(ab.IntegratedGradients(MODEL, baseline=base)) for base in baselines}
    assert same == {told(DIFFERENT[2])}


def test_what_it_is_called_does_not_matter() -> None:
    assert described(ab.Saliency(MODEL, label="grad")) == described(ab.Saliency(MODEL))


@dataclass(frozen=True)
class Doubled(ab.Saliency):
    def _value(self, x, target):
        return 2 * super()._value(x, target)


def test_others_are_known_by_their_place_and_code() -> None:
    """A subclass of a built-in one may be anything."""
    assert described(Doubled(MODEL))["kind"] == f"{__name__}:Doubled"
    assert list(code_of(Doubled(MODEL))) == [f"{__name__}:Doubled"]
    assert code_of(ab.Saliency(MODEL), ab.L2Ball(0.1), AttributionAscent()) == {}


def test_classes_inside_functions_need_a_name() -> None:
    @dataclass(frozen=True)
    class Tripled(ab.Saliency):
        pass

    with pytest.raises(ab.ModelError, match=r"attribution .*Tripled: expected a class or function"):
        described(Tripled(MODEL))


def squares(x, target):
    return cases.gradient(MODEL, x, target) ** 2


def test_functions_need_a_name() -> None:
    def squared(x, target):
        return cases.gradient(MODEL, x, target) ** 2

    with pytest.raises(ab.ModelError, match=r"attribution squared: expected .*got .*<locals>.squa"):
        described(ab.FunctionAttribution(squared))
    squared.fingerprint = "v1"
    attribution = ab.FunctionAttribution(squared)
    assert described(attribution) == {"kind": "function", "fn": "named:v1"}
    assert described(ab.FunctionAttribution(squares))["fn"] == f"{__name__}:squares"
    assert list(code_of(ab.FunctionAttribution(squares))) == [f"{__name__}:squares"]
    assert identify(attribution) == "none"
    known = ab.FunctionAttribution(squared, MODEL)
    assert identify(known) == identify(ab.Saliency(MODEL)) == identify(ab.SmoothGrad(MODEL))


def test_settings_per_example_are_refused() -> None:
    refuse_settings_per_example(ab.IntegratedGradients(MODEL, baseline=torch.zeros(7)), X)
    refuse_settings_per_example(ab.IntegratedGradients(MODEL, baseline=torch.zeros(1, 7)), X)
    each = ab.IntegratedGradients(MODEL, baseline=torch.zeros_like(X))
    with pytest.raises(ab.InputError, match=r"attribution ig.*: expected the same settings for"):
        refuse_settings_per_example(each, X)


@dataclass(frozen=True)
class Still(Attack):
    def __call__(self, attribution, x, ball, target=None):
        return judge(attribution, x, torch.zeros_like(x), target)

    def seeded(self, seed):
        return self


def test_attacks_are_stated_without_progress() -> None:
    quiet, shown = (
        BestOf(PGD(progress=on), AttributionAscent(steps=3, progress=on)) for on in (False, True)
    )
    assert ab.to_spec(quiet, whole=True) == ab.to_spec(shown, whole=True)
    assert "progress" not in str(ab.to_spec(shown, whole=True))
    assert ab.to_spec(PGD(steps=3)) != ab.to_spec(PGD(steps=4))
    assert list(code_of(BestOf(PGD(), Still()).repeat(2))) == [f"{__name__}:Still"]


def test_the_version_is_that_of_the_package(monkeypatch) -> None:
    assert installed_version() == importlib.metadata.version("attribound")

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(provenance, "version", missing)
    assert installed_version() == "not installed"
