"""How often batches and workers are tried."""

from __future__ import annotations

import pytest

from attribound.auditing.engines.work import Queue
from attribound.basics.errors import InputError


def test_a_deadly_batch_is_tried_three_times_and_lets_others_go_first() -> None:
    queue = Queue([4, 5])
    assert queue.next() == 4
    assert not queue.died(4)
    assert [queue.next(), queue.next(), queue.next()] == [5, 4, None]
    assert not queue.died(4)
    assert queue.next() == 4
    assert queue.died(4)
    assert len(queue) == 0


def test_workers_that_never_get_ready_end_the_run() -> None:
    queue = Queue([1])
    queue.unborn("somehow")
    queue.unborn("somehow")
    queue.born()
    queue.unborn("somehow")
    queue.unborn("somehow")
    with pytest.raises(InputError, match=r"3 that died while loading it \(by SIGKILL\)"):
        queue.unborn("by SIGKILL")
