"""``attribound compare``: runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attribound.basics.later import Later
from attribound.basics.terminal import printable, terminal

if TYPE_CHECKING:
    from attribound import auditing, report
else:
    auditing, report = map(Later, ("attribound.auditing", "attribound.report"))

_WIDE = 160  # a file or a pipe has no width to fit


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of two or more runs.")],
    as_json: Annotated[bool, typer.Option("--json", help="Differences as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Also a page: what differs, and samples side by side.")
    ] = None,
) -> None:
    """Compare the first run with each of the others: differences with 95 % intervals.

    A star marks intervals that leave out zero. Runs on the same samples are paired.
    """
    opened = [auditing.Run.open(path) for path in runs]
    found = report.compare(opened)
    written = None if html is None else report.write_comparison(opened, html)
    if as_json:
        typer.echo(json.dumps(found.records(), indent=2, allow_nan=False))
        return
    terminal(wide=_WIDE).print(found.table())
    typer.echo(printable(f"first: {found.first}"))
    for name in found.others:
        typer.echo(printable(f"other: {name}"))
    typer.echo("*: the 95 % interval leaves out zero")
    for name, meaning in found.legend.items():
        typer.echo(printable(f"{name}: {meaning}"))
    for note in found.notes:
        typer.echo(printable(note))
    if written is not None:
        typer.echo(printable(f"page: {written}"))
