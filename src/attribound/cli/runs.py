"""``attribound runs``: the runs in a folder, how far each is, and how to go on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attribound.basics.errors import AttriboundError, InputError
from attribound.basics.later import Later
from attribound.basics.terminal import printable, terminal
from attribound.cli import texts

if TYPE_CHECKING:
    from rich import box, table, text

    from attribound import auditing
else:
    box, table, text = map(Later, ("rich.box", "rich.table", "rich.text"))
    auditing = Later("attribound.auditing")

_WIDE = 200  # a file or a pipe has no width to fit
_HEADER = ("run", "samples", "model", "data", "attributions", "balls", "created", "state")


def runs(
    folder: Annotated[Path, typer.Argument(help="A folder with runs in it, or a run.")] = Path(
        "runs"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List the runs in a folder and those below it.

    A run with torn or foreign files is listed with what is wrong.
    """
    if not folder.is_dir():
        raise InputError(
            str(folder),
            expected="a folder",
            got="none",
            remedy="name the folder that the runs are in: attribound runs FOLDER",
        )
    found = [_described(path) for path in sorted(runs_in(folder))]
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    elif not found:
        typer.echo(printable(f"no runs in {folder}"))
    else:
        _print(found)


def runs_in(folder: Path) -> Iterator[Path]:
    """Folders with a run; what is inside a run is not searched."""
    if auditing.is_run(folder):
        yield folder
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            yield from runs_in(path)


def _described(path: Path) -> dict[str, Any]:
    try:
        run = auditing.Run.open(path)
        return _described_run(path, run)
    # What a damaged or hostile file leads to is no reason to hide the other runs.
    except Exception as error:
        known = isinstance(error, (AttriboundError, OSError))
        what = str(error) if known else f"{type(error).__name__}: {error}"
        return {"run": str(path), "state": f"damaged: {what}", "finished": False}


def _described_run(path: Path, run: auditing.Run) -> dict[str, Any]:
    manifest = run.manifest
    settings = manifest.settings
    return {
        "run": str(path),
        "samples": f"{run.measured}/{manifest.samples}",
        "model": settings.get("model"),
        "data": settings.get("data"),
        "attributions": ", ".join(_attribution(each) for each in settings.get("attributions", ())),
        "balls": _balls(settings.get("balls", ())),
        "created": manifest.created,
        "state": "finished" if run.finished else texts.how_to_resume(path),
        "finished": run.finished,
    }


def _attribution(settings: dict[str, Any]) -> str:
    return str(settings.get("label") or settings.get("kind"))


def _balls(settings: Sequence[dict[str, Any]]) -> str:
    """Radii by kind, e.g. ``l2 0.05, 0.1; linf 0.01``."""
    radii: dict[str, list[str]] = {}
    for ball in settings:
        radii.setdefault(str(ball.get("kind")), []).append(f"{ball.get('epsilon'):g}")
    return "; ".join(f"{kind} {', '.join(each)}" for kind, each in radii.items())


def _print(found: list[dict[str, Any]]) -> None:
    shown = table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in _HEADER:
        shown.add_column(name, overflow="fold")
    for each in found:
        # As texts: nothing in a name is read as markup.
        shown.add_row(*[text.Text(str(each.get(name, ""))) for name in _HEADER])
    terminal(wide=_WIDE).print(shown)
