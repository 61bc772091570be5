"""What commands share: texts as plain settings, files that are trusted, how to go on."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from attribound.basics.errors import AttriboundError, InputError
from attribound.basics.later import Later
from attribound.basics.terminal import printable
from attribound.basics.trusting import trust

if TYPE_CHECKING:
    from attribound import values
    from attribound.auditing import manifest
else:
    values, manifest = map(Later, ("attribound.values", "attribound.auditing.manifest"))


#: Exit code of an error in attribound itself or in a user's own code, as sysexits.h has it.
CRASHED = 70


def _trust(wanted: bool) -> None:
    if wanted:
        trust()


#: An option of every command that reads files in which code can be named.
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        callback=_trust,
        help="Run code that only a file names (MODULE:FACTORY, MODULE:CLASS): it is a program.",
    ),
]


def crashed(error: Exception, remedy: str = "") -> NoReturn:
    """End with a code of its own, the traceback for a report, and what to do."""
    shown = "".join(traceback.format_exception(error))
    typer.echo(printable(shown), err=True, nl=False)
    what = f"attribound: crashed with {type(error).__name__}"
    typer.echo("; ".join(filter(None, [what, remedy])), err=True)
    raise typer.Exit(CRASHED) from error


def how_to_resume(folder: Path) -> str:
    """The command that goes on with the run in ``folder``; it trusts code that a run names."""
    command = f"attribound audit --out {shlex.quote(str(folder))} --resume"
    with suppress(AttriboundError, OSError):
        if manifest.Manifest.read(folder).names_code:
            command += " --trust"
    return f"go on with: {command}"


def balls(
    texts: Sequence[str] | None, eps: Sequence[str] | None, before: object = ()
) -> list[dict[str, Any]] | None:
    """A table for each ball, with its own radii or the only ones.

    Radii without balls are for those of ``before``, the settings of a file, if there are any.
    """
    if not texts and not eps:
        return None
    lists = [_radii(each) for each in eps or ["0.1"]]
    shapes = [values.parse_text(text) for text in texts or ()]
    shapes = shapes or _shapes(_list(before)) or [{"kind": "l2"}]
    if len(lists) not in (1, len(shapes)):
        raise InputError(
            "--eps",
            expected=f"once for all balls, or {len(shapes)} times, once for each",
            got=f"{len(lists)} times",
            remedy="write several radii of one ball as --eps 0.05,0.1",
        )
    each = lists if len(lists) == len(shapes) else lists * len(shapes)
    return [{"epsilon": radii, **ball} for ball, radii in zip(shapes, each, strict=True)]


def _shapes(balls: Sequence[Any]) -> list[dict[str, Any]]:
    """The balls of a file without their radii, each once."""
    tables = [values.parse_text(each) if isinstance(each, str) else each for each in balls]
    found: list[dict[str, Any]] = []
    for table in tables:
        shape = {name: value for name, value in table.items() if name != "epsilon"}
        if shape not in found:
            found.append(shape)
    return found


def _list(value: object) -> list[Any]:
    """``value`` if it is a list; what else a file has there is refused with the other settings."""
    return value if isinstance(value, list) else []


def several(texts: Sequence[str] | None) -> list[str] | None:
    """What was given again and again; names without settings also with commas."""
    if texts is None:
        return None
    split = [[text] if ":" in text else text.split(",") for text in texts]
    return [each.strip() for part in split for each in part]


def units(given: Sequence[str] | None) -> dict[str, float] | None:
    """``age=0,income=500``, once or again, as a table."""
    if given is None:
        return None
    found: dict[str, float] = {}
    for part in (part for text in given for part in text.split(",")):
        name, equals, number = part.rpartition("=")
        try:
            found[name.strip()] = float(number if equals else "")
        except ValueError as error:
            raise InputError(
                "--scale",
                expected="COLUMN=NUMBER with commas",
                got=repr(part),
                remedy="write e.g. age=0,income=500",
            ) from error
    return found


def _radii(text: str) -> list[float]:
    try:
        return [float(each) for each in text.split(",")]
    except ValueError as error:
        raise InputError(
            "--eps", expected="numbers with commas", got=repr(text), remedy="write e.g. 0.05,0.1"
        ) from error
