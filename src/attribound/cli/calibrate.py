"""``attribound calibrate``: from a finished run, factors that make bounds hold for most samples."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attribound.basics.errors import InputError
from attribound.basics.later import Later
from attribound.basics.tables import render
from attribound.basics.whole_files import made_folder, storing
from attribound.cli import texts

if TYPE_CHECKING:
    from attribound import auditing, results, values
    from attribound.balls import Ball
    from attribound.bounding.calibrated import Calibration
else:
    auditing, results, values = map(
        Later, ("attribound.auditing", "attribound.results", "attribound.values")
    )


def calibrate(  # noqa: PLR0913, PLR0917 - options of a command
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="New folder for the calibrations, one for each ball.")],
    alpha: Annotated[
        float, typer.Option(help="Probability that a new sample exceeds its bound.")
    ] = 0.05,
    base: Annotated[
        str, typer.Option(help="The claim of the run whose bounds are scaled.")
    ] = "first_order",
    by_class: Annotated[
        bool, typer.Option("--by-class", help="A factor for every predicted class.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the factors as JSON.")] = False,
    trust: texts.Trust = False,  # noqa: ARG001 - read before
) -> None:
    """Calibrate bounds on the samples of a run, for audits of other samples.

    Factor times bound then withstands the attacks of that run, for a new sample of the same
    data, with probability 1 - ALPHA. Audit samples of the same part that the run did not take
    (--skip), with the same protocol: audit ... --set calibrated.folder=OUT.
    """
    method = auditing.FromRun(alpha=alpha, base=results.claim_named(base).name, by_class=by_class)
    found = method(auditing.Run.open(run))
    _store(found, out)
    if as_json:
        typer.echo(json.dumps([_record(*item) for item in found.items()], indent=1))
        return
    heads = ("attribution", "ball", "class", "samples", "factor", "largest score")
    lines = [
        (
            name,
            values.to_text(ball),
            "all" if group is None else group,
            len(scores),
            factor,
            scores[-1],
        )
        for (name, ball), each in found.items()
        for (group, scores), factor in zip(each.scores.items(), each.factors.values(), strict=True)
    ]
    title = (
        f"Calibration, claim: calibrated (factor x {results.claim_named(method.base)} bound holds "
        f"against the attacks of {run} with probability >= {1 - alpha:.4g})"
    )
    typer.echo(render(title, heads, lines))
    typer.echo(f"use them: attribound audit ... --set calibrated.folder={shlex.quote(str(out))}")


def _store(found: dict[tuple[str, Ball], Calibration], folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"--out {folder}",
            expected="a new or empty folder",
            got="something there already",
            remedy="choose another: an audit takes the first file that fits",
        )
    made_folder(folder)
    with storing(folder):
        for number, ((name, ball), each) in enumerate(found.items()):
            plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
            shape = re.sub(r"[^a-z0-9.]+", "-", ball.name.lower()).strip("-")
            each.save(folder / f"{number:02}-{plain}-{shape}-{ball.epsilon:g}.json")


def _record(key: tuple[str, Ball], each: Calibration) -> dict[str, object]:
    name, ball = key
    return {
        "attribution": name,
        "ball": values.to_spec(ball),
        "alpha": each.alpha,
        "base": each.base.claim.name,
        "factors": [
            {"class": group, "samples": len(each.scores[group]), "factor": _finite(factor)}
            for group, factor in each.factors.items()
        ],
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity: null says that there is no factor."""
    return value if value < float("inf") else None
