"""The full networks, and the l2 bound at 224 x 224, which the paper calls heavy.

Also: The shipped plan is the paper's protocol.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import attribound as ab
from attribound import InputError
from attribound.attacks import IFIA, PGD, Through
from attribound.auditing import AuditSettings, load_model
from attribound.values import from_spec
from paper_made import bound_of
from reproduction.paper.items import RunSpec
from reproduction.paper.networks import cifar10_resnet18, imagenet_resnet50, robust_resnet50
from reproduction.paper.plan import SHIPPED, Kind, Plan, Portion, Radii
from reproduction.paper.runs import Runs
from reproduction.paper.tables import grid
from reproduction.paper.values import RADII, radius
from shared import shared


@pytest.mark.parametrize(
    ("network", "shape", "classes"),
    [
        (cifar10_resnet18, (3, 32, 32), 10),
        (imagenet_resnet50, (3, 64, 64), 1000),
        (robust_resnet50, (3, 64, 64), 1000),
    ],
)
def test_they_take_pixels_and_give_logits(network, shape, classes) -> None:
    assert network(width=2).eval()(torch.rand(2, *shape)).shape == (2, classes)


def test_published_weights_fit(monkeypatch) -> None:
    """The standard ResNet-18 for CIFAR-10 that lies beside the project."""
    file = shared("checkpoints", "cifar10-resnet18-standard.safetensors")
    monkeypatch.setenv("ATTRIBOUND_DATA", str(file.parents[1]))
    settings = Plan.read().settings(RunSpec("cifar10", "ce-full", "paper"), "l2")
    assert settings.smooth == 20
    assert load_model(settings.model, settings.weights).model is not None


def test_the_l2_bound_of_an_imagenet_picture_takes_tens_of_products(tmp_path) -> None:
    document = {
        "common": {"batch": 1, "maps": "none", "claims": ["first_order"]},
        "kinds": {
            "paper": {
                "settings": {
                    "attributions": ["ig:steps=2,quadrature=midpoint"],
                    "attacks": {"pgd": {"kind": "pgd", "steps": 1}},
                }
            }
        },
        "data": {
            "imagenet": {
                "title": "ImageNet",
                "name": str(shared("imagenet")),
                "samples": {"paper": 1},
                "balls": {"l2": [0.1]},
                "models": {
                    "ce": {
                        "model": 'reproduction.paper.networks:imagenet_resnet50?{"width": 1}',
                        "smooth": 20.0,
                    }
                },
            }
        },
    }
    runs = Runs(from_spec(document, Plan), tmp_path)
    spec = RunSpec("imagenet", "ce", "paper")
    runs.complete([spec])
    (row,) = runs.table(spec).to_pylist()
    assert row["error"] is None
    assert row["features"] == 3 * 224 * 224
    bound = bound_of(row, "first_order")
    assert bound["xi_upper"] <= 1.02 * bound["xi_lower"]
    assert 10 <= bound["products"] <= 99
    (shown,) = [r for r in grid("table10", runs, "paper").blocks[0].rows if r.title == "CE"]
    assert shown.ours[0]["bound"] == bound["euclidean"]


PLAN = Plan.read()


def radii(settings: AuditSettings) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for ball in settings.balls:
        found.setdefault(ball.name, []).append(ball.epsilon)
    return found


def kinds(part: str, data: str = "mnist", model: str = "at") -> dict[str, AuditSettings]:
    spec = RunSpec(data, model, part)
    return {kind: PLAN.settings(spec, kind) for kind in PLAN.kinds_of(spec)}


@pytest.mark.parametrize("data", RADII)
def test_radii_and_k_are_the_papers(data) -> None:
    found: dict[str, list[float]] = {}
    for settings in kinds("paper", data, "ce").values():
        found |= radii(settings)
        assert settings.k == (100 if "mnist" in data else 1000)
        assert settings.value_range == "none"
    assert found == {n: pytest.approx([radius(e) for e in r]) for n, r in RADII[data].items()}


def test_attacks_are_the_papers_and_climb_a_cheaper_rule_where_they_climb() -> None:
    found = kinds("paper")
    assert found["l2"].attacks == {"pgd": PGD(steps=20).repeat(20)}
    cheap = ab.IntegratedGradients(steps=20, quadrature="midpoint")
    for kind, attack in (("ifia-20", IFIA(steps=200).repeat(20)), ("ifia", IFIA(steps=200))):
        assert found[kind].attacks == {"ifia": Through(attack, recipe=cheap)}
    ours = kinds("strong")["ours"].attacks
    assert {name: getattr(attack, "recipe", None) for name, attack in ours.items()} == {
        "ascent": None,
        "wide": cheap,
        "angle": cheap,
    }
    both = kinds("cheaper")["cheaper"].attacks
    assert both["direct"] == ours["ascent"]
    assert both["cheap"].recipe == cheap


#: What issue and docs promise, of the part, kind and data.
PROMISED = {
    ("mnist", "paper"): {"l2": 64, "linf": 32, "ifia-20": 2, "ifia": 8},
    ("mnist", "dense"): {"dense": 8},
    ("mnist", "strong"): {"ours": 32, "mean-value": 8},
    ("cifar10", "paper"): {"l2": 16, "linf": 8, "ifia-20": 1, "ifia": 4},
    ("cifar10", "dense"): {"dense": 1},
    ("cifar10", "strong"): {"ours": 8, "mean-value": 4},
    ("flowers17", "paper"): {"l2": 16, "linf": 8, "ifia-20": 1, "ifia": 4},
    ("flowers17", "strong"): {"ours": 8, "mean-value": 4},
    ("imagenet", "paper"): {"l2-bounds": 8, "l2": 2, "ifia": 2},
    ("imagenet", "strong"): {"ours": 2},
}


@pytest.mark.parametrize(("data", "part"), PROMISED)
def test_every_column_has_samples_of_its_own(data, part) -> None:
    for model in ("ce", "at"):
        found = {kind: each.limit for kind, each in kinds(part, data, model).items()}
        assert found == PROMISED[data, part]


@pytest.mark.parametrize("data", ["mnist", "fashion-mnist", "cifar10"])
def test_theorem_2_itself_is_a_kind_of_its_own(data) -> None:
    assert kinds("dense", data)["dense"].claims == (ab.FirstOrder(norm=None, dense=True),)
    assert kinds("paper", data)["linf"].claims == (ab.FirstOrder(), ab.Adjusted())
    assert kinds("strong", data)["mean-value"].claims == (ab.MeanValue(),)


def test_all_kinds_look_at_the_same_samples_and_attribution() -> None:
    for data in ("mnist", "cifar10", "flowers17", "imagenet"):
        every = [*kinds("paper", data, "ce").values(), *kinds("strong", data, "ce").values()]
        assert len({(each.seed, each.data, each.attributions) for each in every}) == 1


def test_samples_are_limited_but_never_raised() -> None:
    spec = RunSpec("mnist", "at", "paper")
    assert PLAN.settings(spec, "l2", most=3).limit == 3
    assert PLAN.settings(spec, "l2", most=10**6).limit == PLAN.samples(spec, "l2") < 10**6
    full = RunSpec("cifar10", "ce-full", "paper")
    assert PLAN.samples(full, "l2") < PLAN.samples(RunSpec("cifar10", "ce", "paper"), "l2")
    assert PLAN.samples(full, "unheard-of") == 0


def test_what_is_not_planned_is_not_there() -> None:
    assert PLAN.has(RunSpec("mnist", "at", "paper"))
    for spec in (
        RunSpec("nowhere", "at", "paper"),
        RunSpec("mnist", "nobody", "paper"),
        RunSpec("mnist", "at", "methods"),
        RunSpec("cifar10", "ce-full", "jacobian"),
        RunSpec("mnist", "at", "something"),
    ):
        assert not PLAN.has(spec)


def test_weights_are_looked_for_beside_the_plan_then_in_the_data(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ATTRIBOUND_DATA", str(tmp_path))
    full = PLAN.settings(RunSpec("cifar10", "ce-full", "paper"), "l2")
    assert Path(full.weights).parent == tmp_path / "checkpoints"
    beside = tmp_path / "plans" / "checkpoints" / Path(full.weights).name
    beside.parent.mkdir(parents=True)
    beside.touch()
    plan = tmp_path / "plans" / "plan.toml"
    plan.write_text(SHIPPED.read_text())
    own = Plan.read(plan).settings(RunSpec("cifar10", "ce-full", "paper"), "l2")
    assert Path(own.weights) == beside


def test_a_damaged_plan_is_refused(tmp_path) -> None:
    text = SHIPPED.read_text()
    path = tmp_path / "plan.toml"
    path.write_text(text.replace('title = "MNIST"', 'name_of_it = "MNIST"', 1))
    with pytest.raises(InputError, match="name_of_it"):
        Plan.read(path)
    path.write_text(text.replace("[kinds.eta]", "[kinds.theta]"))
    with pytest.raises(
        InputError, match=r"part of a kind: expected of paper, strong.* got 'theta'"
    ):
        Plan.read(path)
    path.write_text(text.replace('protocol = "paper"', 'protocol = "papier"'))
    with pytest.raises(InputError, match="protocol"):
        Plan.read(path).settings(RunSpec("mnist", "at", "paper"), "l2")


def blocks_of(spec: RunSpec, kind: str, most: int | None = None) -> list[AuditSettings]:
    return [each.settings for each in PLAN.portions(spec, most) if each.kind == kind]


@pytest.mark.parametrize(("kind", "block"), [("l2", 4), ("ifia", 1)])
def test_blocks_are_all_samples_once_and_a_smaller_run_is_the_beginning_of_a_larger(
    kind, block
) -> None:
    spec = RunSpec("mnist", "at", "paper")
    for most in (1, 3, 4, 5, None):
        blocks = blocks_of(spec, kind, most)
        places = [i for each in blocks for i in range(each.skip, each.skip + each.limit)]
        assert places == list(range(PLAN.samples(spec, kind, most=most)))
        assert all(each.limit == min(max(each.skip, 1), block) for each in blocks[:-1])
    first, *others = blocks_of(spec, kind)
    assert first == replace(PLAN.settings(spec, kind), limit=1)
    assert first.maps == ("some" if kind == "ifia" else "none")  # Table 1 is of cubes
    assert {each.maps for each in others} == {"none"}


def test_large_maps_that_no_figure_shows_are_not_kept() -> None:
    assert {each.maps for each in blocks_of(RunSpec("flowers17", "at", "paper"), "l2")} == {"none"}


def test_an_empty_block_is_refused() -> None:
    with pytest.raises(InputError, match="block"):
        replace(PLAN, block=0)
    with pytest.raises(InputError, match="block"):
        replace(PLAN, data={"mnist": replace(PLAN.data["mnist"], block=0)})


def test_large_images_are_stored_one_by_one() -> None:
    spec = RunSpec("flowers17", "at", "paper")
    blocks = blocks_of(spec, "l2")
    assert [each.limit for each in blocks] == [1] * PLAN.samples(spec, "l2")
    assert [each.skip for each in blocks] == list(range(PLAN.samples(spec, "l2")))


def test_a_model_can_have_fewer_radii_of_its_own() -> None:
    own, all_of_them = (
        radii(PLAN.settings(RunSpec("cifar10", model, "strong"), "ours"))
        for model in ("ce-full", "ce")
    )
    assert own.keys() == all_of_them.keys()
    for norm, each in own.items():
        assert 0 < len(each) < len(all_of_them[norm])
        assert set(each) < set(all_of_them[norm])


def test_without_round_balls_there_is_no_cost_to_measure() -> None:
    mnist = replace(PLAN.data["mnist"], balls=Radii(linf=(0.1,)))
    assert not Plan(PLAN.common, PLAN.kinds, {"mnist": mnist}).has(RunSpec("mnist", "at", "cost"))


BOUNDS = Kind(
    {"attributions": "saliency", "claims": "first_order", "attacks": {}}, "paper", ("l2",)
)
ATTACKED = Kind({"attributions": "saliency", "claims": "first_order"}, "paper", ("linf",))


def test_several_kinds_fill_one_part_each_in_its_balls_and_with_its_samples() -> None:
    mnist = replace(PLAN.data["mnist"], samples={"bounds": 5, "attacked": 2})
    plan = Plan({}, {"bounds": BOUNDS, "attacked": ATTACKED}, {"mnist": mnist}, block=2)
    spec = RunSpec("mnist", "at", "paper")
    assert plan.kinds_of(spec) == ("bounds", "attacked")
    assert [plan.settings(spec, kind).limit for kind in plan.kinds_of(spec)] == [5, 2]
    assert {*radii(plan.settings(spec, "bounds"))} == {"l2"}
    assert {*radii(plan.settings(spec, "attacked"))} == {"linf"}
    # The first samples of all kinds come before the next of any.
    portions = plan.portions(spec)
    assert [(each.kind, each.settings.skip) for each in portions] == [
        ("bounds", 0),
        ("attacked", 0),
        ("bounds", 2),
        ("bounds", 4),
    ]
    assert [each.name for each in portions[-2:]] == [
        "mnist/at/bounds: samples 2 to 3",
        "mnist/at/bounds: sample 4",
    ]
    assert isinstance(portions[0], Portion)


def test_a_norm_that_the_paper_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match="norms: expected of l2, linf, got 'l1'"):
        replace(BOUNDS, norms=("l1",))


def test_an_attack_that_is_not_made_cannot_climb_another_rule() -> None:
    with pytest.raises(InputError, match=r"through: expected the name of an attack .* got 'pgd'"):
        replace(BOUNDS, through=("pgd",))
