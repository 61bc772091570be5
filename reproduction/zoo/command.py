"""The command of the making: models measured again, and trained ones added."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from attribound import AttriboundError, InputError, zoo
from attribound.basics import render
from reproduction.zoo.adding import add as add_model
from reproduction.zoo.comparison import Remeasured, compare
from reproduction.zoo.measuring import images_of
from reproduction.zoo.measuring import measure as measure_model
from reproduction.zoo.protocols import protocol_of

app = typer.Typer(
    help="The making of the zoo: measure models again, add a trained one.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)

#: A number is not what the card says.
DIFFERS = 1
UNUSABLE = 2


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
        limited = protocol if images is None else protocol.limited(images)
        now = measure_model(zoo.load(name), x, y, limited, progress=sys.stderr.isatty())
        found = compare(card.measured, now)
        header = ("", "card", "now", "standard error", "")
        typer.echo(render(name, header, [_cells(each) for each in found]))
        differs |= not all(each.agrees for each in found)
        if write:
            place = zoo.find(f"{name}.json")
            assert place is not None  # it was read from there
            if zoo.is_unpacked(place):
                raise InputError(
                    "--write",
                    expected="a model with a card of its own",
                    got=f"{name}, which is packed with others",
                    remedy="train and pack them again: python -m reproduction.zoo pack",
                )
            today = datetime.now(timezone.utc).date()
            zoo.write_card(replace(card, measured=now, date=today), place)
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
    protocol = protocol_of(name.partition("/")[0]) if whole or images is not None else None
    if protocol is not None:
        protocol = protocol.whole() if whole else protocol
        protocol = protocol if images is None else protocol.limited(images)
    place = to or zoo.own_directory()
    card = add_model(run, name, place, cards=cards, protocol=protocol, replace=replace_it)
    typer.echo(zoo.markdown([card]))
    typer.echo(f"{place / name}.safetensors")


@app.command()
def pack(
    folder: Annotated[Path, typer.Argument(help="A directory of a zoo: its models are packed.")],
    to: Annotated[Path, typer.Argument(help="The archive, in a directory of a zoo.")],
) -> None:
    """Put all models of a directory, cards and weights, into one file: for small ones."""
    cards = sorted(folder.glob("[!.]*/[!.]*.json"))
    zoo.pack(folder, [f"{card.parent.name}/{card.stem}" for card in cards], to)
    typer.echo(f"{len(cards)} models: {to}")


def _cells(found: Remeasured) -> list[str]:
    numbers = (f"{value:.4f}" for value in (found.before, found.after, found.error))
    return [found.what, *numbers, "agrees" if found.agrees else "DIFFERS"]


def main() -> None:
    """Run it; what is unusable is said in one line."""
    try:
        app(prog_name="python -m reproduction.zoo")
    except (AttriboundError, OSError) as error:
        typer.echo(f"reproduction: {error}", err=True)
        raise SystemExit(UNUSABLE) from error
