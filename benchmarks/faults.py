"""``make faults``: what is lost when processes are killed and machines fail? Rows and weights.

A trial is a run of its own to which something happens, once or several times. It is resumed until
it is finished and compared with an undisturbed run of the same settings. What was tried is stored
in ``faults.csv``: killed, the command goes on where it was. ``--only disk`` takes the faults with
that word in their names.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path

from faulty import (
    Trial,
    below,
    in_a_copy,
    refuse_left,
    rows_of,
    same_but_rounded,
    undisturbed,
    warm_up,
    whose,
)

STORED = Path(__file__).with_suffix(".csv")
_NEW_MOUNTS = 0x20000  # CLONE_NEWNS
#: Disturbs a run and finishes it; says how many times.
Fault = Callable[[Trial], int]
Words = Callable[[Trial], list[str]]


def killed(trial: Trial, words: Words, times: int, longest: float | None = None) -> int:
    """``kill -9`` for the process itself, resumed and killed again; what it leaves must end.

    At the most ``longest`` seconds after something was stored: as a rule a fiftieth of what an
    undisturbed run takes, so that it is killed many times before it is finished.
    """
    done, first = 0, trial.seconds / 2 if longest is None else 10 * longest
    longest = trial.seconds / 50 if longest is None else longest
    for number in range(times):
        process = trial.start(words(trial))
        if number == 0:  # before anything is stored
            time.sleep(trial.dice.uniform(0, first))
        else:
            trial.moment(process, longest)
        others = [child for child, _, _ in below(process)]
        os.kill(process, signal.SIGKILL)
        done += trial.end(process) == -signal.SIGKILL
        refuse_left(others)
    trial.finish(words(trial))
    return done


def killed_below(trial: Trial, role: str, times: int, words: Words) -> int:
    """``kill -9`` for processes that a run started; it goes on by itself, or is resumed."""
    done, process = 0, trial.start(words(trial))
    for _ in range(times):
        if not trial.moment(process, 0.5):
            break
        if found := whose(process, role):
            os.kill(trial.dice.choice(found), signal.SIGKILL)
            done += 1
    trial.end(process)
    trial.finish(words(trial))
    return done


def stopped(trial: Trial, words: Words, seconds: float) -> int:
    """SIGTERM: over within seconds, and resumed."""
    process = trial.start(words(trial))
    trial.moment(process, 0.3)
    others = [child for child, _, _ in below(process)]
    os.kill(process, signal.SIGTERM)
    since = time.monotonic()
    trial.end(process)
    refuse_left(others)
    if time.monotonic() - since > seconds:
        raise RuntimeError(f"SIGTERM took {time.monotonic() - since:.0f} s")
    trial.finish(words(trial))
    return 1


def at_a_sample(trial: Trial, fault: str, *more: str, once: bool = True) -> int:
    """The network itself fails at one sample, once or always."""
    trial.finish(trial.audit(*more, fault=fault, once=once))
    return 1


def two_writers(trial: Trial, words: Words) -> int:
    """Two commands for one folder: one is refused in one line."""
    both = [trial.start(words(trial)) for _ in range(2)]
    codes = sorted(trial.end(process) for process in both)
    if codes != [0, 2]:
        raise RuntimeError(f"two writers ended with {codes}: {trial.log()}")
    return 1


def deleted(trial: Trial, words: Words) -> int:
    """The folder goes while it is written: said in one line, and begun anew."""
    process = trial.start(words(trial))
    trial.moment(process, 0.3)
    while trial.out.exists():
        shutil.rmtree(trial.out, ignore_errors=True)
    if trial.end(process) not in (0, 2, 4) or "Traceback" in trial.log():
        raise RuntimeError(f"a deleted folder ended with {trial.codes[-1]}: {trial.log()}")
    trial.finish(words(trial))
    return 1


def _mounted(folder: Path, size: str) -> None:
    """A small disk at ``folder`` that only this process and its children see."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS):
        raise PermissionError("mounts of one's own need root")
    run = partial(subprocess.run, check=True, capture_output=True)
    run(["mount", "--make-rprivate", "/"])
    run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)])


def full_disk(trial: Trial, words: Words, size: str, code: int) -> int:
    """The disk is full: said in one line; with more room it goes on."""
    trial.out.mkdir()
    _mounted(trial.out, size)
    if (ended := trial.end(trial.start(words(trial)))) != code or "Traceback" in trial.log():
        raise RuntimeError(f"a full disk ended with {ended}: {trial.log()}")
    more = ["mount", "-o", "remount,size=64m", str(trial.out)]
    subprocess.run(more, check=True, capture_output=True)
    trial.finish(words(trial))
    return 1


