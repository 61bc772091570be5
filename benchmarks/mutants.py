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
import os
import random
import re
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mutating import ROOT, Loader, Mutant, of_source

RESULTS = ROOT / "benchmarks" / "results" / "mutants.parquet"
SECONDS = 300  # of the CPU; tests that take longer than that have seen something
KILLED, TIMED_OUT, SURVIVED = "killed", "timed out", "survived"


@dataclass(frozen=True)
class Room:
    """Modules under ``src/attribound`` and the tests that concern them, the quickest first."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


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
        ),
    ),
    "certified-relu": Room(("bounding/certified/relu/*.py",), ("bounding/certified/relu",)),
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


#: Modules whose own tests have another name.
_OWN = {
    "krylov": ("golub_kahan", "lanczos", "basis", "upper_estimate"),
    "norms": ("homogenised", "mixing", "surrogate", "rounding"),
    "norm_bounds": ("l2_norm", "largest_column", "norm_relaxation", "entrywise_sum"),
    "around": ("label_constraint", "adjusted", "remainder", "dense_limit"),
    "files": ("whole_files",),
    "attack": ("judging",),
    "expansion": ("remainder", "deviation", "taylor", "composites"),
}


def own_tests(room: str, module: str) -> list[str]:
    """The files of a room's tests that are named after a module: they see most, and quickly."""
    stem = module.rpartition(".")[2]
    names = {f"test_{stem}.py", *(f"test_{name}.py" for name, of in _OWN.items() if stem in of)}
    places = [ROOT / "tests" / each for each in ROOMS[room].tests]
    files = [file for place in places for file in (place, *sorted(place.glob("test_*.py")))]
    return [str(file.relative_to(ROOT)) for file in files if file.name in names]


def run(mutant: Mutant | None, room: str) -> tuple[str, float]:
    """Run the tests of a room on a mutant, in a child: what became of it, and CPU-seconds."""
    child = os.fork()
    if child == 0:
        _tested(mutant, room)
    _, status, used = os.wait4(child, 0)
    seconds = used.ru_utime + used.ru_stime
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGTERM, signal.SIGINT):
        raise SystemExit("stopped")  # by someone, who stopped the child, too
    if os.WIFSIGNALED(status):
        return (TIMED_OUT if os.WTERMSIG(status) == signal.SIGXCPU else KILLED), seconds
    return (SURVIVED if os.WEXITSTATUS(status) == 0 else KILLED), seconds


