"""``attribound leaderboard``: the networks of the zoo, and runs of the user's own, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attribound.basics.errors import InputError
from attribound.basics.later import Later
from attribound.basics.terminal import printable
from attribound.cli.offered import SORTS, listed
from attribound.cli.runs import runs_in

if TYPE_CHECKING:
    from attribound import auditing, report, zoo
    from attribound.basics import whole_files
    from attribound.zoo import board_page
else:
    zoo, board_page = map(Later, ("attribound.zoo", "attribound.zoo.board_page"))
    auditing, report = map(Later, ("attribound.auditing", "attribound.report"))
    whole_files = Later("attribound.basics.whole_files")


def leaderboard(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("leaderboard.html"),
    sort: Annotated[str, typer.Option(help=f"Best first by: {listed(SORTS)}.")] = "kendall",
    runs: Annotated[
        Path | None, typer.Option(help="A folder with runs: models audited on the same samples.")
    ] = None,
) -> None:
    """Write the leaderboard as one page, from the cards of the zoo and of ATTRIBOUND_ZOO.

    With --runs, also from your own audits, one table for each attribution, ball and radius.
    """
    if runs is not None and not runs.is_dir():
        raise InputError(
            "--runs", expected="a folder", got=str(runs), remedy="attribound runs FOLDER lists runs"
        )
    found = [] if runs is None else [auditing.Run.open(path) for path in sorted(runs_in(runs))]
    text = board_page.board_page(zoo.cards(), sort, report.run_tables(found) if found else ())
    whole_files.write_whole(out, text.encode())
    typer.echo(printable(f"The page: {out}"))
