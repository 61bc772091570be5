"""``attribound report``: the page of a run, its table, its files for other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attribound.basics.errors import InputError
from attribound.basics.later import Later
from attribound.basics.terminal import printable, terminal
from attribound.cli import texts

if TYPE_CHECKING:
    from attribound import auditing
    from attribound import report as reports
else:
    auditing, reports = map(Later, ("attribound.auditing", "attribound.report"))

#: Formats by the ending of a file.
ENDINGS = {".csv": "csv", ".parquet": "parquet", ".json": "json", ".tex": "latex"}
_WIDE = 160  # a file or a pipe has no width to fit

Folder = Annotated[Path, typer.Argument(help="Folder of a run, finished or not.")]


def report(  # noqa: PLR0913, PLR0917 - one option each
    run: Folder,
    out: Annotated[
        Path | None, typer.Option(help="Where the page goes; default: report.html in the run.")
    ] = None,
    exports: Annotated[
        list[Path] | None,
        typer.Option(
            "--export",
            help="Also a file: .parquet, .json (rows), .csv (samples; bounds, attacks and reasons "
            "beside it) or .tex (table).",
        ),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option("--figures", help="Also a folder of figures, PNG and PDF.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Of the .tex table, e.g. 'angle °,open,exceeded'; default: all."),
    ] = None,
    line: Annotated[
        bool, typer.Option("--line", help="Only print one line, for a log; write no page.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Only print the summary, as JSON; write no page.")
    ] = False,
    trust: texts.Trust = False,  # noqa: ARG001 - read before
) -> None:
    """Print the table of a run and write its page.

    Code that the run names is not imported, unless --trust is given: then the page has the
    settings of your own classes in short.
    """
    unknown = [path for path in exports or () if path.suffix not in ENDINGS]
    if unknown:
        raise InputError(
            "--export",
            expected=f"a file that ends in {', '.join(ENDINGS)}",
            got=str(unknown[0]),
            remedy="choose one",
        )
    if line and as_json:
        raise InputError("--line and --json", expected="one", got="both", remedy="choose one")
    if columns is not None and not any(path.suffix == ".tex" for path in exports or ()):
        raise InputError(
            "--columns", expected="a LaTeX table", got="none", remedy="add --export table.tex"
        )
    found = auditing.Run.open(run)
    if line:
        typer.echo(printable(reports.one_line(found)))
    elif as_json:
        records = [summary.record() for summary in auditing.summarise(found.rows())]
        typer.echo(json.dumps(records, indent=2, allow_nan=False))
    else:
        terminal(wide=_WIDE).print(reports.console(found))
        typer.echo(f"page: {reports.write_html(found, out)}")
    for path in exports or ():
        kind = ENDINGS[path.suffix]
        chosen = [each.strip() for each in columns.split(",")] if columns else None
        for written in reports.export(found, kind, path, chosen if kind == "latex" else None):
            typer.echo(f"file: {written}", err=as_json or line)
    if plots is not None:
        drawn = reports.figures(found, plots)
        typer.echo(f"figures: {len(drawn)} in {plots}", err=as_json or line)
