"""Processes of this machine: same rows, and no death ends a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path

import pytest
import torch

from attribound.auditing.at_work import AtWork
from attribound.auditing.engines import LocalEngine
from attribound.basics.errors import InputError
from auditing import fakes
from auditing.fakes import Fake, measured, samples_of, work

TWO = LocalEngine(workers=2)


def gone(process: int) -> bool:
    """Whether a process is dead, or dead and not yet buried."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until(what: object, seconds: float = 60) -> None:
    """Until ``what()`` is true."""
    end = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def check(results: Iterator[tuple[int, Fake]], errors: dict[int, str] | None = None) -> None:
    """Every batch came out once, with its own rows or the error expected of it."""
    found = dict(results)
    assert sorted(found) == [0, 1, 2]
    for number, tables in found.items():
        expected = measured(samples_of(number), (errors or {}).get(number))
        assert tables.rows.equals(expected.rows), number
        assert tables.maps.equals(expected.maps)


@pytest.mark.parametrize("engine", [LocalEngine(), TWO])
def test_every_batch_comes_out_once(engine: LocalEngine) -> None:
    check(engine.run(work(fakes.Sound()), range(3)))


def test_the_check_sees_a_batch_that_was_not_measured() -> None:
    with pytest.raises(AssertionError):
        check(LocalEngine().run(work(fakes.Sound()), range(2)))
    with pytest.raises(AssertionError):
        check(LocalEngine().run(work(fakes.Sound()), range(3)), errors={1: "x"})


def test_a_killed_worker_is_replaced_and_its_batch_tried_again(tmp_path: Path) -> None:
    recipe = fakes.Deadly(tmp_path, sample=4, deaths=1)
    check(TWO.run(work(recipe), range(3)))
    assert len(recipe.dead()) == 1


@pytest.mark.parametrize("engine", [LocalEngine(), TWO])
def test_what_a_batch_is_at_is_told_before_it_is_done(engine: LocalEngine) -> None:
    heard: list[AtWork] = []
    recipe = fakes.Telling(fakes.Sound())
    told = replace(work(recipe), measure=recipe(), told=heard.append)
    for number, _ in engine.run(told, range(3)):
        own = [each for each in heard if each.batch == number]
        assert own == [AtWork(number, 1, 2, "one"), AtWork(number, 2, 2, "other")]
    assert len(heard) == 6


def test_a_worker_killed_after_it_told_a_step_is_replaced(tmp_path: Path) -> None:
    recipe = fakes.Deadly(tmp_path, sample=4, deaths=1)
    heard: list[AtWork] = []
    check(TWO.run(replace(work(fakes.Telling(recipe)), told=heard.append), range(3)))
    assert len(recipe.dead()) == 1
    assert sum(each.batch == 1 for each in heard) == 4


def test_a_worker_without_work_takes_the_batch_of_one_that_died(tmp_path: Path) -> None:
    recipe = fakes.Deadly(tmp_path, sample=4, deaths=1, delay=1.0)
    check(TWO.run(work(recipe), range(3)))
    assert len(recipe.dead()) == 1


def test_a_sample_that_kills_every_worker_is_recorded_alone(tmp_path: Path) -> None:
    recipe = fakes.Deadly(tmp_path, sample=4, deaths=99)
    found = dict(TWO.run(work(recipe), range(3)))
    assert sorted(found) == [0, 1, 2]
    errors = dict(
        pair
        for tables in found.values()
        for pair in zip(
            tables.rows["sample"].to_pylist(), tables.rows["error"].to_pylist(), strict=True
        )
    )
    assert sorted(errors) == list(range(10))
    assert {sample: error for sample, error in errors.items() if error} == {
        4: "the process that computed this sample alone died 3 times, at last by SIGKILL"
    }
    assert len(recipe.dead()) == 7  # three as a whole, one of two, three alone


