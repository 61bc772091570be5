"""``attribound compare``: runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from attribound.auditing import Run
from attribound.report import compare as compare_runs

_WIDE = 160  # a file or a pipe has no width to fit


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of two or more runs.")],
    as_json: Annotated[bool, typer.Option("--json", help="Differences as JSON.")] = False,
) -> None:
    """Compare the first run with each of the others: differences with 95 % intervals.

    A star marks intervals that leave out zero. Runs on the same samples are paired.
    """
    found = compare_runs([Run.open(path) for path in runs])
    if as_json:
        typer.echo(json.dumps(found.records(), indent=2, allow_nan=False))
        return
    terminal = Console()
    if not terminal.is_terminal:
        terminal = Console(width=_WIDE)
    terminal.print(found.table())
    typer.echo(f"first: {found.first}")
    for name in found.others:
        typer.echo(f"other: {name}")
    for note in found.notes:
        typer.echo(note)
