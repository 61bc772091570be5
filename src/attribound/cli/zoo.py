"""``attribound zoo``: the leaderboard, and single cards."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from attribound.basics.errors import InputError
from attribound.basics.later import Later
from attribound.basics.terminal import terminal
from attribound.cli.offered import SORTS, listed

if TYPE_CHECKING:
    from rich import box, table

    from attribound import zoo
    from attribound.zoo import leaderboard
else:
    box, table = map(Later, ("rich.box", "rich.table"))
    zoo, leaderboard = map(Later, ("attribound.zoo", "attribound.zoo.leaderboard"))

_WIDE = 200  # a file or a pipe has no width to fit
app = typer.Typer(help="Trained models: leaderboard and cards.", invoke_without_command=True)

Name = Annotated[str, typer.Argument(help="A model, e.g. fashion-mnist/trades-igr.")]


@app.callback()
def show_leaderboard(
    context: typer.Context,
    sort: Annotated[str, typer.Option(help=f"Best first by: {listed(SORTS)}.")] = "kendall",
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Rows as CSV.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Tables for a page.")] = False,
) -> None:
    """Print the leaderboard, made of the cards only."""
    if context.invoked_subcommand is not None:
        return
    if as_json + as_csv + as_markdown > 1:
        raise InputError(
            "options",
            expected="one of --json, --csv and --markdown",
            got="several",
            remedy="choose one",
        )
    cards = zoo.cards()
    rows = leaderboard.rows(cards, sort)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    elif as_csv:
        typer.echo(leaderboard.to_csv(cards, sort), nl=False)
    elif as_markdown:
        typer.echo(leaderboard.markdown(cards, sort))
    elif not rows:
        typer.echo("no models")
    else:
        by_name = {card.name: card for card in cards}
        for data, group in leaderboard.by_data(rows):
            lines = [leaderboard.cells(row) for row in group]
            caption = "\n".join(leaderboard.hows([by_name[row.name] for row in group]))
            _print(data, leaderboard.HEADER, lines, caption)


@app.command()
def show(name: Name) -> None:
    """Print the card of one model as JSON."""
    typer.echo(zoo.to_json(zoo.card(name)), nl=False)


def _print(title: str, header: tuple[str, ...], lines: list[list[str]], caption: str) -> None:
    shown = table.Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column, text in enumerate(header):
        shown.add_column(text, justify="left" if column == 0 else "right", no_wrap=True)
    for line in lines:
        shown.add_row(*line)
    terminal(wide=_WIDE).print(shown, caption)
