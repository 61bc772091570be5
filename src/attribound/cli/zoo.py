"""``attribound zoo``: the leaderboard, single cards, measuring again, adding a trained model."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from attribound import zoo
from attribound.basics.errors import InputError
from attribound.zoo import leaderboard
from attribound.zoo.adding import add as add_model
from attribound.zoo.comparison import Difference, compare
from attribound.zoo.measuring import images_of
from attribound.zoo.places import find, own_directory
from attribound.zoo.storage import to_json, write_card

app = typer.Typer(
    help="Trained models: leaderboard, cards, measurements.", invoke_without_command=True
)

#: ``attribound zoo measure``: a number is not what the card says.
DIFFERS = 1

Name = Annotated[str, typer.Argument(help="A model, e.g. fashion-mnist/trades-igr.")]


@app.callback()
def show_leaderboard(
    context: typer.Context,
    sort: Annotated[
        str, typer.Option(help=f"Best first by: {', '.join(leaderboard.SORTS)}.")
    ] = "kendall",
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
    typer.echo(to_json(zoo.card(name)), nl=False)


@app.command()
def measure(
    names: Annotated[list[str], typer.Argument(help="Models, e.g. mnist/at.")],
    images: Annotated[
        int | None, typer.Option(min=1, help="At most so many images for each number.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Put the numbers in the cards.")] = False,
) -> None:
    """Measure models again as their cards say, and print what differs.

    Exit code 1 if a number is more than two standard errors from the card's.
    """
    if write and images is not None:
        raise InputError(
            "--write",
            expected="the images that the card names",
            got=f"--images {images}",
            remedy="leave out one of the two",
        )
    differs = False
    for name in names:
        card = zoo.card(name)
        protocol = card.measured.protocol
        x, y = images_of(card.data)
        now = zoo.measure(
            zoo.load(name),
            x,
            y,
            protocol if images is None else protocol.limited(images),
            progress=sys.stderr.isatty(),
        )
        differences = compare(card.measured, now)
        lines = [_cells(difference) for difference in differences]
        _print(name, ("", "card", "now", "standard error", ""), lines, "")
        differs |= not all(difference.agrees for difference in differences)
        if write:
            place = find(f"{name}.json")
            assert place is not None  # it was read from there
            write_card(replace(card, measured=now, date=datetime.now(timezone.utc).date()), place)
    if differs and not write:
        raise typer.Exit(DIFFERS)


@app.command()
def add(  # noqa: PLR0913, PLR0917 - options of a command
    run: Annotated[Path, typer.Argument(help="Directory of a finished training.")],
    name: Annotated[str, typer.Option(help="Name in the zoo: <data>/<method>[-<network>].")],
    to: Annotated[
        Path | None, typer.Option(help="Directory of the zoo; default: your own.")
    ] = None,
    cards: Annotated[
        Path | None, typer.Option(help="Directory for the card, if another than --to.")
    ] = None,
    images: Annotated[
        int | None, typer.Option(min=1, help="At most so many images for each number.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Attack predictions on all test images.")
    ] = False,
    replace_it: Annotated[
        bool, typer.Option("--replace", help="Overwrite a model of that name.")
    ] = False,
) -> None:
    """Make weights and a measured card of a finished training."""
    protocol = zoo.protocol_of(name.partition("/")[0]) if whole or images is not None else None
    if protocol is not None:
        protocol = protocol.whole() if whole else protocol
        protocol = protocol if images is None else protocol.limited(images)
    place = to or own_directory()
    card = add_model(run, name, place, cards=cards, protocol=protocol, replace=replace_it)
    (row,) = leaderboard.rows([card])
    _print(card.data, leaderboard.HEADER, [leaderboard.cells(row)], leaderboard.how(card))
    typer.echo(f"{place / name}.safetensors")


def _cells(difference: Difference) -> list[str]:
    return [
        difference.what,
        f"{difference.before:.4f}",
        f"{difference.after:.4f}",
        f"{difference.error:.4f}",
        "agrees" if difference.agrees else "DIFFERS",
    ]


def _print(title: str, header: tuple[str, ...], lines: list[list[str]], caption: str) -> None:
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column, text in enumerate(header):
        table.add_column(text, justify="left" if column == 0 else "right", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width to fit
        console = Console(width=200)
    console.print(table, caption)
