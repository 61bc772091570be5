from __future__ import annotations

import pytest

import attribound as ab
from attribound.values.parsing import parse_text


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
