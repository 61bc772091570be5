"""Mutation testing: small faults put into the code that proves things; the tests must see each.

Our own and small, because of what starting costs: Cosmic Ray runs a command for every mutant, and
importing torch, SciPy and the rest takes 5 CPU-seconds, as long as most tests here. This imports
them once and forks. Each mutant is one changed expression of one module; the child imports that
module changed and runs the tests that concern it until one fails.

    python benchmarks/mutants.py --set certified=100     # sampled with a seed; goes on where it was
    python benchmarks/mutants.py --report                # the table and the survivors
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import hashlib
import importlib
import json
import os
import pickle
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mutating import ROOT, Loader, Mutant, of_source

RESULTS = ROOT / "benchmarks" / "results" / "mutants.parquet"
SECONDS = 300  # of the CPU; tests that take longer than that have seen something
KILLED, TIMED_OUT, SURVIVED = "killed", "timed out", "survived"
IMPORTED = "imported"  # runs at import: no outcome yet
NOT_THERE = 77  # exit code of a child that has no function with the changed code
SAYS = 250  # the file descriptor on which a child says which test has failed


@dataclass(frozen=True)
class Room:
    """Modules under ``src/attribound`` and the tests that concern them, the quickest first.

    Of these only tests that match an expression, as pytest's ``-k``, if there is one.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    matching: str = ""


_CALIBRATED = ("conformal", "procedure", "calibration", "storage", "provenance", "about_yours")
ROOMS = {
    "first-order": Room(
        ("bounding/first_order/*.py", "bounding/cosine.py", "bounding/restate.py"),
        ("bounding/test_cosine.py", "bounding/test_restate.py", "bounding/first_order"),
    ),
    "spectral": Room(("spectral/*.py",), ("spectral",)),
    "certified": Room(
        ("bounding/certified/*.py", "basics/rounding.py", "networks/plain.py"),
        (
            *(f"bounding/certified/test_{name}.py" for name in ("curvature", "network")),
            *(f"bounding/certified/test_{name}.py" for name in ("quadratic", "expansion")),
            *(f"bounding/certified/test_{name}.py" for name in ("certify", "what_runs")),
            "test_laws.py",
            "attributions/test_grouped.py",
            "balls/test_scaled.py",
            "bounding/reasons/test_reasons.py",
        ),
    ),
    "certified-relu": Room(
        ("bounding/certified/relu/*.py",),
        ("bounding/certified/relu", "bounding/reasons/test_reasons.py"),
    ),
    "certified-exact": Room(
        ("bounding/certified/exact_path/*.py",), ("bounding/certified/exact_path",)
    ),
    "calibrated": Room(
        ("bounding/calibrated/*.py",),
        tuple(f"bounding/calibrated/test_{name}.py" for name in _CALIBRATED),
    ),
    "store": Room(
        ("auditing/store.py", "auditing/parts.py", "basics/whole_files.py"),
        (*(f"auditing/test_{name}.py" for name in ("parts", "store")), "basics/test_files.py"),
    ),
    "labels": Room(
        ("attacks/engine.py", "attacks/judging.py", "bounding/validation.py"),
        ("bounding/test_validation.py", "attacks/test_attack.py", "attacks/test_engine.py"),
    ),
}


def mutants(room: str) -> list[Mutant]:
    """All of a room, in the order of modules and lines."""
    found: list[Mutant] = []
    base = ROOT / "src" / "attribound"
    for path in sorted({path for glob in ROOMS[room].modules for path in base.glob(glob)}):
        module = ".".join(("attribound", *path.relative_to(base).with_suffix("").parts))
        if path.name != "__init__.py":
            found += of_source(room, module, path.read_text("utf-8"))
    return found


def run(
    room: str, wanted: Sequence[Mutant], tell: Callable[[Mutant, str, float, str], None]
) -> None:
    """Run the tests of a room on each mutant: what became of it, CPU-seconds, the test that saw it.

    The tests are collected once, in a process of their own, and each mutant has a fork of that: its
    functions get their changed code. Of the tests those are run that execute a changed line when
    nothing is changed (all others of the file, if it shares what it makes), the quickest first.
    Mutants of what runs at import have a fork that imports everything anew, and all tests.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _collected(room, wanted, theirs)
    os.close(theirs)
    late: list[Mutant] = []
    with os.fdopen(ours) as answers:
        for line in answers:
            number, outcome, seconds, by = json.loads(line)
            if outcome == IMPORTED:
                late.append(wanted[number])
            else:
                tell(wanted[number], outcome, seconds, by)
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"the tests of {room} fail without a mutant, or were stopped: {status}")
    for mutant in late:
        tell(mutant, *_waited(_child(lambda mutant=mutant: _anew(mutant, room))))


def _child(work: Callable[[], int]) -> tuple[int, int]:
    """Fork: the child's id, and where it says which test has failed."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(ours)
            os.dup2(theirs, SAYS)
            resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
            code = work()
        except BaseException:  # whatever it is, the child ends here
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(theirs)
    return child, ours


