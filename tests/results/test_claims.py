from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

import attribound as ab
from attribound.bounding.calibrated import CALIBRATED
from attribound.bounding.certified import CERTIFIED
from attribound.bounding.first_order import ADJUSTED, FIRST_ORDER
from attribound.bounding.mean_value import MEAN_VALUE
from attribound.results import ATTAINED, claim_named, register_claim
from attribound.values import names

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