def test_a_worker_that_hangs_counts_as_dead(tmp_path: Path) -> None:
    engine = LocalEngine(workers=2, patience=0.5)
    found = dict(engine.run(work(fakes.Hanging(fakes.Sound(), sample=9)), range(3)))
    errors = [set(found[number].rows["error"].to_pylist()) for number in range(3)]
    assert errors[:2] == [{None}, {None}]
    (said,) = errors[2] - {None}
    assert "this sample alone died 3 times, at last killed after" in said
    assert "s without a word" in said


def test_tensors_do_not_go_through_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers have little of it: no file of torch's may be made there."""

    def refused(*_: object) -> None:
        raise AssertionError("a tensor was shared")

    monkeypatch.setattr(torch.multiprocessing.reductions, "reduce_tensor", refused)
    monkeypatch.setattr(torch.UntypedStorage, "_share_fd_cpu_", refused)
    given = replace(work(fakes.OfTensors()), batch=lambda n: (torch.arange(4.0), samples_of(n)))
    check(TWO.run(given, range(3)))


def test_a_killed_server_of_processes_is_replaced(tmp_path: Path) -> None:
    recipe = fakes.Deadly(tmp_path, sample=4, deaths=1, delay=0.5)
    results = TWO.run(work(recipe), range(3))
    first = next(results)
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
    check(iter([first, *results]))


def test_workers_that_die_while_loading_end_the_run() -> None:
    with pytest.raises(InputError, match=r"3 that died while loading it \(with exit code 7\)"):
        list(TWO.run(work(fakes.Stillborn()), range(3)))


def test_an_error_of_a_worker_is_raised_here() -> None:
    with pytest.raises(FileNotFoundError, match="no such weights"):
        list(TWO.run(work(fakes.Broken()), range(3)))


def test_an_error_that_cannot_be_pickled_is_raised_as_text() -> None:
    with pytest.raises(RuntimeError, match="Unpicklable: a mistake of ours"):
        list(TWO.run(work(fakes.Faulty()), range(3)))


def test_a_recipe_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(InputError, match=r"sent to other processes.*use one worker"):
        list(TWO.run(work(lambda: fakes.measure), range(3)))


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": -1}, {"threads": 0}])
def test_fewer_than_one_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"expected a whole number, 1 or more, got (0|-1)"):
        LocalEngine(**wrong)


def test_threads_are_set_inside_and_put_back() -> None:
    before = torch.get_num_threads()
    results = LocalEngine(threads=before + 1).run(work(fakes.Sound()), range(2))
    assert [torch.get_num_threads() for _ in results] == [before + 1] * 2
    assert torch.get_num_threads() == before


def test_workers_have_one_thread_each_and_the_environment_is_put_back() -> None:
    before = dict(os.environ)
    found = dict(TWO.run(work(fakes.Threads()), range(3)))
    assert {rows.rows["error"][0].as_py() for rows in found.values()} == {"torch 1, OMP 1"}
    assert dict(os.environ) == before


def test_closing_ends_the_workers(tmp_path: Path) -> None:
    results = TWO.run(work(fakes.EndlessAfter(tmp_path)), range(3))
    assert next(results)[0] == 0
    wait_until(lambda: len([*tmp_path.glob("at-*")]) == 2)
    results.close()
    assert all(gone(int(path.name[3:])) for path in tmp_path.glob("at-*"))


def test_workers_end_with_their_killed_parent(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from attribound.auditing.engines import LocalEngine; "
        "from auditing import fakes\n"
        "if __name__ == '__main__': list(LocalEngine(workers=2).run("
        f"fakes.work(fakes.Endless(Path({str(tmp_path)!r}))), range(3)))"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, script], env=environment) as parent:
        wait_until(lambda: len([*tmp_path.glob("at-*")]) == 2)
        parent.kill()
    workers = [int(path.name[3:]) for path in tmp_path.glob("at-*")]
    wait_until(lambda: all(gone(worker) for worker in workers), 20)
