from __future__ import annotations

import pytest

import attribound as ab
from attribound.values import changed

DOCUMENT = {"batch": 4, "attributions": ["ig", {"kind": "saliency"}], "optimiser": {"lr": 0.1}}


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("batch=8", ["batch"], 8),
        ("name=mine", ["name"], "mine"),
        (" batch = 8 ", ["batch"], 8),
        ("optimiser.lr=0.002", ["optimiser", "lr"], 0.002),
        ("optimiser.name='a=b'", ["optimiser", "name"], "a=b"),
        ("new.inner.deep=[1, 2]", ["new", "inner", "deep"], [1, 2]),
        ("attributions.1.label=x", ["attributions", 1, "label"], "x"),
        ("attributions.0.steps=50", ["attributions", 0], {"kind": "ig", "steps": 50}),
        ("attributions.0=saliency", ["attributions", 0], "saliency"),
    ],
)
def test_paths(setting, path, value) -> None:
    found = changed(DOCUMENT, [setting])
    for key in path:
        found = found[key]
    assert found == value


def test_the_document_itself_is_left_alone() -> None:
    found = changed(DOCUMENT, ["optimiser.lr=1", "attributions.0.steps=3", "batch=1"])
    assert DOCUMENT == {
        "batch": 4,
        "attributions": ["ig", {"kind": "saliency"}],
        "optimiser": {"lr": 0.1},
    }
    assert found["batch"] == found["optimiser"]["lr"] == 1
    assert changed(DOCUMENT, []) == DOCUMENT


def test_later_settings_see_earlier_ones() -> None:
    found = changed({}, ["ball=l2:epsilon=0.5", "ball.low=0", "ball.epsilon=1"])
    assert found == {"ball": {"kind": "l2", "epsilon": 1, "low": 0}}
    assert ab.from_spec(found["ball"], ab.Ball) == ab.L2Ball(1, low=0)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("batch", r"--set batch: expected PATH=VALUE, got 'batch'; use e\.g\."),
        ("=3", "expected PATH=VALUE"),
        ("a..b=3", "expected PATH=VALUE"),
        ("batch.size=3", "expected settings inside batch, got 4; give it whole"),
        ("attributions.2.steps=3", "expected a number below 2 in place of '2'.*counted from 0"),
        ("attributions.2=ig", "expected a number below 2 in place of '2'"),
        ("attributions.ig.steps=3", "expected a number below 2 in place of 'ig'"),
        ("attributions.-1=ig", "expected a number below 2 in place of '-1'"),
    ],
)
def test_refuses_paths_that_lead_nowhere(setting, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        changed(DOCUMENT, [setting])
