"""Values as texts, and back."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields

import pytest
import torch

import attribound as ab
from attribound.attacks import PGD, Ascend, AttributionAscent, BestOf
from attribound.values import NO_SETTING, spec_text, to_text
from attribound.values.fields import default, settings
from attribound.values.parsing import parse_text


@dataclass
class Example:
    needed: int
    usual: int = 3
    made: list[int] = field(default_factory=lambda: [1])
    shown: bool = field(default=False, metadata=NO_SETTING)
    derived: int = field(default=0, init=False)


def test_settings_are_what_a_user_gives() -> None:
    assert [each.name for each in settings(Example)] == ["needed", "usual", "made"]


def test_defaults_are_made_anew() -> None:
    by_name = {each.name: each for each in fields(Example)}
    assert default(by_name["needed"]) is MISSING
    assert default(by_name["usual"]) == 3
    assert default(by_name["made"]) == [1]
    assert default(by_name["made"]) is not default(by_name["made"])


def test_texts_are_what_one_would_type() -> None:
    assert to_text(ab.Saliency()) == "saliency"
    assert to_text(ab.LinfBall(0.5, low=0)) == "linf:epsilon=0.5,low=0.0"
    assert (
        to_text(ab.IntegratedGradients(multiply_by_inputs=False)) == "ig:multiply_by_inputs=false"
    )
    assert to_text(AttributionAscent(step=Ascend(0.5))) == "ascent:step=(ascend:size=0.5)"
    assert to_text(AttributionAscent(step=Ascend())) == "ascent:step=ascend"
    assert to_text(BestOf(PGD(), PGD(steps=3))) == "best_of:attacks=(pgd,(pgd:steps=3))"


def test_lists_of_many_numbers_are_cut_short() -> None:
    text = to_text(ab.IntegratedGradients(baseline=torch.zeros(1000).double()))
    assert len(text) < 80
    assert text.endswith("...)")


def test_plain_data_without_a_kind() -> None:
    assert spec_text({"a": 1, "b": None}) == "a=1,b=none"
    assert spec_text({"inner": {"a": 1}}) == "inner=(a=1)"
    assert spec_text([1, "x", True]) == "(1,x,true)"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("ig", {"kind": "ig"}),
        (" ig : steps = 50 ", {"kind": "ig ", "steps": 50}),
        ("ig:", {"kind": "ig"}),
        ("ig:steps=50,", {"kind": "ig", "steps": 50}),
        ("ig:steps=50,quadrature=midpoint", {"kind": "ig", "steps": 50, "quadrature": "midpoint"}),
        ("l2:epsilon=1e-3,low=-inf", {"kind": "l2", "epsilon": 1e-3, "low": float("-inf")}),
        ("x:flag=true,label='a b'", {"kind": "x", "flag": True, "label": "a b"}),
        ("x:sizes=[1, 2]", {"kind": "x", "sizes": [1, 2]}),
        ("x:sizes=(1,2.5,a)", {"kind": "x", "sizes": [1, 2.5, "a"]}),
        ("x:sizes=()", {"kind": "x", "sizes": []}),
        ("x:table=(a=1,b=(2,3))", {"kind": "x", "table": {"a": 1, "b": [2, 3]}}),
        ("x:inner=(pgd:steps=3)", {"kind": "x", "inner": {"kind": "pgd", "steps": 3}}),
        (
            "x:several=(pgd,(pgd:steps=3,loss=kl),random)",
            {"kind": "x", "several": ["pgd", {"kind": "pgd", "steps": 3, "loss": "kl"}, "random"]},
        ),
        ("x:one=((pgd:steps=3))", {"kind": "x", "one": [{"kind": "pgd", "steps": 3}]}),
        ("my.balls:Frozen", {"kind": "my.balls:Frozen"}),
        ("my.balls:A.B:epsilon=0.1", {"kind": "my.balls:A.B", "epsilon": 0.1}),
        ("function:fn=my.maps:score", {"kind": "function", "fn": "my.maps:score"}),
        ("igg:steps=3", {"kind": "igg", "steps": 3}),  # a name misspelt, no module
    ],
    ids=str,
)
def test_texts_as_plain_data(text, plain) -> None:
    found = parse_text(text)
    found["kind"] = found["kind"].strip()
    assert found == {**plain, "kind": plain["kind"].strip()}


@pytest.mark.parametrize("text", ["ig:50", "ig:steps=3,50", "ig:=3", "x:inner=(pgd:3)"])
def test_refuses_settings_without_a_name(text) -> None:
    with pytest.raises(ab.InputError, match="expected settings as KEY=VALUE with commas between"):
        parse_text(text)