def small_shm(trial: Trial, words: Words, size: str) -> int:
    """``/dev/shm`` as small as in a container, or smaller."""
    _mounted(Path("/dev/shm"), size)
    trial.finish(words(trial))
    return 1


@dataclass
class Tried:
    """What came of all trials of one fault.

    Attributes:
        fault: what happened.
        to: to which kind of run.
        runs: trials.
        times: how often it happened in them.
        rows: that undisturbed runs have: samples and maps, or tensors and lines of the log.
        lost: rows that are missing in the end.
        differ: rows that are there, but are not the same.
        rounded: rows that are the same but for the last digits; all others are bit for bit.
        failed: rows that say why their sample could not be measured.
        broken: trials that ended otherwise than they must (another exit code, processes left
            behind, rows twice); they count as runs, and in no other column.
        commits: of which they are.
    """

    fault: str
    to: str
    runs: int = 0
    times: int = 0
    rows: int = 0
    lost: int = 0
    differ: int = 0
    rounded: int = 0
    failed: int = 0
    broken: int = 0
    commits: str = ""

    @property
    def kind(self) -> str:
        """Audit or training."""
        return self.to.split(",")[0].split(" ")[0]

    def at(self, commit: str) -> Tried:
        """With one commit more, if it is another."""
        known = self.commits.split()
        return self if commit in known else replace(self, commits=" ".join([*known, commit]))


def _alone(trial: Trial) -> list[str]:
    return trial.audit("--workers=1")


def _ray(trial: Trial) -> list[str]:
    return trial.audit("--engine=ray")


ONE, TWO, RAY, TRAINING = "audit, 1 worker", "audit, 2 workers", "audit with Ray", "training"
#: What happens, to which kind of run, in how many trials, and how.
FAULTS: list[tuple[str, str, int, Fault]] = [
    ("kill -9: the process", ONE, 5, lambda t: killed(t, _alone, 6)),
    ("kill -9: the process", TWO, 4, lambda t: killed(t, Trial.audit, 4, 0.5)),
    ("kill -9: a worker", TWO, 4, lambda t: killed_below(t, "worker", 4, Trial.audit)),
    ("kill -9: the forkserver", TWO, 3, lambda t: killed_below(t, "server", 2, Trial.audit)),
    ("kill -9: the process", TRAINING, 6, lambda t: killed(t, Trial.train, 6)),
    ("SIGTERM", TWO, 2, lambda t: stopped(t, Trial.audit, 10)),
    ("SIGTERM", TRAINING, 3, lambda t: stopped(t, Trial.train, 10)),
    ("full disk", TWO, 2, lambda t: full_disk(t, Trial.audit, "200k", 4)),
    ("full disk", TRAINING, 3, lambda t: full_disk(t, Trial.train, "60k", 2)),
    ("/dev/shm of 64 KiB", TWO, 2, lambda t: small_shm(t, Trial.audit, "64k")),
    ("a sample hangs, once", TWO, 1, lambda t: at_a_sample(t, "hang", "--patience=20")),
    ("a sample crashes (SIGSEGV), once", TWO, 2, lambda t: at_a_sample(t, "segfault")),
    ("a sample crashes, always", TWO, 1, lambda t: at_a_sample(t, "segfault", once=False)),
    ("out of memory at a sample, once", TWO, 1, lambda t: at_a_sample(t, "memory")),
    ("out of memory, always", TWO, 1, lambda t: at_a_sample(t, "memory", once=False)),
    ("clocks jump", TWO, 2, lambda t: at_a_sample(t, "clock")),
    ("folder deleted", TWO, 2, lambda t: deleted(t, Trial.audit)),
    ("folder deleted", TRAINING, 3, lambda t: deleted(t, Trial.train)),
    ("two writers", TWO, 2, lambda t: two_writers(t, Trial.audit)),
    ("two writers", TRAINING, 3, lambda t: two_writers(t, Trial.train)),
    ("kill -9: an actor", RAY, 2, lambda t: killed_below(t, "actor", 2, _ray)),
    ("kill -9: the driver", RAY, 2, lambda t: killed(t, _ray, 2, 0.5)),
    ("kill -9: the raylet", RAY, 1, lambda t: killed_below(t, "raylet", 1, _ray)),
    ("/dev/shm of 64 MiB", RAY, 1, lambda t: small_shm(t, _ray, "64m")),
]


