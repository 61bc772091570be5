"""``attribound report``: the page of a run, its table, its files for other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from attribound.auditing import Run, summarise
from attribound.basics.errors import InputError
from attribound.report import console, export, figures, write_html

#: Formats by the ending of a file.
ENDINGS = {".csv": "csv", ".parquet": "parquet", ".json": "json", ".tex": "latex"}
_WIDE = 160  # a file or a pipe has no width to fit

Folder = Annotated[Path, typer.Argument(help="Folder of a run, finished or not.")]


def report(
    run: Folder,
    out: Annotated[
        Path | None, typer.Option(help="Where the page goes; default: report.html in the run.")
    ] = None,
    exports: Annotated[
        list[Path] | None,
        typer.Option(
            "--export",
            help="Also a file: .parquet, .json (rows), .csv (samples; bounds and attacks beside "
            "it) or .tex (table).",
        ),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option("--figures", help="Also a folder of figures, PNG and PDF.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Only print the summary, as JSON; write no page.")
    ] = False,
) -> None:
    """Print the table of a run and write its page."""
    unknown = [path for path in exports or () if path.suffix not in ENDINGS]
    if unknown:
        raise InputError(
            "--export",
            expected=f"a file that ends in {', '.join(ENDINGS)}",
            got=str(unknown[0]),
            remedy="choose one",
        )
    found = Run.open(run)
    if as_json:
        records = [summary.record() for summary in summarise(found.rows())]
        typer.echo(json.dumps(records, indent=2, allow_nan=False))
    else:
        terminal = Console()
        if not terminal.is_terminal:
            terminal = Console(width=_WIDE)
        terminal.print(console(found))
        typer.echo(f"page: {write_html(found, out)}")
    for path in exports or ():
        for written in export(found, ENDINGS[path.suffix], path):
            typer.echo(f"file: {written}", err=as_json)
    if plots is not None:
        drawn = figures(found, plots)
        typer.echo(f"figures: {len(drawn)} in {plots}", err=as_json)
