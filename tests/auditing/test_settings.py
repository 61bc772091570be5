from __future__ import annotations

import inspect
import json
import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

import attribound as ab
from attribound.attacks import IFIA, PGD, Attack, AttributionAscent, BestOf, OnlyIn, Repeated
from attribound.auditing.protocols import Paper, Protocol, Quick, Strong
from attribound.auditing.settings import AuditSettings, complete, read_settings
from attribound.basics.toml_files import read_toml
from attribound.bounding.first_order import FIRST_ORDER
from attribound.values import changed, class_of, from_spec, names, to_spec
from auditing import cases

NAMED = {"model": "m", "data": "d"}
TOML = """
model = "zoo:digits/ce"
data = "digits"
attributions = ["saliency", "ig:steps=5,quadrature=midpoint", {kind = "smooth_grad", samples = 3}]
claims = ["first_order", {kind = "certified"}]
mean_value = {shells = 8, attack = {kind = "pgd", steps = 3}}
[[balls]]
kind = "l2"
epsilon = [0.05, 0.1]
[[balls]]
kind = "linf"
epsilon = 0.01
low = 0
high = 1
[attacks.mine]
kind = "repeated"
times = 3
attack = "pgd:steps=4"
"""


def read(**changes) -> AuditSettings:
    return read_settings({**NAMED, **changes})


