"""Norms, bounds and claims as records."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
import torch

import attribound as ab
import cases
from attribound.bounding.calibrated import CALIBRATED
from attribound.bounding.certified import CERTIFIED
from attribound.bounding.first_order import ADJUSTED, FIRST_ORDER
from attribound.bounding.mean_value import MEAN_VALUE
from attribound.results import (
    ATTAINED,
    Bracket,
    NormEstimate,
    Status,
    claim_named,
    join,
    register_claim,
)
from attribound.values import names


def estimate(lower: float) -> NormEstimate:
    return NormEstimate(
        Bracket(torch.tensor([lower]), torch.tensor([2.0]), 1e-6),
        torch.ones(1, 3),
        torch.tensor([40]),
        (Status.ITERATION_LIMIT,),
    )


def test_repr_is_a_table_that_says_how_sure_the_upper_value_is() -> None:
    shown = repr(estimate(1.5))
    for part in ("fails with probability <= 1e-06", "attained", "1.5", "40", "iteration-limit"):
        assert part in shown


def test_groups_join() -> None:
    both = join([estimate(1.5), estimate(1.75)])
    assert both.value.lower.tolist() == [1.5, 1.75]
    assert both.point.shape == (2, 3)
    assert len(both.status) == 2


@pytest.fixture
def both() -> ab.Bounds:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    return ab.bounds(attribution, x, ab.L2Ball(0.1), claims=["first_order", "mean_value"])


def test_is_a_mapping_by_claim(both) -> None:
    assert list(both) == ["first_order", "mean_value"]
    assert len(both) == 2
    assert both["mean-value"] is both[MEAN_VALUE] is both["mean_value"]
    with pytest.raises(KeyError, match="certified"):
        both["certified"]
    with pytest.raises(ab.InputError, match="claim: expected one of first_order"):
        both["best"]


def test_shows_cost_and_status_of_each(both) -> None:
    shown = repr(both)
    assert "deviation of your network, 2 examples, l2 ball of radius 0.1" in shown
    assert "mean-value (searched)" in shown
    assert "2 converged" in shown
    assert both.seconds.keys() == both.keys()
    assert all(seconds > 0 for seconds in both.seconds.values())


PAPERS = [FIRST_ORDER, ADJUSTED, CALIBRATED, MEAN_VALUE, CERTIFIED, ATTAINED]


def test_the_weakest_promise_comes_first() -> None:
    ours = [claim for claim in ab.claims() if claim in PAPERS]
    assert ours == PAPERS
    assert [claim.order for claim in ours] == sorted(claim.order for claim in ours)


@pytest.mark.parametrize("claim", PAPERS, ids=repr)
def test_every_claim_is_found_by_its_name(claim) -> None:
    assert claim_named(claim.name) is claim_named(claim) is claim
    assert claim_named(claim.name.replace("_", "-")) is claim
    assert str(claim) == claim.title
    assert repr(claim) == f"<claim {claim.name}>"
    if claim.method is not None:
        assert claim.name in names(ab.Method)
        assert claim.method().claim is claim
        assert claim.held.endswith(".")
        assert claim.exceeded.endswith(".")
    for name in claim.rests_on:
        assert claim_named(name).order < claim.order


@pytest.mark.parametrize("claim", PAPERS, ids=repr)
def test_a_claim_is_one_object_wherever_it_goes(claim) -> None:
    assert pickle.loads(pickle.dumps(claim)) is claim
    assert copy.deepcopy(claim) is claim


def test_another_process_finds_it_though_nothing_was_imported() -> None:
    program = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).title)"
    found = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(CERTIFIED),
        capture_output=True,
        check=True,
    )
    assert found.stdout.decode().strip() == "certified"


def test_how_bounds_move_to_other_radii() -> None:
    assert FIRST_ORDER.moves is ab.Moves.SCALED
    assert MEAN_VALUE.moves is CERTIFIED.moves is ab.Moves.NESTED
    assert ADJUSTED.moves is CALIBRATED.moves is ab.Moves.MEASURED


def test_only_calibrated_bounds_may_be_exceeded() -> None:
    assert [claim for claim in PAPERS if claim.expected] == [CALIBRATED]


def test_unknown_claims_are_refused() -> None:
    with pytest.raises(ab.InputError, match=r"claim: expected one of first_order, .*got 'best'"):
        claim_named("best")


def test_a_claim_is_entered_again_by_a_module_that_is_loaded_again() -> None:
    assert register_claim(CERTIFIED) is CERTIFIED
    with pytest.raises(ab.InputError, match=r"a name that is free, got 'attained', which is: Low"):
        register_claim(ab.Claim("attained", title="attained", order=1, promise="Anything."))
    assert claim_named("attained") is ATTAINED
