from __future__ import annotations

import importlib.metadata

import pytest
import torch

import attribound as ab
import cases
from attribound.attacks import PGD, AttributionAscent, BestOf
from attribound.bounding.calibrated import provenance
from attribound.bounding.calibrated.provenance import (
    describe,
    identify,
    installed_version,
    refuse_settings_per_example,
    stated,
)

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
]


def test_every_setting_of_every_attribution_tells() -> None:
    assert len({describe(attribution) for attribution in DIFFERENT}) == len(DIFFERENT)


def test_all_built_in_attributions_are_known() -> None:
    """Whoever adds one must say what its settings are."""
    built_in = {
        kind
        for kind in vars(ab).values()
        if isinstance(kind, type) and issubclass(kind, ab.Attribution)
    }
    assert built_in == {*provenance._SETTINGS, ab.Attribution, ab.FunctionAttribution}


def test_descriptions_can_be_read() -> None:
    assert describe(DIFFERENT[4]) == (
        "IntegratedGradients(steps=20, baseline=0.1, quadrature='riemann_right', "
        "multiply_by_inputs=True)"
    )
    baselines = (0, 0.0, torch.tensor(0.0))
    same = {describe(ab.IntegratedGradients(MODEL, baseline=b)) for b in baselines}
    assert same == {describe(DIFFERENT[2])}
    assert "baseline=sha256:" in describe(DIFFERENT[5])


class Doubled(ab.Saliency):
    def _value(self, x, target):
        return 2 * super()._value(x, target)


def test_others_need_a_name() -> None:
    """A subclass of a built-in one may be anything."""
    with pytest.raises(ab.ModelError, match=r"attribution Doubled: expected a built-in .* not kno"):
        describe(Doubled(MODEL))
    doubled = Doubled(MODEL)
    doubled.fingerprint = "twice"
    assert describe(doubled) == "Doubled(named:twice)"


def test_functions_need_a_name() -> None:
    def squared(x, target):
        return cases.gradient(MODEL, x, target) ** 2

    with pytest.raises(ab.ModelError, match=r"attribution function squared: expected .* got a fun"):
        describe(ab.FunctionAttribution(squared))
    squared.fingerprint = "v1"
    attribution = ab.FunctionAttribution(squared)
    assert describe(attribution) == "FunctionAttribution(squared, named:v1)"
    assert identify(attribution) == "none"
    known = ab.FunctionAttribution(squared, MODEL)
    assert identify(known) == identify(ab.Saliency(MODEL)) == identify(ab.SmoothGrad(MODEL))


def test_settings_per_example_are_refused() -> None:
    refuse_settings_per_example(ab.IntegratedGradients(MODEL, baseline=torch.zeros(7)), X)
    refuse_settings_per_example(ab.IntegratedGradients(MODEL, baseline=torch.zeros(1, 7)), X)
    each = ab.IntegratedGradients(MODEL, baseline=torch.zeros_like(X))
    with pytest.raises(ab.InputError, match="IntegratedGradients: expected the same settings for"):
        refuse_settings_per_example(each, X)


def test_methods_are_stated_without_progress() -> None:
    quiet, shown = (
        BestOf(PGD(progress=on), AttributionAscent(steps=3, progress=on)) for on in (False, True)
    )
    assert stated(quiet) == stated(shown)
    assert "progress" not in stated(shown)
    assert stated(PGD(steps=3)) != stated(PGD(steps=4))


def test_the_version_is_that_of_the_package(monkeypatch) -> None:
    assert installed_version() == importlib.metadata.version("attribound")

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(provenance, "version", missing)
    assert installed_version() == "not installed"
