from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

import attribound as ab
from attribound.attacks import PGD, Attack, judge
from attribound.auditing.attacked import Prey, attack_all
from attribound.auditing.rows import YOURS
from attribound.basics.errors import InputError
from attribound.basics.tensors import norm
from auditing import cases

BALL = ab.L2Ball(0.1)


@dataclass(frozen=True)
class Along(Attack):
    """Moves one feature by a share of the radius; all samples alike."""

    feature: int = 0
    share: float = 1.0
    seed: int = 0

    def __call__(self, attribution: Any, x: Tensor, ball: Any, target: Any = None) -> Any:
        delta = torch.zeros_like(x)
        delta[:, (self.feature + self.seed) % x.shape[1]] = self.share * ball.epsilon
        return judge(attribution, x, delta, target, evaluations=1)

    def seeded(self, seed: int) -> Along:
        return Along(self.feature, self.share, self.seed + seed)


@pytest.fixture(scope="module")
def prey() -> Prey:
    attribution, x = ab.InputXGradient(cases.plain().double()), 3 * cases.batch().x
    target = attribution.targets(x)
    return Prey(attribution, x, target, attribution(x, target), k=2)


def test_of_each_sample_the_furthest_is_the_strongest(prey) -> None:
    attacks = {f"a{i}": Along(i) for i in range(7)}
    found = attack_all(prey, BALL, attacks, YOURS)
    each = torch.stack(
        [attack(prey.attribution, prey.x, BALL).deviation for attack in attacks.values()]
    )
    winners = each.argmax(0).tolist()
    assert len({*winners}) > 1, "else the test would say little"
    for i, (strongest, winner) in enumerate(zip(found.strongest, winners, strict=True)):
        assert strongest["by"] == f"a{winner}"
        assert strongest["deviation"] == pytest.approx(each[winner, i].item())
        assert [record["attack"] for record in found.records[i]] == list(attacks)
        assert found.best.delta[i, winner] == pytest.approx(BALL.epsilon)
    moved = norm(found.best.attacked_map - prey.clean)
    torch.testing.assert_close(moved, found.best.deviation)
    again = prey.attribution(prey.x + found.best.delta, prey.target)
    torch.testing.assert_close(again, found.best.attacked_map)


def test_the_largest_angle_counts_whoever_made_it(prey) -> None:
    attacks = {f"a{i}": Along(i) for i in range(7)}
    found = attack_all(prey, BALL, attacks, YOURS)
    for strongest, records in zip(found.strongest, found.records, strict=True):
        assert strongest["degrees"] == max(record["degrees"] for record in records)


def test_of_two_that_are_as_far_the_first_is_the_strongest(prey) -> None:
    found = attack_all(prey, BALL, {"one": Along(3), "two": Along(3)}, YOURS)
    assert [each["by"] for each in found.strongest] == ["one"] * 4


def test_every_repeat_is_kept(prey) -> None:
    repeated = attack_all(prey, BALL, {"a": Along().repeat(3)}, YOURS)
    singles = [attack_all(prey, BALL, {"a": Along(i)}, YOURS) for i in range(3)]
    for i, (record,) in enumerate(repeated.records):
        alone = [single.records[i][0] for single in singles]
        assert record["repeats"] == [
            {key: each[key] for key in ("deviation", "degrees", "kendall", "label_kept")}
            for each in alone
        ]
        assert record["deviation"] == max(each["deviation"] for each in alone)
        assert record["evaluations"] == 3


@dataclass(frozen=True)
class Forgetful(Along):
    """The same, and keeps no map."""

    def __call__(self, attribution: Any, x: Tensor, ball: Any, target: Any = None) -> Any:
        return replace(super().__call__(attribution, x, ball, target), attacked_map=None)

    def seeded(self, seed: int) -> Forgetful:
        return Forgetful(self.feature, self.share, self.seed + seed)


def test_a_map_that_was_judged_is_not_computed_again(prey) -> None:
    made = []

    class Counted(ab.InputXGradient):
        def _value(self, x: Tensor, target: Tensor) -> Tensor:
            made.append(len(x))
            return super()._value(x, target)

    counted = replace(prey, attribution=Counted(cases.plain().double()))
    results = []
    for attack in (Along(), Forgetful()):
        made.clear()
        found = attack_all(counted, BALL, {"a": attack.repeat(3)}, YOURS)
        results.append((len(made), found))
    (kept, one), (again, other) = results
    assert again == kept + 3 + 1  # every repeat, and the furthest
    for name in ("delta", "attacked_map", "deviation", "degrees"):
        torch.testing.assert_close(getattr(one.best, name), getattr(other.best, name))
    assert [[{**r, "seconds": 0} for r in rs] for rs in one.records] == [
        [{**r, "seconds": 0} for r in rs] for rs in other.records
    ]


def test_without_attacks_there_is_no_strongest(prey) -> None:
    found = attack_all(prey, BALL, {}, YOURS)
    assert (found.records, found.strongest, found.best) == ([[]] * 4, [None] * 4, None)


@pytest.mark.parametrize("times", [1, 3])
def test_a_perturbation_outside_the_ball_is_refused(prey, times) -> None:
    """Also one that a larger deviation inside hides."""
    attack_all(prey, BALL, {"fine": Along(share=1 + 1e-5).repeat(times)}, YOURS)
    outside = {"fine": PGD(), "mine": Along(share=1.01).repeat(times)}
    with pytest.raises(InputError, match=r"attack mine: expected .* in L2Ball.*got 4 of 4 outside"):
        attack_all(prey, BALL, outside, YOURS)
    frozen = cases.Frozen(0.1)
    with pytest.raises(InputError, match="outside"):
        attack_all(prey, frozen, {"mine": Along(0)}, YOURS)
    attack_all(prey, frozen, {"mine": Along(5)}, YOURS)
