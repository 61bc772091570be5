"""How often batches and workers are tried."""

from __future__ import annotations

import pytest

from attribound.auditing.engines.work import Schedule
from attribound.basics.errors import InputError


def test_a_deadly_batch_is_tried_three_times_and_lets_others_go_first() -> None:
    schedule = Schedule([4, 5])
    assert schedule.next() == 4
    assert not schedule.died(4)
    assert [schedule.next(), schedule.next(), schedule.next()] == [5, 4, None]
    assert not schedule.died(4)
    assert schedule.next() == 4
    assert schedule.died(4)
    assert len(schedule) == 0


def test_workers_that_never_get_ready_end_the_run() -> None:
    schedule = Schedule([1])
    schedule.unborn("somehow")
    schedule.unborn("somehow")
    schedule.born()
    schedule.unborn("somehow")
    schedule.unborn("somehow")
    with pytest.raises(InputError, match=r"3 that died while loading it \(by SIGKILL\)"):
        schedule.unborn("by SIGKILL")
