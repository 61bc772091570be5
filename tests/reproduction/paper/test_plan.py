"""The shipped plan is the paper's protocol."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import attribound as ab
from attribound import InputError
from attribound.attacks import IFIA, PGD, OnlyIn
from attribound.auditing import AuditSettings
from reproduction.paper.items import RunSpec
from reproduction.paper.plan import SHIPPED, Kind, Plan, Portion, Radii
from reproduction.paper.values import RADII, radius

PLAN = Plan.read()


def radii(settings: AuditSettings) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for ball in settings.balls:
        found.setdefault(ball.name, []).append(ball.epsilon)
    return found


@pytest.mark.parametrize("data", RADII)
def test_radii_k_and_attacks_are_the_papers(data) -> None:
    spec = PLAN.of_data(data, ("paper",))[0]
    settings = PLAN.settings(spec)
    found = radii(settings)
    assert found == {n: pytest.approx([radius(e) for e in r]) for n, r in RADII[data].items()}
    assert settings.k == (100 if "mnist" in data else 1000)
    assert settings.value_range == "none"
    assert settings.attacks == {
        "pgd": OnlyIn(PGD(steps=20).repeat(20), ("l2",)),
        "ifia": OnlyIn(IFIA(steps=200).repeat(20), ("linf",)),
    }


@pytest.mark.parametrize("data", ["mnist", "fashion-mnist", "cifar10"])
def test_the_bound_is_theorem_2_itself_where_the_jacobian_fits(data) -> None:
    methods = {
        part: PLAN.settings(RunSpec(data, "at", part)).claims for part in ("paper", "strong")
    }
    assert methods["paper"] == (ab.FirstOrder(norm=None, dense=True), ab.Adjusted())
    assert methods["strong"] == (ab.FirstOrder(), ab.Adjusted(), ab.MeanValue())


def test_both_protocols_look_at_the_same_samples_and_attributions() -> None:
    for data in PLAN.data:
        for spec in PLAN.of_data(data, ("paper",)):
            one, other = (
                PLAN.settings(RunSpec(data, spec.model, kind)) for kind in ("paper", "strong")
            )
            assert (one.limit, one.seed, one.data) == (other.limit, other.seed, other.data)
            assert one.attributions == other.attributions


def test_samples_are_limited_but_never_raised() -> None:
    spec = RunSpec("mnist", "at", "paper")
    assert PLAN.settings(spec, most=3).limit == 3
    assert PLAN.settings(spec, most=10**6).limit == PLAN.samples(spec) < 10**6
    full = RunSpec("cifar10", "ce-full", "paper")
    assert PLAN.samples(full) < PLAN.samples(RunSpec("cifar10", "ce", "paper"))


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
    full = PLAN.settings(RunSpec("cifar10", "ce-full", "paper"))
    assert Path(full.weights).parent == tmp_path / "checkpoints"
    beside = tmp_path / "plans" / "checkpoints" / Path(full.weights).name
    beside.parent.mkdir(parents=True)
    beside.touch()
    plan = tmp_path / "plans" / "plan.toml"
    plan.write_text(SHIPPED.read_text())
    own = Plan.read(plan).settings(RunSpec("cifar10", "ce-full", "paper"))
    assert Path(own.weights) == beside


def test_a_damaged_plan_is_refused(tmp_path) -> None:
    text = SHIPPED.read_text()
    path = tmp_path / "plan.toml"
    path.write_text(text.replace('title = "MNIST"', 'name_of_it = "MNIST"', 1))
    with pytest.raises(InputError, match="name_of_it"):
        Plan.read(path)
    path.write_text(text.replace("[kinds.eta.settings]", "[kinds.theta.settings]"))
    with pytest.raises(
        InputError, match=r"part of a kind: expected of paper, strong.* got 'theta'"
    ):
        Plan.read(path)
    path.write_text(text.replace('protocol = "paper"', 'protocol = "papier"', 1))
    with pytest.raises(InputError, match="protocol"):
        Plan.read(path).settings(RunSpec("mnist", "at", "paper"))


def blocks_of(spec: RunSpec, most: int | None = None) -> list[AuditSettings]:
    return [portion.settings for portion in PLAN.portions(spec, most)]


def test_blocks_are_all_samples_once_and_a_smaller_run_is_the_beginning_of_a_larger() -> None:
    spec = RunSpec("mnist", "at", "paper")
    for most in (1, 3, 4, 5, None):
        blocks = blocks_of(spec, most)
        places = [i for each in blocks for i in range(each.skip, each.skip + each.limit)]
        assert places == list(range(PLAN.samples(spec, most=most)))
        assert {each.limit for each in blocks[:-1]} <= {PLAN.block}
    first, *others = blocks_of(spec)
    assert first == replace(PLAN.settings(spec), limit=PLAN.block)
    assert first.maps == "some"
    assert {each.maps for each in others} == {"none"}


def test_large_maps_that_no_figure_shows_are_not_kept() -> None:
    assert {each.maps for each in blocks_of(RunSpec("flowers17", "at", "paper"))} == {"none"}


def test_an_empty_block_is_refused() -> None:
    with pytest.raises(InputError, match="block"):
        replace(PLAN, block=0)
    with pytest.raises(InputError, match="block"):
        replace(PLAN, data={"mnist": replace(PLAN.data["mnist"], block=0)})


def test_large_images_are_stored_one_by_one() -> None:
    spec = RunSpec("cifar10", "at", "paper")
    blocks = blocks_of(spec)
    assert [each.limit for each in blocks] == [1] * PLAN.samples(spec)
    assert [each.skip for each in blocks] == list(range(PLAN.samples(spec)))


def test_a_model_can_have_fewer_radii_of_its_own() -> None:
    own, all_of_them = (
        radii(PLAN.settings(RunSpec("cifar10", model, "paper"))) for model in ("ce-full", "ce")
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
