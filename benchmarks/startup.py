"""``make bench``: what it costs to start, in CPU time of new processes, and as ratios to torch.

Everything is started once in every round, one after the other, so that a slow minute of the
machine is slow for all; figures are medians. Files are in the system's cache and compiled.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from statistics import median

from attribound.basics.tables import render

ROUNDS = 9
COMMAND = "import sys; from attribound.cli import main; sys.argv = ['attribound', {}]; main()"
FIRST_BOUND = "from attribound import IntegratedGradients, L2Ball, bound"
EVERYTHING = "import attribound; [getattr(attribound, name) for name in attribound.__all__]"

#: What is run, and the most CPU-seconds it may take, if that is a goal.
RUNS = {
    "python": ("pass", None),
    "import torch": ("import torch", None),
    "import attribound": ("import attribound", None),
    FIRST_BOUND: (FIRST_BOUND, None),
    "every public name of attribound": (EVERYTHING, None),
    "attribound --version": (COMMAND.format("'--version'"), 0.3),
    "attribound --help": (COMMAND.format("'--help'"), None),
    "attribound audit --help": (COMMAND.format("'audit', '--help'"), None),
    "attribound audit --nonsense": (COMMAND.format("'audit', '--nonsense'"), None),
}
#: Of ratios to ``import torch``.
LIMIT = 1.3


def cpu_seconds(code: str) -> float:
    """User and system time of a new process that runs ``code``; how it ends doesn't matter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Compiled files are kept, as they are for users.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Start all of them in turns, and print the medians."""
    for code, _ in RUNS.values():  # compiles, and fills the cache of the system
        cpu_seconds(code)
    rounds = [{name: cpu_seconds(code) for name, (code, _) in RUNS.items()} for _ in range(ROUNDS)]
    lines = []
    for name, (_, most) in RUNS.items():
        ratio = median(each[name] / each["import torch"] for each in rounds)
        limited = name in ("import attribound", FIRST_BOUND)
        goal = f"<= {most} s" if most else f"<= {LIMIT} x" if limited else ""
        lines.append((name, median(each[name] for each in rounds), ratio, goal))
    heads = ("started", "CPU-seconds", "/ import torch", "goal")
    print(render(f"Medians of {ROUNDS} interleaved rounds", heads, lines))


if __name__ == "__main__":
    main()