def _waited(child: tuple[int, int]) -> tuple[str, float, str]:
    """Outcome, CPU-seconds and the test that failed, of a child."""
    with os.fdopen(child[1], errors="replace") as told:
        _, status, used = os.wait4(child[0], 0)
        os.set_blocking(told.fileno(), False)  # a process that a test left may hold the other end
        by = (told.read() or "").strip()
    seconds = used.ru_utime + used.ru_stime
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number in (signal.SIGTERM, signal.SIGINT):
            raise SystemExit("stopped")  # by someone, who stopped the child, too
        return (TIMED_OUT if number in (signal.SIGXCPU, signal.SIGPROF) else KILLED), seconds, by
    known = {0: SURVIVED, NOT_THERE: IMPORTED}
    return known.get(os.WEXITSTATUS(status), KILLED), seconds, by


def _quiet() -> None:
    out = os.open(os.environ.get("MUTANTS_LOG", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(out, stream)
    os.chdir(ROOT)


def _options(room: str) -> list[str]:
    some = ["-x", "-q", "--no-header", "-m", "not slow", "-p", "no:cacheprovider"]
    some += ["--hypothesis-seed=0", f"--basetemp={tempfile.mkdtemp(prefix='mutants-')}/tests"]
    some += ["-k", ROOMS[room].matching] if ROOMS[room].matching else []
    return [*some, *(f"tests/{each}" for each in ROOMS[room].tests)]


def _anew(mutant: Mutant, room: str) -> int:
    import pytest  # noqa: PLC0415

    _quiet()
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    sys.meta_path.insert(0, Loader(mutant))
    return int(pytest.main(_options(room), plugins=[_Said()]))


def _collected(room: str, wanted: Sequence[Mutant], answers: int) -> None:
    """Collect the tests of a room and run them on the mutants; ends the process."""
    import pytest  # noqa: PLC0415

    code = 1
    try:
        _quiet()
        code = int(pytest.main(_options(room), plugins=[_Room(room, wanted, answers)]))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class _Said:
    """Says which test has failed, once."""

    failed = False

    def pytest_configure(self) -> None:
        from hypothesis import HealthCheck, Phase, settings  # noqa: PLC0415

        # The first counterexample is enough, and no other mutant's is tried.
        phases = (Phase.explicit, Phase.generate, Phase.target)
        slow = [HealthCheck.too_slow]
        own = settings(database=None, phases=phases, deadline=None, suppress_health_check=slow)
        settings.register_profile("mutants", own, report_multiple_bugs=False)
        settings.load_profile("mutants")

    def pytest_runtest_setup(self) -> None:
        # Every test from the same numbers, whatever ran before it: else one that draws its own may
        # fail for those, and that would count as if it had seen the mutant.
        import numpy as np  # noqa: PLC0415
        import torch  # noqa: PLC0415

        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - the one that tests may have used
        torch.manual_seed(0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = True
            with contextlib.suppress(OSError):
                os.write(SAYS, report.nodeid.encode()[:2000])


class _Room(_Said):
    """In place of pytest's loop: every mutant in a fork."""

    def __init__(self, room: str, wanted: Sequence[Mutant], answers: int) -> None:
        self.room, self.wanted, self.answers = room, wanted, answers
        self.seen: dict[str, int] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        for name in {mutant.module for mutant in self.wanted}:
            importlib.import_module(name)  # some are imported when they are used
        covered, took = self._covered(session)
        for number, mutant in enumerate(self.wanted):
            lines = mutant.lines()
            places = [covered.get((mutant.module, line), set()) for line in lines]
            tests = sorted(
                set().union(*places), key=lambda i: self._worth(session.items[i], took[i])
            )
            if not lines:
                answer: tuple[str, float, str] = (IMPORTED, 0.0, "")
            elif not tests:
                answer = (SURVIVED, 0.0, "")
            else:
                made = _child(lambda m=mutant, t=tests: self._on(session, m, t, took))
                answer = _waited(made)
            if answer[2] and answer[2] not in self.seen:
                self._passes_alone(session, answer[2], took)
            self.seen[answer[2]] = self.seen.get(answer[2], 0) + 1
            os.write(self.answers, (json.dumps([number, *answer]) + "\n").encode())
        return True

    def _passes_alone(self, session: Any, name: str, took: list[float]) -> None:
        """Else it has seen no mutant, but that others did not run before it."""
        tests = [i for i, item in enumerate(session.items) if item.nodeid == name]
        outcome, *_ = _waited(_child(lambda: self._on(session, None, tests, took)))
        if outcome != SURVIVED:
            raise RuntimeError(f"{name} fails alone, without a mutant")

    def _worth(self, item: Any, seconds: float) -> float:
        return (seconds + 0.01) / (1 + self.seen.get(item.nodeid, 0))

    def _on(self, session: Any, mutant: Mutant | None, tests: list[int], took: list[float]) -> int:
        if mutant is not None and not mutant.put_in():
            return NOT_THERE
        for place, i in enumerate(tests):
            # The default of SIGPROF ends the process: something has seen that it takes so long.
            signal.setitimer(signal.ITIMER_PROF, 20 + 10 * took[i])
            after = session.items[tests[place + 1]] if place + 1 < len(tests) else None
            session.items[i].ihook.pytest_runtest_protocol(item=session.items[i], nextitem=after)
            if self.failed:
                session._setupstate.teardown_exact(None)
                return 1
        return 0

    def _covered(self, session: Any) -> tuple[dict[tuple[str, int], set[int]], list[float]]:
        """Tests that execute a line, and how long each takes; recorded once for the same files."""
        files = [path.read_bytes() for path in sorted(_files(self.room))]
        text = b"".join([f"{self.room} {ROOMS[self.room].matching}".encode(), *files])
        stored = Path(tempfile.gettempdir()) / "mutants-lines" / hashlib.sha256(text).hexdigest()
        if not stored.exists():
            stored.parent.mkdir(exist_ok=True)
            outcome, _, by = _waited(_child(lambda: self._record(session, stored)))
            if outcome != SURVIVED:
                raise RuntimeError(f"{by} fails without a mutant")
        return pickle.loads(stored.read_bytes())

    def _record(self, session: Any, stored: Path) -> int:
        from coverage import Coverage  # noqa: PLC0415

        every = {mutant.module for mutant in mutants(self.room)}
        files = {
            str(ROOT / "src" / Path(*name.split(".")).with_suffix(".py")): name for name in every
        }
        cover = Coverage(data_file=None, include=[*files], config_file=False)
        own = [each for each in gc.get_objects() if type(each) is functools._lru_cache_wrapper]
        own = [each for each in own if (each.__module__ or "").startswith("attribound")]
        cached = {
            item.module.__name__
            for item in session.items
            for each in vars(item.module).values()
            if hasattr(item, "module") and type(each) is functools._lru_cache_wrapper
        }
        took = []
        cover.start()
        for i, item in enumerate(session.items):
            for each in own:
                each.cache_clear()
            begun = time.process_time()
            shared = getattr(getattr(item, "module", None), "__name__", "") in cached
            self.recording = (cover, i, str(item.path), shared)
            item.ihook.pytest_runtest_protocol(
                item=item, nextitem=session.items[i + 1] if i + 1 < len(session.items) else None
            )
            took.append(time.process_time() - begun)
            if self.failed:
                return 1
        cover.stop()
        of_file: dict[str, set[int]] = {}
        for i, item in enumerate(session.items):
            of_file.setdefault(str(item.path), set()).add(i)
        covered: dict[tuple[str, int], set[int]] = {}
        data = cover.get_data()
        for file, name in files.items():
            for line, contexts in data.contexts_by_lineno(file).items():
                for context in filter(None, contexts):
                    some = {int(context)} if context.isdigit() else of_file[context]
                    covered.setdefault((name, line), set()).update(some)
        stored.write_bytes(pickle.dumps((covered, took)))
        return 0

    recording: Any = None

    def _phase(self, setup: bool) -> None:
        if self.recording is not None:
            cover, i, file, shared = self.recording
            cover.switch_context(file if setup or shared else str(i))

    def pytest_runtest_setup(self) -> None:
        super().pytest_runtest_setup()
        self._phase(setup=True)  # fixtures may be shared by the tests of a file

    def pytest_runtest_call(self) -> None:
        self._phase(setup=False)


def _files(room: str) -> Iterator[Path]:
    yield from (ROOT / "src").rglob("*.py")
    yield from (ROOT / "tests").glob("*.py")
    for each in ROOMS[room].tests:
        place = ROOT / "tests" / each
        yield from place.rglob("*.py") if place.is_dir() else place.parent.glob("*.py")


_COLUMNS = ("key", "room", "module", "line", "kind", "before", "after", "outcome", "seconds", "by")
_FIRST = "first"  # the outcome of the first try: what a fresh sample says, before laws of it
_ROUND = "round"  # when that was: laws are written between rounds; 0 is before rounds were kept


def stored() -> dict[str, dict[str, Any]]:
    """What is in the table, by key."""
    if not RESULTS.exists():
        return {}
    rows = pq.read_table(RESULTS).to_pylist()
    return {row["key"]: {_FIRST: "", _ROUND: 0, **row} for row in rows}  # the oldest have neither


def store(rows: dict[str, dict[str, Any]]) -> None:
    """The table, there whole or not at all."""
    order = sorted(rows.values(), key=lambda row: (row["room"], row["module"], row["line"]))
    columns = {name: [row[name] for row in order] for name in (*_COLUMNS, _FIRST, _ROUND)}
    beside = RESULTS.with_suffix(".tmp")
    pq.write_table(pa.table(columns), beside)
    beside.replace(RESULTS)


def main() -> None:
    """Run what is asked for and not there yet, then print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--set", action="append", default=[], help="ROOM=MUTANTS, at most so many")
    parser.add_argument("--again", action="store_true", help="try those that survived once more")
    parser.add_argument(
        "--by", default="", help="with --again: tests that match, as pytest's -k; others survive"
    )
    parser.add_argument("--only", default="", help="those whose module and change match this")
    parser.add_argument("--next", action="store_true", help="a new round: laws have been written")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    options.round = max([1, *(row[_ROUND] + options.next for row in stored().values())])
    limits = dict.fromkeys(ROOMS, 10**9)
    if options.set:
        limits = {name: int(count) for name, count in (each.split("=") for each in options.set)}
    if options.by and not options.again:
        parser.error("--by is for survivors: of others all tests must have a say")
    if not options.report:
        # Imported once, for all children; nothing of attribound, which they import changed.
        for name in ("torch", "torch.fx", "scipy.stats", "pytest", "pyarrow", "rich"):
            __import__(name)
        for room, limit in limits.items():
            ROOMS[room] = replace(ROOMS[room], matching=options.by)
            _run_room(room, limit, options)
    print(table())


def _run_room(room: str, limit: int, options: argparse.Namespace) -> None:
    every = [each for each in mutants(room) if re.search(options.only, each.title)]
    # A random order that stays when code is changed elsewhere: names are hashes.
    order = sorted(every, key=lambda each: each.key)
    rows = stored()
    wanted = [each for each in order[:limit] if each.key not in rows]
    if options.again:
        wanted = [each for each in every if rows.get(each.key, {}).get("outcome") == SURVIVED]
    if not wanted:
        return
    begun = time.perf_counter()

    def tell(mutant: Mutant, outcome: str, seconds: float, by: str) -> None:
        row = {name: getattr(mutant, name) for name in _COLUMNS[:7]}
        if options.by and outcome == SURVIVED:
            return  # as before: the other tests were not asked
        rows = stored()
        row |= {"outcome": outcome, "seconds": seconds, "by": by}
        new = {_FIRST: outcome, _ROUND: options.round}
        row |= {name: rows.get(mutant.key, new)[name] for name in new}
        store(rows | {mutant.key: row})
        took = f"{time.perf_counter() - begun:6.0f} s {seconds:5.1f} s"
        print(f"{outcome:9} {took}  {mutant.title}  {by.rpartition('/')[2]}", flush=True)

    print(f"{room}: {len(wanted)} of {len(every)} mutants", flush=True)
    run(room, wanted, tell)


@dataclass(frozen=True)
class Share:
    """Of one room, or of all: how many mutants there are, and what became of those tried.

    ``fresh`` are those whose first outcome was kept, ``unseen`` of these survived it, and for
    ``excused`` of these there is a reason.
    """

    room: str
    known: int
    tried: int
    survived: int
    explained: int
    fresh: int
    unseen: int
    excused: int

    @property
    def killed(self) -> int:
        """By a test, or by the time it took."""
        return self.tried - self.survived

    @property
    def percent(self) -> str:
        """Killed of those without a reason to survive, with Wilson's 95 % interval."""
        return _percent(self.killed, self.tried - self.explained)

    @property
    def first(self) -> str:
        """The same of the fresh, when they were tried first: before any law was written for them.

        That is what to expect of those that nobody has tried.
        """
        n = self.fresh - self.excused
        return f"{_percent(self.fresh - self.unseen, n)} of {n}" if n else "not kept"


@dataclass(frozen=True)
class Sight:
    """What became of the mutants of one round when they were tried first.

    ``excused`` survived it, and for these there is a reason; all other survivors count.
    """

    round: int
    room: str
    tried: int
    unseen: int
    excused: int

    @property
    def percent(self) -> str:
        """Killed of those without a reason to survive, with Wilson's 95 % interval."""
        n = self.tried - self.excused
        return f"{_percent(self.tried - self.unseen, n)} of {n}"


def sights() -> list[Sight]:
    """Of each round those of each room, and of all; 0 are those before rounds were kept."""
    fresh = [row for row in _current() if row[_FIRST]]
    found = []
    for number in sorted({row[_ROUND] for row in fresh}):
        own = [row for row in fresh if row[_ROUND] == number]
        for room in [*(each for each in ROOMS if each in {row["room"] for row in own}), "all"]:
            some = [row for row in own if room in (row["room"], "all")]
            unseen = [row for row in some if row[_FIRST] == SURVIVED]
            excused = [each for each in unseen if each["outcome"] == SURVIVED and reason_of(each)]
            found.append(Sight(number, room, len(some), len(unseen), len(excused)))
    return found


def _percent(killed: int, n: int) -> str:
    from attribound.auditing.summary_records import wilson  # noqa: PLC0415 - after all forks

    low, high = wilson(killed, n) if n else (0.0, 1.0)
    return f"{killed / max(1, n):.1%} ({low:.0%} to {high:.0%})"


def shares() -> list[Share]:
    """Of each room that was tried, and of all of them."""
    rows = _current()
    found = []
    for room in ROOMS:
        own = [row for row in rows if row["room"] == room]
        left = [row for row in own if row["outcome"] == SURVIVED]
        fresh = [row for row in own if row[_FIRST]]
        unseen = [row for row in fresh if row[_FIRST] == SURVIVED]
        explained, excused = (
            sum(reason_of(row) != "" for row in some)
            for some in (left, [row for row in unseen if row["outcome"] == SURVIVED])
        )
        counts = len(own), len(left), explained, len(fresh), len(unseen), excused
        if own:
            found.append(Share(room, len(mutants(room)), *counts))
    sums = (sum(getattr(each, name) for each in found) for name in _COUNTS)
    return [*found, Share("all", *sums)]


_COUNTS = ("known", "tried", "survived", "explained", "fresh", "unseen", "excused")


def _current() -> list[dict[str, Any]]:
    """The rows of mutants that there still are: code may have changed since."""
    return [row for row in stored().values() if row["key"] in _by_key(row["room"])]


def survivors() -> list[tuple[str, str]]:
    """Each mutant that no test kills, and why: empty where that is not known."""
    left = [row for row in _current() if row["outcome"] == SURVIVED]
    left.sort(key=lambda row: (row["module"], row["line"]))
    return [
        (
            f"{row['module'].removeprefix('attribound.')}: {row['before']}  ->  {row['after']}",
            reason_of(row),
        )
        for row in left
    ]


def table() -> str:
    """Of each room how many were tried and killed; then the survivors, with the reason."""
    heads = ("room", "mutants", "tried", "killed", "with a reason", "killed of the rest")
    lines = ["{:16} {:>8} {:>6} {:>7} {:>14}  {:20}  at first sight".format(*heads)]
    for each in shares():
        counts = f"{each.known:8} {each.tried:6} {each.killed:7} {each.explained:14}"
        lines.append(f"{each.room:16} {counts}  {each.percent:20}  {each.first}")
    lines += ["", "At first sight, round by round:"]
    lines += [f"{each.round:5}  {each.room:16} {each.percent}" for each in sights()]
    lines += ["", "Survivors:"]
    for what, why in survivors():
        lines += [f"- {what}", f"  {why or 'not killed'}"]
    return "\n".join(lines)


def markdown() -> str:
    """The same table for the docs, and how many survivors have which reason."""
    lines = [
        "| room | mutants | tried | killed | survive for a reason | killed of the rest | first |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for each in shares():
        counts = (each.known, each.tried, each.killed, each.explained, each.percent, each.first)
        lines.append(f"| {each.room} | {' | '.join(map(str, counts))} |")
    lines += [
        "",
        "| round | room | tried | survived it | of these for a reason | killed of the rest |",
    ]
    lines += ["|---:|---|---:|---:|---:|---|"]
    for each in sights():
        counts = (each.round, each.room, each.tried, each.unseen, each.excused, each.percent)
        lines.append(f"| {' | '.join(map(str, counts))} |")
    reasons: dict[str, int] = {}
    for _, why in survivors():
        reasons[why or "No reason known, and no test yet."] = (
            reasons.get(why or "No reason known, and no test yet.", 0) + 1
        )
    lines += ["", "| survivors | why |", "|---:|---|"]
    lines += [f"| {count} | {why} |" for why, count in sorted(reasons.items(), key=lambda p: -p[1])]
    return "\n".join(lines)


_SEARCH = "A search: a bound holds for whatever it finds, which is proved afterwards."
_EFFORT = "When a search stops, or what it starts from: a bound holds for whatever it found."
_COVERED = "A margin more: a later one on the same path covers it, too."
_TIE = "Of two rounded numbers that are equal: both answers hold."
_WIDER = "Wider by a millionth or less, or one of two values that both hold."

_RISING = "Activations rise: their slopes, products of numbers that are not negative, have no sign."

_POSITIVE = "Nodes and weights of the rules of integration are not negative."
_SIGN = "Of a sign: dividing by it is multiplying by it."
_GUARD = "A guard against 0 / 0: no number that matters is as small."
_SAME = "At zero both cases say the same."
_EMPTY = "The shape of what is empty, of which nothing is taken."
_SHORT = "A way that is saved: it would lead to the same."

_ROUNDED = "float(factor.abs().max() * (size * wrong).sum()) * (1 + SLACK) + TINY"

#: Why a survivor computes nothing wrong: (end of the module, function, before, after), "" for any.
REASONS: dict[tuple[str, str, str, str], str] = {
    ("spectral.lanczos", "", "1", "2"): "Room for one vector more than are ever kept.",
    ("spectral.mixing", "mixing", "", "dual < (1 + _TOLERANCE) * primal"): _EFFORT,
    ("spectral.norm_solver", "NormSolver._on_matrices", "1", "2"): (
        "Which stream of random numbers: it has to be another than that of the start."
    ),
    ("spectral.mixing", "", "(1 + _TOLERANCE) * primal", ""): _EFFORT,
    ("spectral.mixing", "mixing", "1", "2"): _EFFORT,
    ("spectral.mixing", "mixing", "sweep == _SWEEPS", "sweep != _SWEEPS"): _EFFORT,
    ("spectral.solver", "", "", "process.residual() < self.tolerance * low"): _TIE,
    (
        "spectral.upper_estimate",
        "largest_root",
        "",
        "(torch.log(middle + gaps) * weights).sum(1, keepdim=True) > level",
    ): _TIE,
    ("spectral.golub_kahan", "", "lower > 0", "lower >= 0"): _SAME,
    ("spectral.golub_kahan", "", "False", "True"): (
        "Of the full set of singular vectors the same are taken."
    ),
    ("spectral.homogenised", "corner", "", "signs[:, :-1] * signs[:, -1:] >= 0"): (
        "No sign is zero."
    ),
    ("first_order.label_constraint", "", "logits.shape[1] > 1", "logits.shape[1] >= 1"): (
        "Of a single logit the runner-up is found to be itself, too."
    ),
    ("first_order.max_epsilon", "unit_ball", "1.0", "2.0"): (
        "Of the default ball the kind counts; its radius is set to one after that."
    ),
    ("spectral.dual_certificate", "weights", "peak > 0", "peak >= 0"): (
        "Rows that are all zero become ones further down, whatever 0 / 0 is."
    ),
    ("relu.farkas", "_multipliers", "", ""): _SEARCH,
    ("relu.farkas", "nearest", "", ""): _SEARCH,
    ("relu.lagrangian", "_multipliers", "", ""): _SEARCH,
    ("relu.lagrangian", "_improved", "", ""): _SEARCH,
    ("relu.lagrangian", "_ascend", "", ""): _SEARCH,
    ("relu.lagrangian", "_nu", "", ""): _SEARCH,
    ("relu.lagrangian", "_start", "", ""): _SEARCH,
    ("relu.lagrangian", "_estimate", "", ""): _SEARCH,
    ("relu.cut", "signs", "", ""): _SEARCH,
    ("certified.quadratic", "Form.worst", "", ""): _SEARCH,
    ("certified.quadratic", "Form._weights", "", ""): _SEARCH,
    ("certified.quadratic", "_shares", "", ""): _SEARCH,
    ("exact_path.norm", "Shift.weights", "", ""): _SEARCH,
    ("exact_path.norm", "Shift.second", "", ""): _SEARCH,
    ("exact_path.norm", "_Multipliers.start", "", ""): _SEARCH,
    ("exact_path.norm", "_Multipliers.halve", "", ""): _SEARCH,
    ("exact_path.norm", "_Multipliers.square", "", ""): _SEARCH,
    ("exact_path.norm", "_Multipliers.proved", "least.diagonal().max()", ""): (
        "Balance of two blocks: the proof holds in any unit."
    ),
    ("exact_path.norm", "_Multipliers.proved", "1", "2"): (
        "Which margins are tried for the proof, or one that is counted twice."
    ),
    ("exact_path.norm", "Shift.of", "(items.high - items.low) / 2 * (1 + SLACK) + TINY", ""): (
        _COVERED
    ),
    ("exact_path.certificate", "_rounding", _ROUNDED, f"{_ROUNDED[:-6]}- TINY"): _COVERED,
    ("relu.region", "Region.inside", "1e-300", "2e-300"): _EFFORT,
    ("relu.region", "regions", "16", "32"): _WIDER,
    ("certified.expansion", "dual_order", "p <= 2", "p < 2"): "At p = 2 both say 2.",
    ("certified.quadratic", "dominate", "max(largest, 0.0) * (1 + 10.0 ** (-digits)) + TINY", ""): (
        _SEARCH
    ),
    ("certified.taylor", "remainder", "up(square)", "square"): _COVERED,
    ("certified.deviation", "first_and_second_order", "rest.linear > 0", ""): _SEARCH,
    ("certified.units", "in_units", "region.scale > 0", "region.scale >= 0"): _WIDER,
    ("relu.cut", "eigenvalue", "up(torch.tensor(above + deficit, dtype=torch.float64))", ""): (
        _COVERED
    ),
    ("relu.lagrangian", "_proved", "max(lacking, 0.0)", ""): _SEARCH,
    ("exact_path.pieces", "_Point.hinged", "factor.abs()", "factor"): (
        "Of factors of at most 1 in size 1 is taken."
    ),
    ("networks.plain", "refuse_another", "runs[finite].abs()", ""): (
        "Where logits agree the others are as large; where not, it is refused all the more."
    ),
    ("networks.plain", "refuse_another", "unrolled[finite].abs()", ""): (
        "Where logits agree the others are as large; where not, it is refused all the more."
    ),
    ("bounding.cosine", "cosine_and_degrees", "sine < 1", "sine <= 1"): _WIDER,
    ("calibrated.provenance", "refuse_settings_per_example", "1", "2"): (
        "Settings differ from example to example or not, however many are asked for."
    ),
    (
        "certified.taylor",
        "componentwise",
        "up(source @ matrix.abs().T + (source * error).sum())",
        "source @ matrix.abs().T + (source * error).sum()",
    ): _COVERED,
    ("certified.quadratic", "Form.maximum", "1 + SLACK", "1 - SLACK"): (
        "The sum of all entries is no larger than the mass, whose margin covers it, too."
    ),
    (
        "networks.plain",
        "refuse_another",
        "",
        "worst < _TOLERANCE.get(dtype, 0.1) * (size + 1e-06)",
    ): _TIE,
    ("networks.plain", "only_constructs", "", "changed < _HARMLESS"): (
        "No class replaces everything that is harmless."
    ),
    ("certified.taylor", "_terms", "up(rest)", "rest"): _COVERED,
    ("certified.taylor", "remainder", "up(first * top)", "first * top"): _COVERED,
    ("certified.taylor_along", "_along", "up(total)", "total"): _COVERED,
    ("certified.deviation", "first_and_second_order", "1.0", "2.0"): _SEARCH,
    ("certified.quadratic", "Form.maximum", "", "matrix.abs().sum(1).sum().item() / (1 + SLACK)"): (
        "The sum of all entries is no larger than the mass, whose margin covers it, too."
    ),
    ("attacks.engine", "_Climbs.__init__", "len(starts) > 1", "len(starts) >= 1"): (
        "A single start, joined with no other, is itself."
    ),
    ("attacks.judging", "judge_all", "classifier is not None and prediction is not None", ""): (
        "One is there where the other is."
    ),
    ("calibrated.provenance", "refuse_settings_per_example", "0", "1"): (
        "Settings differ from example to example or not, whichever is asked for."
    ),
    ("calibrated.calibration", "Calibration.apply", "4", "8"): (
        "Wider by a few units in the last place of float64."
    ),
    ("calibrated.procedure", "by_group", "-1", "1"): "Where there is None, there is nothing else.",
    ("calibrated.procedure", "by_group", "1", "2"): "Where there is None, there is nothing else.",
    ("bounding.validation", "", "0.0001", "0.0002"): "What counts as rounding at the ball's rim.",
    ("basics.whole_files", "sha256_of", "2 ** 20", "2 * 20"): "Bytes that are read at once.",
    ("relu.reach", "reach", "low > 0", "low >= 0"): _TIE,
    ("relu.adjoint", "largest", "coefficients[:, columns] * compact.s[columns]", ""): _SIGN,
    ("exact_path.flips", "flips", "change * torch.where(layer.on, -1.0, 1.0).double()", ""): _SIGN,
    ("exact_path.norm", "_Multipliers.parts", "terms.abs()", "terms"): (
        "Squares and products of what is not negative: none of these terms is."
    ),
    ("exact_path.pieces", "pieces", "_GRID + 1", ""): (
        "Into how many cells a path is cut beside its kinks: boxes hold over any of them."
    ),
    ("relu.reach", "_substituted", "taken * compact.s[columns]", ""): _SIGN,
    ("relu.sweep", "_reach_of_all", "columns * s", ""): _SIGN,
    ("relu.sweep", "_reach_of_all", "tangent.T * s.unsqueeze(1)", ""): _SIGN,
    ("relu.compact", "Compact.switched", "self.matrix[:, neuron] * s", ""): _SIGN,
    ("certified.deviation", "", "abs(weight)", "weight"): _POSITIVE,
    ("relu.deviation", "", "abs(weight)", "weight"): _POSITIVE,
    ("certified.taylor_along", "", "abs(at.weight)", "at.weight"): _POSITIVE,
    ("certified.taylor_along", "", "abs(share)", "share"): _POSITIVE,
    ("relu.deviation", "Moving._climbed", "", ""): _SEARCH,
    ("relu.deviation", "_starts", "", ""): _SEARCH,
    ("relu.tree", "Tree._try", "", ""): _SEARCH,
    ("relu.reach", "", "1e-300", "2e-300"): _GUARD,
    ("relu.region", "", "1e-300", "2e-300"): _GUARD,
    ("relu.sweep", "_empty", "0", "1"): _EMPTY,
    ("relu.sweep", "_backward", "0", "1"): _EMPTY,
    ("relu.node", "_none", "0", "1"): _EMPTY,
    ("relu.sweep", "sweep", "2", "4"): _EFFORT,
    ("relu.sweep", "sweep", "value + noise[0]", ""): _EFFORT,
    ("relu.reach", "_substituted", "chords.most > 0", "chords.most >= 0"): _SHORT,
    ("relu.cut", "_dual", "y + 0.002 * y.mean()", ""): _SEARCH,
    ("relu.cut", "_dual", "", "len(rows) <= rows.shape[1]"): (
        "Both matrices have the same largest eigenvalue."
    ),
    ("relu.deviation", "Moving.along_path", "0", "1"): "One byte of a limit of memory.",
    ("certified.expansion", "_assemble", "2", "4"): _WIDER,
    ("relu.reach", "upper", "reach_of > 0", "reach_of <= 0"): (
        "A row always has zeros, for its own layer: a way that is saved is then not saved."
    ),
    ("relu.lagrangian", "_proved", "nu > 0", "nu >= 0"): (
        "Divided by zero nothing is finite, and nothing is proved either way."
    ),
    ("relu.sweep", "_layer", "above.value >= 0", "above.value > 0"): _TIE,
    ("relu.sweep", "_layer", "value >= 0", "value > 0"): _TIE,
    ("relu.adjoint", "", "1e-300", "2e-300"): _GUARD,
    ("relu.adjoint", "largest", "high > 0", "high >= 0"): _SAME,
    ("relu.adjoint", "largest", "low < 0", "low <= 0"): _SAME,
    ("relu.reach", "extended", "low >= 0", "low > 0"): _SAME,
    ("relu.reach", "_substituted", "", "taken >= 0"): _SHORT,
    ("relu.reach", "upper", "", "reach_of >= 0"): _SHORT,
    ("relu.reach", "upper", "", "by_chords.value <= by_box.value"): _TIE,
    ("relu.cut", "_dual", "", "len(rows) >= rows.shape[1]"): (
        "Of a square matrix and its transpose both products have the same eigenvalues."
    ),
    ("relu.deviation", "flips", "max(margins) > 0.01", "max(margins) >= 0.01"): _TIE,
    ("certified.expansion", "", "slope.abs()", "slope"): _RISING,
    ("certified.remainder", "", "slope.abs()", "slope"): _RISING,
    ("certified.taylor", "", "layer.slope.abs()", "layer.slope"): _RISING,
    ("certified.deviation", "first_and_second_order", "1000000.0", ""): _SEARCH,
    ("certified.deviation", "_moving_factor", "up(epsilon * norms + mean.component)", ""): _COVERED,
    ("certified.curvature", "curvature", "64", "128"): _WIDER,
    ("certified.taylor_along", "SmoothDirections.__call__", "up(rest)", "rest"): _COVERED,
    ("certified.expanding", "", "0", "1"): (
        "Whether layers of a single neuron count as wide: both enclosures hold."
    ),
    ("relu.deviation", "Moving.branched", "", "value < EXACT * tree.attained"): _TIE,
    ("certified.certify", "unrolled_network", "2", "4"): (
        "At more points of the ball the network that runs is compared with the unrolled one."
    ),
}


def reason_of(row: dict[str, Any]) -> str:
    """Why a survivor is equivalent; empty if that is not known."""
    name, before, after = row["module"], row["before"], row["after"]
    for (module, function, old, new), reason in REASONS.items():
        if not name.endswith(module) or old not in ("", before) or new not in ("", after):
            continue
        mutant = _by_key(row["room"]).get(row["key"])
        if not function or (mutant is not None and function == mutant.within):
            return reason
    return ""


@functools.cache
def _by_key(room: str) -> dict[str, Mutant]:
    return {each.key: each for each in mutants(room)}


if __name__ == "__main__":
    main()
