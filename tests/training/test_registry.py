from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

import attribound as ab
import objective_laws as laws
from attribound.training import (
    ART,
    AT,
    IG,
    OBJECTIVES,
    TRADES,
    AdvAAT,
    ATWithIGR,
    IGNorm,
    Objective,
    Passes,
    objective,
)


def test_every_method_has_its_name() -> None:
    assert list(OBJECTIVES) == [
        "ce",
        "at",
        "trades",
        "ig-norm",
        "ig-sum-norm",
        "advaat",
        "art",
        "at+igr",
        "trades+igr",
    ]
    for name, kind in OBJECTIVES.items():
        assert objective(name).name == name
        assert type(objective(name)) is kind
        assert isinstance(laws.SMALL[name], kind)


def test_defaults_are_those_of_the_recipes() -> None:
    assert objective("trades") == TRADES(steps=10, beta=6.0)
    assert objective("at") == AT(steps=20)
    assert objective("ig-norm") == IGNorm(20, weight=1.0, ig_steps=50, attack_ig_steps=10)
    assert objective("art") == ART(3, weight=0.5, k=1000, beta=50.0)
    assert objective("trades+igr").base == TRADES()
    assert objective("ig-sum-norm").weight == 0.1


@pytest.mark.parametrize("method", laws.SMALL.values(), ids=laws.SMALL)
def test_settings_survive_json(method: Objective) -> None:
    adapter = TypeAdapter(type(method))
    assert adapter.validate_json(adapter.dump_json(method)) == method
    assert hash(method) == hash(replace(method))


def test_passes_add_and_multiply() -> None:
    assert (Passes(1, 2, 3) + Passes(first=1)) * 2 == Passes(4, 4, 6)
    assert TRADES(steps=7).passes == Passes(first=9, forward=1)
    assert ATWithIGR(base=AT(steps=4), ig=IG(3)).passes == Passes(first=5, second=6)


def test_refuses_unknown_methods_and_senseless_settings() -> None:
    with pytest.raises(ab.InputError, match="objective: expected one of ce, at, trades"):
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
