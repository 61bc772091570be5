from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import attribound as ab
from attribound.auditing.bounded import bound_records, mark_exceeded, prepared, unstacked
from attribound.basics.errors import InputError
from attribound.bounding.method import Question
from auditing import cases


def question(epsilon: float = 0.1, **more) -> Question:
    attribution, x = ab.Saliency(cases.plain().double()), cases.batch(2).x
    return Question(attribution, x, ab.L2Ball(epsilon), attribution.targets(x), **more)


@dataclass(frozen=True)
class Refusing(ab.Method):
    """A method that refuses whatever it is asked."""

    may_not_apply: ClassVar[bool] = True
    claim = ab.claims()[0]

    def bound(self, question: Question) -> ab.Bound:
        raise InputError("network", expected="another", got="this", remedy="leave it")

    def prepare(self, questions) -> None:
        raise InputError("balls", expected="others", got="these", remedy="leave them")


@dataclass(frozen=True)
class Insisting(Refusing):
    """The same, of a claim that can always be made."""

    may_not_apply: ClassVar[bool] = False

    def prepare(self, questions) -> None:
        """Nothing."""


def test_a_record_for_each_sample_and_claim() -> None:
    methods = (ab.FirstOrder(), ab.Adjusted())
    asked = question()
    prepared([asked], methods)
    records = bound_records([asked] * 2, methods)
    assert [[each["claim"] for each in row] for row in records] == [["first_order", "adjusted"]] * 2
    expected = ab.bound(asked.attribution, asked.x, asked.ball).euclidean.tolist()
    assert [row[0]["euclidean"] for row in records] == pytest.approx(expected)
    shared = asked.seconds[methods[0]]
    assert sum(row[0]["seconds"] for row in records) == pytest.approx(shared)


def test_one_preparation_serves_all_balls() -> None:
    asked = [question(epsilon) for epsilon in (0.1, 0.2)]
    prepared(asked, (ab.FirstOrder(), ab.Certified()))
    assert [list(each.made) for each in asked] == [[ab.FirstOrder()]] * 2
    ones, twos = (each.bound(ab.FirstOrder()).euclidean for each in asked)
    torch.testing.assert_close(2 * ones, twos)


def test_a_claim_that_does_not_apply_says_why() -> None:
    prepared([question()], (Refusing(),))
    records = bound_records([question()] * 2, (ab.FirstOrder(), Refusing()))
    for first, refused in records:
        assert first["euclidean"] > 0
        assert refused == {
            "claim": Refusing.claim.name,
            "status": "does not apply: network: expected another, got this; leave it",
        }


def test_a_claim_that_always_applies_must_not_fail() -> None:
    with pytest.raises(InputError, match="network: expected another"):
        bound_records([question()], (Insisting(),))


class TestExceeded:
    @pytest.mark.parametrize(
        ("deviation", "degrees", "expected"),
        [
            (1.0, 10.0, (False, False)),  # as far as the bound is not beyond it
            (1.0 + 0.9e-3, 10.0, (False, False)),  # what rounding may have added
            (1.0 + 1.1e-3, 10.0, (True, False)),
            (0.5, 10.00009, (False, False)),  # rounding of angles
            (0.5, 10.0002, (False, True)),
        ],
    )
    def test_as_validation_says(self, deviation, degrees, expected) -> None:
        attack = {"deviation": deviation, "degrees": degrees}
        bound = {"claim": "c", "subject": "yours", "euclidean": 1.0, "degrees": 10.0}
        mark_exceeded([bound], {"yours": attack}, {"yours": (1e-3, 1e-4)})
        assert (bound["exceeded"], bound["degrees_exceeded"]) == expected
        assert (bound["yours_exceeded"], bound["yours_degrees_exceeded"]) == expected

    def test_a_bound_is_held_against_its_own_subject_and_against_yours(self) -> None:
        weak, strong = ({"deviation": d, "degrees": 1.0} for d in (0.5, 2.0))
        for subject, own in (("copy", False), ("yours", True)):
            bound = {"subject": subject, "euclidean": 1.0, "degrees": 10.0}
            exact = {"copy": (0.0, 0.0), "yours": (0.0, 0.0)}
            mark_exceeded([bound], {"copy": weak, "yours": strong}, exact)
            assert (bound["exceeded"], bound["yours_exceeded"]) == (own, True)

    def test_the_error_is_that_of_the_network_that_was_attacked(self) -> None:
        attack = {"deviation": 1.5, "degrees": 1.0}
        for copy, yours in ((0.0, 1.0), (1.0, 0.0)):
            bound = {"subject": "copy", "euclidean": 1.0, "degrees": 10.0}
            errors = {"copy": (copy, 0.0), "yours": (yours, 0.0)}
            mark_exceeded([bound], {"copy": attack, "yours": attack}, errors)
            assert (bound["exceeded"], bound["yours_exceeded"]) == (copy == 0, yours == 0)

    def test_neither_without_attacks_nor_without_a_bound(self) -> None:
        none = {"status": "does not apply"}
        bound = {"subject": "yours", "euclidean": 1.0, "degrees": 1.0}
        mark_exceeded([bound, none], {"yours": None}, {})
        assert "exceeded" not in bound
        attack = {"deviation": 2.0, "degrees": 2.0}
        mark_exceeded([bound, none], {"yours": attack}, {"yours": (0.0, 0.0)})
        assert bound["exceeded"]
        assert "exceeded" not in none


def test_columns_become_records() -> None:
    columns = {"a": torch.tensor([1, 2]), "b": torch.tensor([0.5, 1.5], requires_grad=True)}
    assert unstacked(columns) == [{"a": 1, "b": 0.5}, {"a": 2, "b": 1.5}]
