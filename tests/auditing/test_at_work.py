"""Steps of batches: told to who listens, counted right, and of no consequence."""

from __future__ import annotations

import pickle

import pytest

import attribound as ab
from attribound.auditing.at_work import AtWork, Steps, expected, heard_by, nobody, silent
from attribound.auditing.measure import measure
from attribound.auditing.rows import untimed
from auditing import cases


def test_words() -> None:
    assert str(AtWork(3)) == "batch 3"
    assert str(AtWork(3, 1, 9, "ig, l2 0.1, pgd")) == "batch 3, step 1 of 9: ig, l2 0.1, pgd"


def test_it_is_light() -> None:
    assert len(pickle.dumps(AtWork(3, 1, 9, "ig, l2 0.1, mean-value"))) < 300


def test_steps_are_heard_inside_and_only_there() -> None:
    heard: list[AtWork] = []
    steps = Steps(5, 2)
    steps.next("a")
    with heard_by(heard.append):
        steps.next("b")
        with heard_by(nobody):
            steps.next("c")
        steps.expect(2)
        steps.next("d")
    steps.next("e")
    silent("f")
    assert heard == [AtWork(5, 2, 2, "b"), AtWork(5, 4, 5, "d")]


def test_a_listener_that_is_gone_is_no_failure() -> None:
    def gone(step: AtWork) -> None:
        raise BrokenPipeError

    with heard_by(gone):
        Steps(0, 1).next("a")


BOTH = (ab.Saliency(), ab.IntegratedGradients(steps=2))
TWO_BALLS = (ab.L2Ball(0.1), ab.LinfBall(0.01))


@pytest.mark.parametrize(
    ("kinked", "chosen"),
    [
        (False, {"attributions": BOTH, "balls": TWO_BALLS}),
        (True, {"smooth": 20.0, "claims": "first_order"}),
        (True, {"smooth": 20.0, "claims": "first_order", "attacks": {}, "own_attacks": {}}),
    ],
    ids=["several", "copy", "unattacked copy"],
)
def test_a_batch_tells_every_step_and_how_many_there_are(kinked, chosen) -> None:
    subject = cases.subject(cases.plain(kinked), **chosen)
    heard: list[AtWork] = []
    with heard_by(heard.append):
        rows = measure(subject, cases.batch(3)).rows
    total = len(subject.attributions) * expected(subject.settings)
    assert [(each.step, each.steps) for each in heard] == [(n + 1, total) for n in range(total)]
    assert {each.batch for each in heard} <= {3}
    assert untimed(rows).equals(untimed(measure(subject, cases.batch(3)).rows))


def test_steps_name_attribution_ball_and_claim_or_attack() -> None:
    heard: list[AtWork] = []
    with heard_by(heard.append):
        measure(cases.subject(balls=ab.L2Ball(0.1)), cases.batch(1))
    claims = ["first-order", "adjusted", "mean-value"]
    first = [f"saliency, all balls, {claim}" for claim in claims]
    then = [f"saliency, l2 0.1, {each}" for each in (*claims, "ascent", "pgd")]
    assert [each.doing for each in heard] == first + then


def test_where_a_batch_is_halved_there_are_more_steps() -> None:
    heard: list[AtWork] = []
    subject = cases.subject(cases.Network(), claims="first_order")
    with heard_by(heard.append):
        measure(subject, cases.batch(4, bad=(1,)))
    assert heard[-1].steps > expected(subject.settings)
    assert all(each.step <= each.steps for each in heard)
