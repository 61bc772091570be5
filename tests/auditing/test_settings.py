from __future__ import annotations

import json
import math

import pytest

import attribound as ab
from attribound.auditing.protocols import complete
from attribound.auditing.settings import (
    AuditSettings,
    BallSettings,
    IGSettings,
    PGDSettings,
    SaliencySettings,
    dump_settings,
    parse_attribution,
    parse_settings,
)
from attribound.auditing.subject import methods
from attribound.basics.toml_files import read_toml

TOML = """
model = "zoo:digits/ce"
data = "digits"
attributions = ["saliency", "ig:steps=5,quadrature=midpoint"]
claims = ["mean_value"]
[[balls]]
norm = "l2"
epsilons = [0.05, 0.1]
[[balls]]
norm = "linf"
epsilons = [0.01]
low = 0
high = 1
[attacks.mine]
kind = "pgd"
repeats = 3
"""


def test_a_toml_file_becomes_settings_and_json_gives_them_back(tmp_path) -> None:
    (tmp_path / "audit.toml").write_text(TOML)
    settings = parse_settings(read_toml(tmp_path / "audit.toml"))
    assert settings.attributions == (
        SaliencySettings(),
        IGSettings(steps=5, quadrature="midpoint"),
    )
    assert settings.attacks == {"mine": PGDSettings(repeats=3)}
    assert settings.balls[1].balls == (ab.LinfBall(0.01, low=0, high=1),)
    assert parse_settings(json.loads(json.dumps(dump_settings(settings)))) == settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modle": "m"}, "modle: Unexpected keyword argument"),
        ({"model": None}, "model: Input should be a valid string"),
        ({"attributions": [{"kind": "lime"}]}, "attributions.0: .*'lime'.*does not match"),
        ({"attributions": [{"kind": "ig", "step": 3}]}, "step: Unexpected keyword"),
        ({"attributions": ["ig", "ig"]}, "attributions: expected each only once, got .'ig'."),
        ({"attributions": []}, "attributions: expected at least one"),
        ({"attributions": ["lime"]}, "attribution: expected one of saliency"),
        ({"attributions": ["ig:steps=many"]}, "steps: Input should be a valid integer"),
        ({"balls": [{"norm": "two"}]}, "norm: expected l2, linf, l1 or lP"),
        ({"balls": [{"norm": "l0.5"}]}, "p: expected the order of a norm"),
        ({"balls": [{"epsilons": []}]}, "epsilons: expected at least one radius"),
        ({"balls": [{"epsilons": [0]}]}, "epsilon: expected a finite radius above 0"),
        ({"balls": [{"epsilons": [0.1, 0.1]}]}, "balls: expected each only once"),
        ({"claims": ["true"]}, "claims: expected of first_order, mean_value"),
        ({"claims": []}, "claims: expected at least one"),
        ({"attacks": {"by": {"kind": "pgd"}}}, "name of an attack: .*got 'by'"),
        ({"attacks": {"a_b": {"kind": "pgd"}}}, "name of an attack: .*got 'a_b'"),
        ({"attacks": {"a": {"kind": "pgd", "repeats": 0}}}, "repeats: expected 1 or more"),
        ({"limit": 0}, "limit: expected 1 or more"),
        ({"batch": 0}, "batch: expected 1 or more"),
        ({"k": 0}, "k: expected 1 or more"),
        ({"seed": -1}, "seed: expected 0 or more"),
        ({"smooth": 0}, "smooth: expected a finite number above 0"),
        ({"protocol": "slow"}, "protocol: Input should be 'quick', 'paper' or 'strong'"),
    ],
)
def test_what_makes_no_sense_is_named(changes, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        parse_settings({"model": "m", "data": "d", **changes})


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(ab.InputError, match=r"data: Field required; limit: .*; x: Unexpected"):
        parse_settings({"model": "m", "limit": "few", "x": 1})


def test_the_name_of_an_attribution_says_what_is_unusual_and_can_be_parsed() -> None:
    for text in ("saliency", "ig:steps=50", "smooth_grad:samples=3,sigma=0.2"):
        assert parse_attribution(text).name == text
    assert parse_attribution("input-x-gradient").name == "input_x_gradient"
    assert IGSettings(label="<b>").name == "<b>"


def test_norms_have_one_spelling() -> None:
    assert [BallSettings(norm).norm for norm in ("2", "l2.0", "linf", "inf")] == [
        "l2",
        "l2",
        "linf",
        "linf",
    ]
    assert BallSettings("linf").p == math.inf


def test_settings_are_built_as_the_library_has_them() -> None:
    """What the audit computes by default is what ``ab.bound`` and ``ab.calibrate`` do."""
    built = methods(complete(AuditSettings("m", "d", protocol="strong")))
    assert built == {
        "first_order": ab.FirstOrder(),
        "mean_value": ab.MeanValue(),
        "certified": ab.Certified(),
    }
