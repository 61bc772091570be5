"""Every registered value goes into plain data and comes back the same."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

import attribound as ab
import attribound.auditing
import attribound.training
from attribound.attacks import (
    IFIA,
    PGD,
    Angle,
    Ascend,
    AtKinks,
    Attack,
    AttributionAscent,
    BestOf,
    InBall,
    Jump,
    KinkJumps,
    KinkSteps,
    LinearOptimum,
    MassCentre,
    Nearby,
    OnlyIn,
    RandomPerturbation,
    Repeated,
    Targeted,
    Through,
    TopK,
)
from attribound.attacks.measures import Distance
from attribound.attacks.objectives import MapObjective, Objective, PredictionLoss
from attribound.attacks.steps import AtInput, StepRule
from attribound.attributions.averaged import Averaged
from attribound.attributions.captum_values import CaptumValues
from attribound.values import Record, Value, class_of, from_spec, names, to_spec, to_text


def score(x: Tensor, target: Tensor) -> Tensor:
    return x**2 * (1 + target.unsqueeze(1))


REGION = torch.tensor([[True, False], [False, True]])

#: What can't be made without settings.
NEEDED: dict[str, Value] = {
    "function": ab.FunctionAttribution(score),
    "lp": ab.LpBall(0.1, 3),
    "l2": ab.L2Ball(0.1),
    "linf": ab.LinfBall(0.1),
    "best_of": BestOf(PGD()),
    "repeated": Repeated(PGD()),
    "only_in": OnlyIn(PGD(), ("l2",)),
    "through": PGD().through(20),
    "targeted": Targeted(REGION),
}

#: Every setting another than usual, nested ones, too.
UNUSUAL: dict[str, Value] = {
    "saliency": ab.Saliency(label="mine"),
    "input_x_gradient": ab.InputXGradient(label="mine"),
    "ig": ab.IntegratedGradients(
        steps=3,
        baseline=torch.tensor([0.5, -1.0]).double(),
        quadrature="midpoint",
        multiply_by_inputs=False,
        label="path",
    ),
    "smooth_grad": ab.SmoothGrad(samples=2, sigma=0.25, seed=3, label="smooth"),
    "expected_gradients": ab.ExpectedGradients(
        baselines=torch.tensor([[0.5], [0.25]]),
        samples=2,
        sigma=0.25,
        seed=3,
        multiply_by_inputs=False,
        label="expected",
    ),
    "grad_cam": ab.GradCAM(layer="features.8", label="cam"),
    "absolute": ab.Absolute(ab.IntegratedGradients(steps=3)),
    "function": ab.FunctionAttribution(score, label="squares"),
    "lp": ab.LpBall(0.25, 1.5, low=-math.inf, high=1.0, scale=2.0),
    "l2": ab.L2Ball(
        0.25,
        low=torch.tensor([0, -math.inf]).double(),
        high=torch.tensor([1.5, math.inf]).double(),
        scale=torch.tensor([0.5, 0.0]),
    ),
    "linf": ab.LinfBall(8 / 255, low=0, high=1, scale=torch.tensor([[1.0, 0.0]]).double()),
    "prediction_loss": PredictionLoss("kl"),
    "spectral_solver": ab.SpectralSolver(0.1, 7, 1e-3, 5, "ritz"),
    "norm_solver": ab.NormSolver(3, 2, 1, 0, ab.SpectralSolver(0.2), 4),
    "ascend": Ascend(0.125),
    "in_ball": InBall(3),
    "nearby": Nearby(0.5),
    "linear_optimum": LinearOptimum(ab.SpectralSolver(0.3)),
    "best_of": BestOf(PGD(steps=3), RandomPerturbation(), IFIA(TopK(5))),
    "repeated": Repeated(AttributionAscent(Angle(), steps=2, step=Ascend(0.5)), 3),
    "only_in": OnlyIn(BestOf(PGD(), Repeated(PGD("kl"), 2)), ("l2", "linf scaled")),
    "through": Through(AttributionAscent(steps=3), (5.0, 20.0), ab.IntegratedGradients(steps=2)),
    "kink_steps": KinkSteps(3, 4),
    "kink_jumps": KinkJumps(3, 5, 6),
    "at_kinks": AtKinks(3),
    "top_k": TopK(7),
    "targeted": Targeted(~REGION),
    "ascent": AttributionAscent(Angle(), 3, Ascend(), 2, "best_label_kept", 5),
    "ifia": IFIA(MassCentre(), 3, 0.25, AtInput(), 2),
    "pgd": PGD("margin", 3, 0.5, Nearby(0.1), "best", 9),
    "random": RandomPerturbation(4),
    "calibrated": ab.Calibrated("some/folder"),
    "first_order": ab.FirstOrder(ab.SpectralSolver(0.5), None, True, 2**20),
    "split_conformal": ab.SplitConformal(PGD(steps=1), 0.25, ab.MeanValue(shells=1), True, "copy"),
    "certified": ab.Certified(2**20, 5, 3, 1.5),
    "smoothed": ab.Smoothed(0.5, 100, 0.01, "top", 3, 7, 8, "variance", "uniform"),
    "captum": CaptumValues(method="LayerGradCam", layer="0", options={"relu": True}, label="c"),
    "averaged": Averaged(ab.InputXGradient(), 0.5, 8, "top", 3, 7),
    "averaged_ascent": ab.attacks.AveragedAscent(ab.attacks.PGD(), (3.0,), 8, 9, 7),
    "grouped": ab.Grouped(ab.InputXGradient(), torch.tensor([[0, 1], [-1, 1]])),
    "displaced": ab.attacks.Displaced(2, "absolute", 3),
    "towards_rivals": ab.attacks.TowardsRivals(2, "absolute", 3),
    "displace": ab.attacks.Displace(2, "absolute", 3, 5, 1, 0, 7),
    "mean_value": ab.MeanValue(2, 1, 3, None, ab.FirstOrder(dense=False), 4),
}
WITHOUT_SETTINGS = {"jump", "at_input", "distance", "angle", "mass_centre", "adjusted"}


def usual(name: str) -> Value:
    return NEEDED[name] if name in NEEDED else class_of(name, Value)()


def comes_back(value: Value, read=from_spec) -> None:
    """Through plain data with and without defaults, through JSON, and as a text."""
    kind = type(value)
    for plain in (to_spec(value), to_spec(value, whole=True)):
        again = read(json.loads(json.dumps(plain, allow_nan=False)), kind)
        assert type(again) is kind
        assert again == value
        assert hash(again) == hash(value)
        assert to_spec(again, whole=True) == to_spec(value, whole=True)
    text = to_text(value)
    if "..." not in text:
        assert to_spec(read(text, kind), whole=True) == to_spec(value, whole=True)


@pytest.mark.parametrize("name", names())
def test_what_is_registered_comes_back(name) -> None:
    value = usual(name)
    assert to_spec(value)["kind"] == name
    comes_back(value)


@pytest.mark.parametrize("name", UNUSUAL)
def test_with_unusual_settings_it_comes_back(name) -> None:
    value = UNUSUAL[name]
    assert to_spec(value)["kind"] == name
    assert to_spec(value).keys() == to_spec(value, whole=True).keys()  # no default here
    assert value != usual(name)
    comes_back(value)


def test_every_value_of_the_low_layers_is_tried() -> None:
    """Whoever registers one adds it here; others have tests of their own."""
    low = ("attributions", "balls", "spectral", "attacks", "bounding")
    rooms = tuple(f"attribound.{room}." for room in low)
    registered = {name for name in names() if class_of(name, Value).__module__.startswith(rooms)}
    assert registered == {*UNUSUAL, *WITHOUT_SETTINGS}


def test_the_law_rejects_what_forgets_a_setting() -> None:
    def forgetful(spec, kind):
        return replace(from_spec(spec, kind), seed=0)

    comes_back(UNUSUAL["pgd"])
    with pytest.raises(AssertionError):
        comes_back(UNUSUAL["pgd"], forgetful)


def test_only_what_differs_from_the_default_is_said() -> None:
    assert to_spec(ab.IntegratedGradients(steps=50)) == {"kind": "ig", "steps": 50}
    assert to_spec(AttributionAscent(step=Jump())) == {"kind": "ascent"}
    assert to_spec(AttributionAscent(objective=Distance())) == {"kind": "ascent"}
    assert to_spec({"a": PGD(steps=3), "b": [ab.L2Ball(1)]}) == {
        "a": {"kind": "pgd", "steps": 3},
        "b": [{"kind": "l2", "epsilon": 1.0}],
    }


def test_what_is_no_setting_is_left_alone() -> None:
    model = torch.nn.Linear(2, 2)
    assert to_spec(ab.Saliency(model), whole=True) == {"kind": "saliency", "label": None}
    assert "progress" not in to_spec(PGD(progress=True), whole=True)
    assert PGD(progress=True) == PGD()
    with pytest.raises(ab.InputError, match="progress: expected only settings of pgd: loss, steps"):
        from_spec({"kind": "pgd", "progress": True}, Attack)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([0.1, 1 / 3, -2.0]).double(),
        torch.tensor([0.1, 1 / 3, -2.0]),
        torch.tensor([[1.0, 2.0]]).double(),
        torch.tensor([0.5, math.inf, -math.inf]),
        torch.tensor([0.5, math.inf, -math.inf]).double(),
        torch.tensor(0.25),
        torch.tensor([0.5, 0.25]).half(),
    ],
    ids=str,
)
def test_tensors_keep_their_numbers_and_precision(tensor) -> None:
    value = ab.IntegratedGradients(baseline=tensor)
    plain = json.loads(json.dumps(to_spec(value), allow_nan=False))
    again = from_spec(plain, ab.Attribution)
    assert again == value
    assert torch.equal(torch.as_tensor(again.baseline), tensor)
    if tensor.dim():
        assert again.baseline.dtype is tensor.dtype
    if "..." not in to_text(value):
        assert from_spec(to_text(value), ab.Attribution) == value


def test_tensors_of_truth_values() -> None:
    again = from_spec(json.loads(json.dumps(to_spec(Targeted(REGION)))), Objective)
    assert again.region.dtype is torch.bool
    assert torch.equal(again.region, REGION)
    assert Targeted(REGION) != Targeted(~REGION)
    assert len({Targeted(REGION), Targeted(REGION.clone()), Targeted(~REGION)}) == 2


def test_what_json_and_command_lines_cannot_say() -> None:
    assert from_spec("lp:epsilon=0.1,p=inf", ab.Ball) == ab.LinfBall(0.1)
    assert to_spec(ab.LpBall(0.1, math.inf))["p"] == "inf"
    assert from_spec("l2:epsilon=1,low=-inf", ab.Ball).low == -math.inf
    assert from_spec("mean_value:attack=none", ab.Method).attack is None
    assert to_text(ab.MeanValue(attack=None)) == "mean_value:attack=none"
    assert from_spec("pgd:step_size=none", Attack) == PGD()
    assert from_spec("saliency:label=none", ab.Attribution).label == "none"  # texts are texts


def test_forms_of_the_same_value() -> None:
    for spec in (PGD(), PGD, "pgd", {"kind": "pgd"}, "pgd:steps=20"):
        assert from_spec(spec, Attack) == PGD()
    value = ab.L2Ball(0.1)
    assert from_spec(value, ab.Ball) is value
    assert from_spec({"epsilon": 0.1}, ab.L2Ball) == value  # what kind it is was said
    assert from_spec("input-x-gradient", ab.Attribution) == ab.InputXGradient()


def test_values_inside_values() -> None:
    text = "ifia:objective=(top_k:k=5),start=at_input,steps=3"
    assert from_spec(text, Attack) == IFIA(TopK(5), 3, start=AtInput())
    assert to_text(IFIA(TopK(5), 3)) == "ifia:objective=(top_k:k=5),steps=3"
    several = "best_of:attacks=(pgd,(ascent:steps=3,objective=angle),(repeated:attack=random))"
    expected = BestOf(PGD(), AttributionAscent(Angle(), 3), Repeated(RandomPerturbation()))
    assert from_spec(several, Attack) == expected
    assert from_spec({"kind": "best_of", "attacks": ["pgd", PGD]}, Attack) == BestOf(PGD(), PGD())


def test_a_table_without_its_kind_changes_what_is_usual() -> None:
    changed = from_spec({"kind": "first_order", "solver": {"tolerance": 0.5}}, ab.Method)
    assert changed == ab.FirstOrder(ab.SpectralSolver(0.5))
    assert from_spec("first_order:solver=(tolerance=0.5)", ab.Method) == changed
    usual = from_spec({"kind": "norm_solver", "solver": {"seed": 3}}, ab.NormSolver)
    assert usual.solver == replace(ab.NormSolver().solver, seed=3)  # not SpectralSolver's own
    assert from_spec("ascent:step=ascend", Attack).step == Ascend()


def test_a_function_is_adopted_as_an_attribution() -> None:
    adopted = from_spec(score, ab.Attribution)
    assert adopted == ab.FunctionAttribution(score)
    by_name = from_spec(f"{__name__}:score", ab.Attribution)
    assert by_name.fn is score
    assert from_spec({"kind": "function", "fn": f"{__name__}:score"}, ab.Attribution) == adopted
    x = torch.rand(2, 3).double()
    torch.testing.assert_close(by_name(x, 1), 2 * x**2)
    assert to_spec(by_name) == {"kind": "function", "fn": f"{__name__}:score"}
    with pytest.raises(ab.InputError, match="Attribution: expected a value, a text or a table of"):
        from_spec({"kind": f"{__name__}:score", "steps": 3}, ab.Attribution)


class Callable:
    def __call__(self, x: Tensor, target: Tensor) -> Tensor:
        return x


def test_an_object_that_can_be_called_has_no_place_unless_it_is_named() -> None:
    """Two of one class may differ: its class is not enough to find it again."""
    assert to_spec(ab.FunctionAttribution(Callable()))["fn"] == f"{__name__}:<Callable>"
    named = Callable()
    named.fingerprint = "v1"
    assert to_spec(ab.FunctionAttribution(named))["fn"] == "named:v1"


@dataclass(frozen=True)
class Own(ab.Saliency):
    """A user's attribution, not registered."""

    power: int = 2