def _tested(mutant: Mutant | None, room: str) -> None:
    import resource  # noqa: PLC0415

    import pytest  # noqa: PLC0415

    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
        out = os.open(
            os.environ.get("MUTANTS_LOG", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        )
        for stream in (1, 2):
            os.dup2(out, stream)
        for name in [name for name in sys.modules if name.startswith("attribound")]:
            del sys.modules[name]  # of whoever called, unchanged
        if mutant is not None:
            sys.meta_path.insert(0, Loader(mutant))
        os.chdir(ROOT)
        tests = [f"tests/{each}" for each in ROOMS[room].tests]
        options = ["-x", "-q", "--no-header", "-m", "not slow", "-p", "no:cacheprovider"]
        own = [] if mutant is None else own_tests(room, mutant.module)
        for some in filter(None, (own, tests)):
            code = int(pytest.main([*options, "--hypothesis-seed=0", *some]))
            if code:
                break
    except BaseException:  # whatever it is, the child ends here
        traceback.print_exc()
    finally:
        os._exit(code)


_COLUMNS = ("key", "room", "module", "line", "kind", "before", "after", "outcome", "seconds")


def stored() -> dict[str, dict[str, Any]]:
    """What is in the table, by key."""
    if not RESULTS.exists():
        return {}
    return {row["key"]: row for row in pq.read_table(RESULTS).to_pylist()}


def store(rows: dict[str, dict[str, Any]]) -> None:
    """The table, there whole or not at all."""
    order = sorted(rows.values(), key=lambda row: (row["room"], row["module"], row["line"]))
    columns = {name: [row[name] for row in order] for name in _COLUMNS}
    beside = RESULTS.with_suffix(".tmp")
    pq.write_table(pa.table(columns), beside)
    beside.replace(RESULTS)


def main() -> None:
    """Run what is asked for and not there yet, then print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--set", action="append", default=[], help="ROOM=MUTANTS, at most so many")
    parser.add_argument("--again", action="store_true", help="try those that survived once more")
    parser.add_argument("--only", default="", help="those whose module and change match this")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    limits = dict.fromkeys(ROOMS, 10**9)
    if options.set:
        limits = {name: int(count) for name, count in (each.split("=") for each in options.set)}
    if not options.report:
        # Imported once, for all children; nothing of attribound, which they import changed.
        for name in ("torch", "torch.fx", "scipy.stats", "pytest", "pyarrow", "rich"):
            __import__(name)
        for room, limit in limits.items():
            _run_room(room, limit, options)
    print(table())


def _run_room(room: str, limit: int, options: argparse.Namespace) -> None:
    every = [each for each in mutants(room) if re.search(options.only, each.title)]
    order = random.Random(0).sample(every, len(every))  # the same for all limits
    rows = stored()
    wanted = [each for each in order[:limit] if each.key not in rows]
    if options.again:
        wanted = [each for each in every if rows.get(each.key, {}).get("outcome") == SURVIVED]
    if not wanted:
        return
    clean, seconds = run(None, room)
    print(f"{room}: {len(every)} mutants; the tests without one take {seconds:.0f} s", flush=True)
    if clean != SURVIVED:
        raise SystemExit(f"the tests of {room} fail without a mutant")
    for each in wanted:
        begun = time.perf_counter()
        outcome, seconds = run(each, room)
        row = {name: getattr(each, name) for name in _COLUMNS[:7]}
        rows = stored() | {each.key: {**row, "outcome": outcome, "seconds": seconds}}
        store(rows)
        print(f"{outcome:9} {time.perf_counter() - begun:5.0f} s  {each.title}", flush=True)


def table() -> str:
    """Of each room how many were tried and killed; then the survivors, with the reason."""
    rows = [*stored().values()]
    names = ("mutants", "tried", "killed", "equivalent", "killed of the rest")
    lines = [f"{'room':16} " + " ".join(f"{name:>10}" for name in names)]
    survivors = [row for row in rows if row["outcome"] == SURVIVED]
    for room in [*ROOMS, "all"]:
        own = [row for row in rows if room in (row["room"], "all")]
        known = sum(len(mutants(each)) for each in ROOMS if room in (each, "all"))
        left = [row for row in own if row["outcome"] == SURVIVED]
        same = sum(reason_of(row) != "" for row in left)
        if own:
            share = (len(own) - len(left)) / max(1, len(own) - same)
            counts = (known, len(own), len(own) - len(left), same)
            lines.append(f"{room:16} " + " ".join(f"{n:10}" for n in counts) + f"{share:19.1%}")
    lines += ["", "Survivors:"]
    for row in sorted(survivors, key=lambda row: (row["module"], row["line"])):
        where = f"{row['module'].removeprefix('attribound.')}:{row['line']}"
        lines.append(f"- {where}: {row['before']}  ->  {row['after']}")
        lines.append(f"  {reason_of(row) or 'not killed'}")
    return "\n".join(lines)


#: Why a survivor computes nothing wrong: (end of the module, before, after), "" for any.
REASONS: dict[tuple[str, str, str], str] = {
    ("spectral.lanczos", "1", "2"): "Room for one vector more than are ever kept.",
    ("spectral.mixing", "(1 + _TOLERANCE) * primal", ""): "When it stops: an upper value holds for "
    "any weights.",
}


def reason_of(row: dict[str, Any]) -> str:
    """Why a survivor is equivalent; empty if that is not known."""
    name, before, after = row["module"], row["before"], row["after"]
    for (module, old, new), reason in REASONS.items():
        if name.endswith(module) and old in ("", before) and new in ("", after):
            return reason
    return ""


if __name__ == "__main__":
    main()
