"""``make docs``: fill the generated parts of README and docs.

Parts stand between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` and are never edited by hand.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attribound as ab

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(ROOT),
    str(ROOT / "benchmarks"),
]  # the reproduction is in no package that could be installed

import mutants  # noqa: E402
from reproduction.paper.command import STORED  # noqa: E402
from reproduction.paper.figures.items import ITEMS as FIGURES  # noqa: E402
from reproduction.paper.pages import page_parts  # noqa: E402
from reproduction.paper.plan import Plan  # noqa: E402
from reproduction.paper.runs import Runs  # noqa: E402
from reproduction.zoo import sweep  # noqa: E402

ANEW = "These are being made anew: `make paper` fills this part."
#: Pages with measurements: part ``name`` is ``benchmarks/name.txt``.
MEASURED = {
    "benchmarks.md": (
        "core",
        "structured",
        "structured-avx2",
        "attacks",
        "audits",
        "training",
        "runner",
        "long",
        "startup",
        "scaling",
    ),
    "bounds.md": ("bounds", "deeper"),
    "network.md": ("network",),
    "relu.md": ("certificates",),
    "smoothed.md": ("smoothed",),
    "exact_ig.md": ("exact_ig",),
    "reasons.md": ("top5",),
    "credit.md": ("reasons",),
    "sources.md": ("fuzz",),
}


def python_blocks(text: str) -> list[str]:
    """The Python snippets of a Markdown page."""
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run(text: str) -> str:
    """What the snippets of a page print, run in order."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec("\n".join(python_blocks(text)), {"__name__": "page"})  # noqa: S102 - our own pages
    return out.getvalue().strip("\n")


def stories(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each section that has snippets, and what they print, lines without spaces at their ends.

    A story stands alone: it knows nothing of the names of another.
    """
    for section in text.split("\n## ")[1:]:
        told, names = [], {"__name__": "page"}
        for block in python_blocks(section):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(block, names)  # noqa: S102 - our own pages
            told.append("\n".join(map(str.rstrip, out.getvalue().strip("\n").splitlines())))
        yield section.partition("\n")[0], told


def demo() -> str:
    """What ``make demo`` prints, run in the current folder."""
    command = [sys.executable, str(ROOT / "examples" / "demo.py")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())


def claims() -> str:
    """The table of claims, as the code states them."""
    rows = [f"| *{claim}* | {claim.promise} |" for claim in ab.claims()]
    return "\n".join(["| claim | what the number promises |", "|---|---|", *rows])


def faults(stored: Path = ROOT / "benchmarks" / "faults.csv") -> str:
    """What faults cost, from the trials that are stored; totals below."""
    with stored.open(newline="") as file:
        heads, *lines = csv.reader(file)
    sums = [str(sum(int(line[column]) for line in lines)) for column in range(2, len(heads) - 1)]
    rule = ["---"] * 2 + ["---:"] * len(sums) + ["---"]
    table = [heads, rule, *lines, ["all", "", *sums, ""]]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def leaderboard() -> str:
    """The models of the zoo, from their cards."""
    return ab.zoo.markdown(ab.zoo.cards())


def sweeps() -> str:
    """The settings tried for models of the zoo."""
    return sweep.markdown(sweep.HERE / "sweeps")


#: The pages on the paper, and their parts.
PAPER = {
    "paper.md": ("verdicts", "closing", "first tables"),
    "paper_tables.md": ("tables",),
    "paper_figures.md": ("figures",),
}


PICTURES = ROOT / "docs" / "images" / "paper"


def paper(stored: Path = STORED) -> dict[str, str]:
    """The parts of the pages on the paper, from what is stored."""
    anew = dict.fromkeys((part for parts in PAPER.values() for part in parts), ANEW)
    return anew | page_parts(stored, PICTURES, "images/paper")


def draw() -> None:
    """The paper's figures, which measure the Jacobians that they show: a minute."""
    runs = Runs(Plan.read(), STORED)
    for item in FIGURES.values():
        item.make(runs, PICTURES)


def fill(text: str, name: str, content: str) -> str:
    """``text`` with the part ``name`` replaced."""
    pattern = rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)"
    filled, count = re.subn(pattern, lambda m: f"{m[1]}{content}\n{m[2]}", text, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"expected one part {name!r}, found {count}")
    return filled


def main() -> None:
    """Render every generated part."""
    if (beside := ROOT.parent / "shared" / "data").is_dir():  # as for the tests
        os.environ.setdefault("ATTRIBOUND_DATA", str(beside))
    readme = ROOT / "README.md"
    text = readme.read_text()
    text = fill(text, "example output", f"```text\n{run(text)}\n```")
    text = fill(text, "demo output", f"```text\n{demo()}\n```")
    readme.write_text(fill(text, "claims", claims()))
    for page, names in MEASURED.items():
        path = ROOT / "docs" / page
        for name in names:
            measured = (ROOT / "benchmarks" / f"{name}.txt").read_text().strip("\n")
            path.write_text(fill(path.read_text(), name, f"```text\n{measured}\n```"))
    page = ROOT / "docs" / "audit.md"
    page.write_text(fill(page.read_text(), "faults", faults()))
    page = ROOT / "docs" / "benchmarks.md"
    page.write_text(fill(page.read_text(), "mutants", mutants.markdown()))
    page = ROOT / "docs" / "stories.md"
    told = [printed for _, each in stories(page.read_text()) for printed in each]
    for number, printed in enumerate(told, 1):
        filled = fill(page.read_text(), f"story {number}", f"```text\n{printed}\n```")
        page.write_text(filled)
    page = ROOT / "docs" / "zoo.md"
    text = fill(page.read_text(), "leaderboard", leaderboard())
    page.write_text(fill(text, "sweeps", sweeps()))
    draw()
    made = paper()
    for name, parts in PAPER.items():
        page = ROOT / "docs" / name
        for part in parts:
            page.write_text(fill(page.read_text(), part, made[part]))


if __name__ == "__main__":
    main()