def test_a_class_of_ones_own_needs_no_registration() -> None:
    value = Own(power=3)
    assert to_spec(value) == {"kind": f"{__name__}:Own", "power": 3}
    assert from_spec(to_spec(value), ab.Attribution) == value
    assert from_spec(f"{__name__}:Own:power=3", ab.Attribution) == value
    assert from_spec(f"{__name__}:Own", ab.Attribution) == Own()
    assert to_text(value) == f"{__name__}:Own:power=3"


@dataclass(frozen=True)
class Settings(Record):
    name: str
    ball: ab.Ball = ab.L2Ball(1.0)  # noqa: RUF009 - frozen
    weights: tuple[float, ...] = ()


def test_records_need_no_kind() -> None:
    record = Settings("a", ab.LinfBall(0.5), (1.0, 2.0))
    plain = {"name": "a", "ball": {"kind": "linf", "epsilon": 0.5}, "weights": [1.0, 2.0]}
    assert to_spec(record) == plain
    assert from_spec(plain, Settings) == record
    assert from_spec("a", Settings) == Settings("a")  # a text is its first setting
    with pytest.raises(ab.InputError, match="Settings: expected a table of settings: name, ball"):
        from_spec(3, Settings)


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ("igg", ab.Attribution, r"Attribution: expected one of .*got 'igg'; did you mean ig"),
        ("igg:steps=3", ab.Attribution, r"expected one of .*got 'igg'; did you mean ig"),
        ("nonsense", Attack, r"Attack: expected one of .*settings follow a colon"),
        ("l2", Attack, r"Attack: expected one of .*got 'l2'"),
        ({"steps": 3}, Attack, r"Attack: expected a 'kind', one of .*pgd.*got none; say which"),
        ({"kind": 3}, Attack, r"Attack: expected a 'kind', .*got 3"),
        (3, Attack, r"Attack: expected a value, a text or a table of one: .*got 3; pass the value"),
        (Attack, Attack, r"Attack: expected a value, a text or a table of one"),
        ("pgd:step=3", Attack, r"step: expected only settings of pgd: loss, .*got 'step'; remove"),
        ({"kind": "pgd", "steps": "3"}, Attack, r"steps: expected a valid integer, got '3'"),
        ({"kind": "pgd", "steps": 2.5}, Attack, r"steps: expected .*integer, got 2.5"),
        ({"kind": "pgd", "keep": "first"}, Attack, r"keep: expected 'last', 'best' or .*'first'"),
        ({"kind": "l2"}, ab.Ball, r"epsilon: expected a value, got nothing; it has no default"),
        (ab.L2Ball, ab.Ball, r"epsilon: expected a value, got nothing"),
        ({"kind": "l2", "epsilon": 0}, ab.Ball, r"epsilon: expected a finite radius above 0"),
        (
            {"kind": "l2", "epsilon": 1, "scale": [1, "x"]},
            ab.Ball,
            r"scale: expected .*Tensor.*got",
        ),
        (
            {"kind": "l2", "epsilon": 1, "scale": {"dtype": "float23", "values": [1]}},
            ab.Ball,
            r"scale: expected",
        ),
        (
            {"kind": "l2", "epsilon": "wide", "radius": 3},
            ab.Ball,
            r"settings of l2: expected usable settings, got .*radius.* \| .*|epsilon.* \| .*radius",
        ),
        (
            {"kind": "ifia", "objective": {"kind": "top_k", "kk": 3}},
            Attack,
            r"objective\.kk: expected only settings of top_k: k",
        ),
        ("ifia:objective=pgd", Attack, r"objective: expected one of angle, displaced, .*got 'pgd'"),
        ("repeated", Attack, r"attack: expected a value, got nothing"),
        (f"{__name__}:score", Attack, r"score: expected a class derived from Attack, got a func"),
        (f"{__name__}:Own", Attack, r"Own: expected a class derived from Attack, got Own"),
        (f"{__name__}:Missing", Attack, r"Missing: expected the name of a function or class in"),
        ("no_such_module:A", Attack, r"no_such_module: expected a module that can be imported"),
        ("function:fn=no_such_module:f", ab.Attribution, r"no_such_module: expected a module"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(spec, kind, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        from_spec(spec, kind)


def test_values_compare_by_class_and_settings() -> None:
    assert ab.Saliency() != ab.InputXGradient()
    assert ab.IntegratedGradients() == ab.IntegratedGradients(torch.nn.Linear(2, 2))
    assert ab.IntegratedGradients(baseline=torch.zeros(2)) != ab.IntegratedGradients()
    assert ab.IntegratedGradients(steps=3) != ab.IntegratedGradients(steps=4)
    assert len({ab.IntegratedGradients(steps=n) for n in (3, 3, 4)}) == 2
    assert ab.IntegratedGradients() != "ig"
    assert isinstance(Jump(), StepRule)
    assert not isinstance(Jump(), MapObjective)