def tried(folder: Path, found: Tried, fault: Fault, seconds: float) -> None:
    """One trial more, in this process; added to what was found before."""
    own = Path(tempfile.mkdtemp(dir=folder))
    trial = Trial(own, random.Random(f"{found.fault}, {found.to}, {found.runs}"), seconds)
    try:
        found.times += fault(trial)
    finally:
        for child, _, _ in below(os.getpid()):
            os.kill(child, signal.SIGKILL)
    expected, rows = rows_of(folder / found.kind), rows_of(trial.out)
    failed = {key for key, row in rows.items() if isinstance(row, dict) and row.get("error")}
    found.failed += len(failed)
    found.rows, found.runs = found.rows + len(expected), found.runs + 1
    for key in expected.keys() - failed - {("map", *key) for key in failed}:
        found.lost += key not in rows
        if key in rows and rows[key] != expected[key]:
            close = same_but_rounded(rows[key], expected[key])
            found.rounded, found.differ = found.rounded + close, found.differ + (not close)
    # Nobody asked for others; but of each half of a batch other maps are the ones worth keeping.
    found.differ += sum(not (failed and key[0] == "map") for key in rows.keys() - expected.keys())
    shutil.rmtree(own, ignore_errors=True)
    keep(found)
    print(f"{time.strftime('%H:%M:%S')} {found}", file=sys.stderr, flush=True)


def read() -> list[Tried]:
    """What is stored."""
    if not STORED.exists():
        return []
    with STORED.open(newline="") as file:
        lines = [*csv.DictReader(file)]
    names = [(line.pop("fault"), line.pop("to")) for line in lines]
    texts = [line.pop("commits") for line in lines]
    numbers = [{name: int(value) for name, value in line.items()} for line in lines]
    every = zip(names, numbers, texts, strict=True)
    return [Tried(*name, **values, commits=commits) for name, values, commits in every]


def one(every: list[Tried], fault: str, to: str) -> Tried:
    """What is known of a fault."""
    known = [each for each in every if (each.fault, each.to) == (fault, to)]
    return known[0] if known else Tried(fault, to)


def keep(found: Tried) -> None:
    """Store it in place of what was known of the fault, whole or not at all."""
    others = [each for each in read() if (each.fault, each.to) != (found.fault, found.to)]
    new = STORED.with_suffix(".new")
    with new.open("w", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Tried)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, [*others, found]))
    new.replace(STORED)


def table(every: list[Tried]) -> str:
    """For people: a line for each fault, and one for all."""
    heads = [each.name for each in fields(Tried)]
    sums = [sum(getattr(each, name) for each in every) for name in heads[2:-1]]
    lines = [heads, *(list(asdict(each).values()) for each in every), ["all", "", *sums, ""]]
    return "\n".join(f"{a:34} {b:17}{''.join(f'{c:>9}' for c in rest)}" for a, b, *rest in lines)


def _commit() -> str:
    """Of this repository, and whether what is tried or tries was changed since."""
    git, tried_on = partial(subprocess.run, cwd=STORED.parents[1]), ("src", "benchmarks/*.py")
    named = git(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True)
    changed = git(["git", "diff", "--quiet", "HEAD", "--", *tried_on], check=False).returncode
    return named.stdout.strip() + ("+changes" if changed else "")


def main() -> None:
    """Try what was not tried yet; print the table; fail if something was lost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="faults and runs with this in their names")
    options = parser.parse_args()
    warm_up()
    commit = _commit()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        took = {}
        for kind, words in (("audit", _alone), ("training", Trial.train)):
            begun = time.monotonic()
            if not in_a_copy(partial(undisturbed, folder, kind, words)):
                sys.exit(f"an undisturbed {kind} failed")
            took[kind] = time.monotonic() - begun
        for fault, to, runs, how in FAULTS:
            wanted = options.only in f"{fault}, {to}"
            while wanted and (found := one(read(), fault, to).at(commit)).runs < runs:
                if not in_a_copy(partial(tried, folder, found, how, took[found.kind])):
                    keep(replace(found, runs=found.runs + 1, broken=found.broken + 1))
    every = read()
    print(table(every))
    sys.exit(any(each.lost + each.differ + each.broken for each in every))


if __name__ == "__main__":
    main()
