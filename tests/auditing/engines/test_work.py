"""How often batches and workers are tried."""

from __future__ import annotations

import pytest

from attribound.auditing.engines.work import Patience, Piece, Queue, check_patience
from attribound.basics.errors import InputError
from auditing import fakes
from auditing.fakes import measured, work


def queue_of(*numbers: int) -> Queue:
    return Queue(work(fakes.Sound()), numbers)


def test_a_deadly_batch_is_tried_three_times_as_a_whole_and_lets_others_go_first() -> None:
    queue = queue_of(0, 1)
    whole, other = Piece(0), Piece(1)
    assert queue.next() == whole
    assert queue.died(whole, "x") is None
    assert [queue.next(), queue.next(), queue.next()] == [other, whole, None]
    assert queue.died(whole, "x") is None
    assert queue.next() == whole
    assert queue.died(whole, "x") is None
    assert [queue.next(), queue.next(), queue.next()] == [Piece(0, (0,)), Piece(0, (1,)), None]


@pytest.mark.parametrize("culprit", range(4))
def test_the_culprit_is_alone_in_the_end_and_the_others_are_measured(culprit: int) -> None:
    queue, found, deaths = queue_of(0), None, 0
    while (piece := queue.next()) is not None:
        assert found is None
        batch = queue.read(piece)
        deadly = culprit in batch
        deaths += deadly
        found = queue.died(piece, "by SIGSEGV") if deadly else queue.done(piece, measured(batch))
    assert found is not None
    number, tables = found
    assert (number, deaths) == (0, 3 + 1 + 3)  # whole, a half of two, alone
    errors = dict(
        zip(*(tables.rows[name].to_pylist() for name in ("sample", "error")), strict=True)
    )
    assert sorted(errors) == [0, 1, 2, 3]
    assert [sample for sample, error in errors.items() if error] == [culprit]
    assert "this sample alone died 3 times, at last by SIGSEGV" in errors[culprit]


def test_patience_grows_with_what_was_heard() -> None:
    patience = Patience(60)
    patience.heard(3)
    assert patience.left == 60
    patience.heard(20)
    patience.heard(1)
    assert patience.left == 200
    with pytest.raises(InputError, match=r"patience: expected seconds above 0, got nan"):
        check_patience(float("nan"))


def test_workers_that_never_get_ready_end_the_run() -> None:
    queue = queue_of(1)
    queue.unborn("somehow")
    queue.unborn("somehow")
    queue.born()
    queue.unborn("somehow")
    queue.unborn("somehow")
    with pytest.raises(InputError, match=r"3 that died while loading it \(by SIGKILL\)"):
        queue.unborn("by SIGKILL")