def explain(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """An attribution that is a function."""
    return x.square() + target[:, None]


class TestReading:
    def test_a_toml_file(self, tmp_path) -> None:
        (tmp_path / "audit.toml").write_text(TOML)
        settings = read_settings(read_toml(tmp_path / "audit.toml"))
        assert settings.attributions == (
            ab.Saliency(),
            ab.IntegratedGradients(steps=5, quadrature="midpoint"),
            ab.SmoothGrad(samples=3),
        )
        assert settings.attacks == {"mine": PGD(steps=4).repeat(3)}
        assert settings.balls == (
            ab.L2Ball(0.05),
            ab.L2Ball(0.1),
            ab.LinfBall(0.01, low=0, high=1),
        )
        assert settings.claims == (
            ab.FirstOrder(),
            ab.MeanValue(shells=8, attack=PGD(steps=3)),
            ab.Certified(),
        )

    def test_values_stay_what_they_are(self) -> None:
        given = {
            "attributions": [ab.IntegratedGradients(steps=5)],
            "balls": [cases.Frozen(0.1)],
            "claims": [ab.FirstOrder(), ab.MeanValue()],
            "attacks": {"pgd": PGD()},
            "protocol": Quick(),
        }
        settings = read(**given)
        assert settings.attributions[0] is given["attributions"][0]
        assert settings.balls[0] is given["balls"][0]
        assert type(settings.balls[0]) is cases.Frozen
        assert settings.attacks["pgd"] is given["attacks"]["pgd"]
        assert settings.claims == tuple(given["claims"])

    @pytest.mark.parametrize(
        ("name", "one"),
        [
            ("attributions", ab.Saliency()),
            ("attributions", "saliency"),
            ("attributions", {"kind": "saliency"}),
            ("attributions", ab.Saliency),
            ("balls", ab.L2Ball(0.2)),
            ("balls", "l2:epsilon=0.2"),
            ("balls", {"kind": "l2", "epsilon": 0.2}),
            ("claims", ab.Certified()),
            ("claims", "certified"),
            ("claims", {"kind": "certified"}),
            ("claims", FIRST_ORDER),
            ("methods", ab.MeanValue(shells=3)),
        ],
    )
    def test_one_thing_alone_is_a_list_of_one(self, name, one) -> None:
        assert read(**{name: one}) == read(**{name: [one]})

    def test_several_radii_in_one_text(self) -> None:
        expected = tuple(ab.LinfBall(each, low=0.0) for each in (0.01, 0.02))
        assert read(balls="linf:epsilon=(0.01,0.02),low=0").balls == expected
        assert read(balls=[{"kind": "linf", "epsilon": [0.01, 0.02], "low": 0}]).balls == expected

    def test_attacks_in_a_list_are_called_as_their_kinds(self) -> None:
        attacks = read(attacks=["pgd", PGD(steps=3), "ascent:steps=2", cases.Outside()]).attacks
        assert attacks == {
            "ascent": AttributionAscent(steps=2),
            "outside": cases.Outside(),
            "pgd": PGD(),
            "pgd2": PGD(steps=3),
        }
        assert list(attacks) == sorted(attacks)
        assert read(attacks="ifia").attacks == {"ifia": IFIA()}
        assert read(attacks=PGD().repeat(2)).attacks == {"repeated": Repeated(PGD(), 2)}
        assert read(attacks=[]).attacks == {}

    @pytest.mark.parametrize(
        "given",
        [
            {"mean_value": ab.MeanValue(shells=8)},
            {"mean_value": {"shells": 8}},
            {"mean_value": "mean_value:shells=8"},
            {"methods": [ab.MeanValue(shells=8)]},
            {"claims": ["first_order", "adjusted", "mean_value:shells=8"]},
        ],
    )
    def test_the_effort_of_a_claim_by_its_name(self, given) -> None:
        """Those that the protocol has besides stay as they are."""
        expected = (ab.FirstOrder(), ab.Adjusted(), ab.MeanValue(shells=8))
        assert read(**given).claims == expected
        assert read(**given).methods == ()

    def test_a_claim_that_the_protocol_has_not_is_added(self) -> None:
        claims = read(calibrated={"folder": "c"}, certified={}).claims
        assert [each.claim.name for each in claims] == [
            *("first_order", "adjusted", "calibrated", "mean_value", "certified"),
        ]
        assert ab.Calibrated("c") in claims

    def test_a_function_is_an_attribution(self) -> None:
        (own,) = read(attributions=explain).attributions
        assert own == ab.FunctionAttribution(explain)
        assert own.name == "explain"

    def test_settings_changed_by_their_path(self) -> None:
        document = changed(
            {**NAMED, "attributions": ["ig"], "attacks": {"a": "pgd"}},
            ["attributions.0.steps=7", "attacks.a.steps=2", "calibrated.folder=c", "batch=3"],
        )
        settings = read_settings(document)
        assert settings.attributions == (ab.IntegratedGradients(steps=7),)
        assert settings.attacks == {"a": PGD(steps=2)}
        assert ab.Calibrated("c") in settings.claims
        assert settings.batch == 3


ATTACKS = {
    "best_of": BestOf(PGD(steps=2), AttributionAscent()),
    "repeated": PGD().repeat(4),
    "only_in": OnlyIn(IFIA(steps=7), ("linf",)),
    "through": PGD().through(20.0, 100.0, ab.IntegratedGradients(steps=2)),
    "ascent": AttributionAscent(steps=3, objective=ab.attacks.Angle(), step=ab.attacks.Ascend()),
    "ifia": IFIA(objective=ab.attacks.TopK(5)),
    "pgd": PGD(steps=3, seed=5),
}
ATTRIBUTIONS = {
    "ig": ab.IntegratedGradients(steps=3, baseline=torch.tensor([0.5, 0.25]), label="mine"),
    "smooth_grad": ab.SmoothGrad(samples=2, sigma=0.3, seed=5),
    "function": ab.FunctionAttribution(explain),
}
BALLS = {
    "lp": ab.LpBall(0.1, 3, low=0),
    "l2": ab.L2Ball(0.1, scale=torch.tensor([0.0, 1.0, 2.0])),
    "linf": ab.LinfBall(0.1, low=torch.tensor([-1.0, 0.0]), high=1),
}
METHODS = {
    "calibrated": ab.Calibrated("folder"),
    "first_order": ab.FirstOrder(dense=False, solver=ab.SpectralSolver(max_iterations=7)),
    "mean_value": ab.MeanValue(shells=8, attack=None),
}


def every(kind: type, chosen: dict[str, object]) -> list[object]:
    """One value of each registered class: with settings of its own, or its defaults."""
    found = []
    for name in names(kind):
        own = class_of(name, kind)
        if own.__module__.startswith("attribound.") and not inspect.isabstract(own):
            found.append(chosen[name] if name in chosen else own())
    assert {type(each) for each in chosen.values()} <= {type(each) for each in found}
    return found


class TestRoundTrip:
    """What was read, however it was given, is what its document says."""

    @pytest.mark.parametrize("value", every(ab.Attribution, ATTRIBUTIONS), ids=ab.to_text)
    def test_every_attribution(self, value) -> None:
        self.check(attributions=value)

    @pytest.mark.parametrize("value", every(ab.Ball, BALLS), ids=lambda ball: ball.name)
    def test_every_ball(self, value) -> None:
        again = self.check(balls=value)
        assert type(again.balls[0]) is type(value)

    @pytest.mark.parametrize("value", every(Attack, ATTACKS), ids=lambda each: type(each).__name__)
    def test_every_attack(self, value) -> None:
        self.check(attacks={"mine": value})

    @pytest.mark.parametrize(
        "value", every(ab.Method, METHODS), ids=lambda each: type(each).__name__
    )
    def test_every_method(self, value) -> None:
        assert self.check(claims=value).claims == (value,)

    @pytest.mark.parametrize("value", every(Protocol, {}), ids=lambda each: type(each).__name__)
    def test_every_protocol(self, value) -> None:
        balls = [ab.L2Ball(0.1), ab.LinfBall(0.1)]
        assert self.check(protocol=value, balls=balls).protocol == value
        assert self.check(protocol=to_spec(value)["kind"], balls=balls).protocol == value

    def test_classes_of_a_users_own(self) -> None:
        given = {"attributions": cases.Pooled(width=2), "balls": cases.Frozen(0.1, count=3)}
        again = self.check(**given, attacks=cases.Outside())
        assert again.attributions == (cases.Pooled(width=2),)
        assert again.balls[0].count == 3
        assert again.document()["balls"][0]["kind"] == "auditing.cases:Frozen"

    def test_all_other_settings(self) -> None:
        again = self.check(
            weights="w.safetensors",
            split="train",
            size=8,
            limit=3,
            skip=4,
            seed=5,
            smooth=2.5,
            keep=2,
            keep_by="absolute",
            called="people",
            k=6,
            batch=7,
            maps="all",
            dtype="float64",
            device="cuda",
            protocol="strong",
            value_range="none",
            table={"label": "y", "scale": {"a": 2.0}, "scaler": {"a": [1.0, 2.0]}},
        )
        usual = AuditSettings("m", "d")
        settings = set(again.document()) - {"model", "data", "attributions", "balls", "methods"}
        assert all(getattr(again, name) != getattr(usual, name) for name in settings)

    def check(self, **given) -> AuditSettings:
        settings = read(**given)
        document = settings.document()
        assert read_settings(document) == settings
        assert read_settings(json.loads(json.dumps(document))) == settings
        with TemporaryDirectory() as folder:
            file = Path(folder) / "audit.toml"
            lines = [f"{key} = {_toml(own)}" for key, own in document.items() if own is not None]
            file.write_text("\n".join(lines))
            again = read_settings(read_toml(file))
        assert again == settings
        assert again.document() == document
        return again


def _toml(value) -> str:
    """A value as TOML has it inline; null has no word there but for settings that know one."""
    if isinstance(value, dict):
        known = {key: item for key, item in value.items() if item is not None or key == "attack"}
        return f"{{{', '.join(f'{key} = {_toml(item)}' for key, item in known.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return '"none"' if value is None else json.dumps(value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modle": "m"}, "modle: expected only settings of AuditSettings: model, data, "),
        ({"model": None}, "model: expected .*a valid string, got None"),
        ({"attributions": [{"kind": "lime"}]}, "attributions.0: expected one of .*got 'lime'"),
        ({"attributions": [{"kind": "ig", "step": 3}]}, "step: expected only settings of ig"),
        ({"attributions": ["ig", "ig"]}, "attributions: expected each only once, got .'ig'."),
        ({"attributions": []}, "attributions: expected at least one"),
        ({"attributions": ["lime"]}, "attributions.0: expected one of [a-z_, ]*input_x_gradient"),
        ({"attributions": ["pgd"]}, "attributions.0: expected one of .*got 'pgd'"),
        ({"attributions": ["ig:steps=many"]}, "attributions.0.steps: expected .*a valid integer"),
        ({"attributions": [3]}, "attributions.0: expected a value, a text or a table of one"),
        ({"balls": ["two"]}, "balls.0: expected one of l2, linf, lp"),
        ({"balls": ["lp:p=0.5,epsilon=1"]}, "p: expected the order of a norm"),
        ({"balls": [{"kind": "l2", "epsilon": []}]}, "balls: expected at least one"),
        ({"balls": [{"kind": "l2"}]}, "balls.0.epsilon: expected a value, got nothing"),
        ({"balls": ["l2:epsilon=0"]}, "epsilon: expected a finite radius above 0"),
        ({"balls": ["l2:epsilon=(0.1,0.1)"]}, "balls: expected each only once"),
        ({"claims": ["true"]}, "claim: expected one of .*first_order.*got 'true'"),
        ({"claims": ["attained"]}, "attained values come from attacks"),
        ({"claims": []}, "claims: expected at least one"),
        ({"claims": ["certified", ab.Certified()]}, "expected each claim only once, got certified"),
        ({"mean_value": {"shell": 2}}, "shell: expected only settings of mean_value"),
        ({"attacks": {"A": "pgd"}}, "name of an attack: expected lower-case .*got 'A'"),
        ({"attacks": {"a b": "pgd"}}, "name of an attack: .*got 'a b'"),
        ({"attacks": {"transferred": "pgd"}}, "names of attacks: expected each only once"),
        ({"attacks": {"a": "pgd"}, "own_attacks": {"a": "random"}}, r"names of .*got \['a'\]"),
        ({"attacks": {"a": {"kind": "repeated", "attack": "pgd", "times": 0}}}, "1 or more"),
        ({"attacks": {"a": "saliency"}}, "attacks.a: expected one of .*got 'saliency'"),
        ({"limit": 0}, "limit: expected 1 or more"),
        ({"skip": -1}, "skip: expected 0 or more"),
        ({"batch": 0}, "batch: expected 1 or more"),
        ({"k": 0}, "k: expected 1 or more"),
        ({"seed": -1}, "seed: expected 0 or more"),
        ({"smooth": 0}, "smooth: expected a finite number above 0"),
        ({"smooth": math.inf}, "smooth: expected a finite number above 0"),
        ({"protocol": "slow"}, "protocol: expected one of paper, quick, strong"),
        ({"dtype": "float16"}, "dtype: expected .*'float32' or 'float64'"),
    ],
)
def test_what_makes_no_sense_is_named(changes, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        read(**changes)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(ab.InputError) as caught:
        read_settings({"model": "m", "limit": "few", "x": 1, "attributions": ["lime"]})
    for name in ("data: expected a value", "limit: expected", "x: expected only", "got 'lime'"):
        assert name in str(caught.value)


def test_the_name_of_an_attribution_says_what_is_unusual_and_can_be_read() -> None:
    for text in ("saliency", "ig:steps=50", "smooth_grad:samples=3,sigma=0.2"):
        (own,) = read(attributions=text).attributions
        assert own.name == text
    assert from_spec("input-x-gradient", ab.Attribution).name == "input_x_gradient"
    assert ab.IntegratedGradients(label="<b>").name == "<b>"


def test_what_is_told_apart_by_its_label_may_be_there_twice() -> None:
    two = read(attributions=["ig", ab.IntegratedGradients(label="again")]).attributions
    assert [each.name for each in two] == ["ig", "again"]


@pytest.mark.parametrize("protocol", [Quick(), Paper(), Strong()])
def test_complete_leaves_nothing_open_and_complete_settings_alone(protocol) -> None:
    whole = complete(AuditSettings("m", "d", protocol=protocol))
    assert whole.claims
    assert whole.attacks
    assert whole.value_range
    assert complete(whole) == whole
    assert read_settings(whole.document()) == whole


def test_what_is_given_stays() -> None:
    whole = read(claims=["certified", "first_order"], attacks={}, value_range="none")
    assert whole.claims == (ab.FirstOrder(), ab.Certified())  # in the order of tables
    assert whole.attacks == {}
    assert whole.value_range == "none"


def test_strong_settings_are_as_the_library_has_them() -> None:
    """What the audit computes by default is what ``ab.bound`` does."""
    made = read(protocol="strong").claims
    ours = [each for each in made if type(each).__module__.startswith("attribound.")]
    assert ours == [ab.FirstOrder(), ab.Adjusted(), ab.MeanValue(), ab.Certified()]


def test_the_seed_of_the_audit_goes_into_its_attacks() -> None:
    settings = read(attacks={"pgd": PGD(seed=5).repeat(2)})
    assert settings.made_attacks == settings.attacks
    seeded = replace(settings, seed=2).made_attacks
    assert seeded == {"pgd": PGD(seed=5 + 2 * 1_000_003).repeat(2)}


def test_the_dtype_as_torch_has_it() -> None:
    assert read().torch_dtype == torch.float32
    assert read(dtype="float64").torch_dtype == torch.float64
