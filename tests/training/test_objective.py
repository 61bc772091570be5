from __future__ import annotations

import json
from dataclasses import replace

import pytest

import attribound as ab
import objective_laws as laws
from attribound.training import (
    ART,
    AT,
    TRADES,
    AdvAAT,
    ATWithIGR,
    IGNorm,
    Passes,
    TrainingObjective,
)
from attribound.values import class_of, from_spec, names, to_spec


def objective(name: str) -> TrainingObjective:
    return from_spec(name, TrainingObjective)


def test_every_method_has_its_name() -> None:
    own = [
        name
        for name in names(TrainingObjective)
        if class_of(name, TrainingObjective).__module__.startswith("attribound.")
    ]
    assert set(own) == {
        "ce",
        "at",
        "trades",
        "ig_norm",
        "ig_sum_norm",
        "advaat",
        "art",
        "at+igr",
        "trades+igr",
    }
    for name in own:
        assert objective(name).name == name
        assert type(laws.SMALL[name]) is type(objective(name))
    assert objective("ig-norm") == objective("ig_norm")


def test_defaults_are_those_of_the_recipes() -> None:
    assert objective("trades") == TRADES(steps=10, beta=6.0)
    assert objective("at") == AT(steps=20)
    assert objective("ig_norm") == IGNorm(20, weight=1.0, ig_steps=50, attack_ig_steps=10)
    assert objective("art") == ART(3, weight=0.5, k=1000, beta=50.0)
    assert objective("trades+igr").base == TRADES()
    assert objective("ig_sum_norm").weight == 0.1


@pytest.mark.parametrize("method", laws.SMALL.values(), ids=laws.SMALL)
def test_settings_survive_json(method: TrainingObjective) -> None:
    for whole in (True, False):
        plain = json.loads(json.dumps(to_spec(method, whole=whole)))
        assert from_spec(plain, TrainingObjective) == method
    assert hash(method) == hash(replace(method))


def test_passes_add_and_multiply() -> None:
    assert (Passes(1, 2, 3) + Passes(first=1)) * 2 == Passes(4, 4, 6)
    assert TRADES(steps=7).passes == Passes(first=9, forward=1)
    assert ATWithIGR(base=AT(steps=4), ig=ab.IntegratedGradients(steps=3)).passes == Passes(
        first=5, second=6
    )


def test_refuses_unknown_methods_and_senseless_settings() -> None:
    with pytest.raises(
        ab.InputError, match=r"TrainingObjective: expected one of .*at, .*ce, .*trades"
    ):
        objective("madry")
    with pytest.raises(ab.InputError, match="steps: expected a whole number, 1 or more, got 0"):
        AT(steps=0)
    with pytest.raises(ab.InputError, match="step_size: expected a finite number above 0, got -1"):
        AT(step_size=-1.0)
    with pytest.raises(ab.InputError, match="beta: expected a finite number above 0, got 0"):
        TRADES(beta=0.0)
    with pytest.raises(ab.InputError, match="k: expected a whole number, 1 or more, got 0"):
        ART(k=0)
    with pytest.raises(ab.InputError, match="beta: expected a finite number above 0, got inf"):
        ART(beta=float("inf"))
    nan = "weight: expected a finite number above 0, got nan"
    for kind in (IGNorm, AdvAAT, ART, ATWithIGR):
        with pytest.raises(ab.InputError, match=nan):
            kind(weight=float("nan"))
    with pytest.raises(ab.InputError, match="steps: expected a whole number of at least 1, got 0"):
        IGNorm(attack_ig_steps=0)
    with pytest.raises(ab.InputError, match="quadrature: expected one of riemann_right"):
        IGNorm(quadrature="simpson")
