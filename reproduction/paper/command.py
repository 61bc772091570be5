"""``python -m reproduction.paper``: tables and figures from what is stored, or measured first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from attribound import AttriboundError, InputError
from reproduction.paper.plan import SHIPPED, Plan
from reproduction.paper.registry import ITEMS, Item
from reproduction.paper.runs import Runs

ALL = "all"
_HERE = Path(__file__).parent
#: What was measured, and what is made of it.
STORED, RESULTS = _HERE / "stored", _HERE / "results"


def paper(  # noqa: PLR0913, PLR0917 - options of a command
    names: Annotated[
        list[str] | None, typer.Argument(help="What to make, e.g. table3 figure4; or all.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Print what can be made.")] = False,
    samples: Annotated[
        int | None, typer.Option(min=1, help="At most so many samples of each kind.")
    ] = None,
    stored: Annotated[
        Path, typer.Option(help="Folder of what was measured; what is there is used.")
    ] = STORED,
    out: Annotated[Path, typer.Option(help="Folder for tables and figures.")] = RESULTS,
    plan: Annotated[Path, typer.Option(help="What is run, in TOML.")] = SHIPPED,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    only_stored: Annotated[
        bool, typer.Option("--only-stored", help="Measure nothing: use what is stored.")
    ] = False,
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", help="Measure this kind of the plan; repeat it.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="Measure this data of the plan; repeat it.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Make tables and figures of the paper with our numbers beside its own.

    What is missing is measured first, hours for all of it; killed at any moment, the same
    command goes on. A model that is not there leaves a gap with its reason.
    """
    if listed:
        for item in ITEMS.values():
            typer.echo(f"{item.name:<12} {item.title}")
        return
    items = _chosen(names)
    found = Runs(Plan.read(plan), stored, samples, measuring=not only_stored)

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    if not only_stored:
        of = _known("data", data, found.plan.data)
        needs = [spec for item in items for spec in item.needs if of is None or spec.data in of]
        found.complete(needs, jobs, say, _known("kind", kinds, found.plan.kinds))
    for item in items:
        for path in item.make(found, out):
            if not quiet:
                typer.echo(path)


def _chosen(names: list[str] | None) -> list[Item]:
    wanted = list(ITEMS) if names == [ALL] else list(dict.fromkeys(names or ()))
    unknown = [name for name in wanted if name not in ITEMS]
    if unknown or not wanted:
        raise InputError(
            "names",
            expected=f"{ALL}, or of {', '.join(ITEMS)}",
            got=json.dumps(unknown[0]) if unknown else "none",
            remedy="--list says what each is",
        )
    return [ITEMS[name] for name in wanted]


def _known(what: str, names: list[str] | None, there: Iterable[str]) -> list[str] | None:
    known = [*there]
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise InputError(
            what,
            expected=f"of {', '.join(known)}",
            got=json.dumps(unknown[0]),
            remedy="the plan says what each is",
        )
    return names or None


def main() -> None:
    """Run it; what is unusable is said in one line."""
    app = typer.Typer(pretty_exceptions_show_locals=False)
    app.command()(paper)
    try:
        app(prog_name="python -m reproduction.paper")
    except (AttriboundError, OSError) as error:
        typer.echo(f"reproduction: {error}", err=True)
        raise SystemExit(2) from error
