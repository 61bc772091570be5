"""``attribound paper``: the paper's tables and figures from runs, and the runs where missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from attribound.auditing.engines import LocalEngine
from attribound.basics.errors import InputError
from reproduction.paper.plan import SHIPPED, Plan
from reproduction.paper.registry import ITEMS, Item
from reproduction.paper.runs import Runs

ALL = "all"


def paper(  # noqa: PLR0913, PLR0917 - options of a command
    names: Annotated[
        list[str] | None, typer.Argument(help="What to make, e.g. table3 figure4; or all.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Print what can be made.")] = False,
    samples: Annotated[
        int | None, typer.Option(min=1, help="At most so many samples in each run.")
    ] = None,
    runs: Annotated[
        Path, typer.Option(help="Folder of the runs; those that are there are used.")
    ] = Path("runs/paper"),
    out: Annotated[Path, typer.Option(help="Folder for tables and figures.")] = Path("paper"),
    plan: Annotated[Path, typer.Option(help="What is run, in TOML.")] = SHIPPED,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    only_stored: Annotated[
        bool, typer.Option("--only-stored", help="Run nothing: use the runs that are there.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Make tables and figures of the paper with our numbers beside its own.

    Runs that are missing are made first, hours for all of them; killed at any
    moment, the same command goes on. A model that is not there leaves a gap with its reason.
    """
    if listed:
        for item in ITEMS.values():
            typer.echo(f"{item.name:<12} {item.title}")
        return
    items = _chosen(names)
    found = Runs(Plan.read(plan), runs, samples)

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    if not only_stored:
        engine = LocalEngine(jobs) if jobs > 1 else None
        needs = [spec for item in items for spec in item.needs]
        console = Console(stderr=True)
        found.complete(needs, engine, say, console if console.is_terminal and not quiet else False)
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
            remedy="attribound paper --list says what each is",
        )
    return [ITEMS[name] for name in wanted]
