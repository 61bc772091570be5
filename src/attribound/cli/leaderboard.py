"""``attribound leaderboard``: the networks of the zoo as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attribound.basics.later import Later
from attribound.basics.terminal import printable
from attribound.cli.offered import SORTS, listed

if TYPE_CHECKING:
    from attribound import zoo
    from attribound.basics import whole_files
    from attribound.zoo import board_page
else:
    zoo, board_page = map(Later, ("attribound.zoo", "attribound.zoo.board_page"))
    whole_files = Later("attribound.basics.whole_files")


def leaderboard(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("leaderboard.html"),
    sort: Annotated[str, typer.Option(help=f"Best first by: {listed(SORTS)}.")] = "kendall",
) -> None:
    """Write the leaderboard as one page, from the cards of the zoo and of ATTRIBOUND_ZOO."""
    text = board_page.board_page(zoo.cards(), sort)
    whole_files.write_whole(out, text.encode())
    typer.echo(printable(f"The page: {out}"))
