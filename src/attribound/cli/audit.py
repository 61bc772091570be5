"""``attribound audit``: bound and attack the attributions of a model on data."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from attribound.attributions import Attribution
from attribound.auditing import Protocol, read_settings, summarise, totals
from attribound.auditing.audit import audit as run_audit
from attribound.auditing.engines import Engine, LocalEngine, RayEngine
from attribound.auditing.manifest import Manifest
from attribound.auditing.store import Run, is_run
from attribound.auditing.summary import yours_totals
from attribound.auditing.summary_records import Summary
from attribound.basics.errors import InputError
from attribound.basics.toml_files import read_toml, toml_value
from attribound.basics.whole_files import StorageError
from attribound.report import console as table_of
from attribound.results import claim_named, claims
from attribound.values import changed, names, parse_text

CLAIMS = ", ".join(each.name for each in claims() if each.method is not None)
EXCEEDED, FAILED, NOT_STORED, INTERRUPTED = 1, 3, 4, 130
_WIDE = 160  # a file or a pipe has no width to fit
#: Shown below the options.
EXIT_CODES = (
    "Exit codes: 0 finished; 1 finished, and an attack exceeded a claim named by --fail-on; "
    "2 wrong use, said in one line; 3 finished, but some samples failed (their rows have the "
    "error); 4 the run could not be stored, e.g. the disk is full; 130 Ctrl-C. After 4 and "
    "130, and after any kill, the same command with --resume goes on."
)


def audit(  # noqa: PLR0913, PLR0917 - options of a command
    model: Annotated[str | None, typer.Option(help="zoo:NAME, MODULE:FACTORY, or a file.")] = None,
    weights: Annotated[str | None, typer.Option(help="For MODULE:FACTORY.")] = None,
    data: Annotated[str | None, typer.Option(help="Name or path of the data.")] = None,
    split: Annotated[str | None, typer.Option(help="train or test.")] = None,
    limit: Annotated[
        int | None, typer.Option(help="At most so many samples, chosen at random.")
    ] = None,
    skip: Annotated[
        int | None, typer.Option(help="None of those that an audit with this limit takes.")
    ] = None,
    attribution: Annotated[
        list[str] | None,
        typer.Option(
            help=f"{', '.join(names(Attribution))}, MODULE:CLASS; ig:steps=50. Several: again."
        ),
    ] = None,
    ball: Annotated[
        list[str] | None,
        typer.Option(help="l2, linf:low=0,high=1, lp:p=3, MODULE:CLASS. Several: again."),
    ] = None,
    eps: Annotated[
        list[str] | None,
        typer.Option(help="Radii, e.g. 0.05,0.1; once for all balls, or once for each."),
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option(help=f"{CLAIMS}, MODULE:CLASS; with settings: mean_value:shells=8."),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(help="pgd, ascent:steps=20, MODULE:CLASS, ... in place of the protocol's."),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help=f"{', '.join(names(Protocol))}, or MODULE:CLASS.")
    ] = None,
    smooth: Annotated[
        str | None,
        typer.Option(help="For ReLU networks: auto, or the beta of the smooth copy."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of samples and attacks.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings in TOML, or run.json of another run.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="PATH=VALUE: batch=32, mean_value.shells=8, balls.0.low=0."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; default: a new one in runs/.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in OUT; that is enough.")
    ] = False,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Processes; default: as many as cores, or as Ray has.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Of each process; default: 1, or all with one worker.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster.")] = None,
    gpus: Annotated[float, typer.Option(help="Of each Ray worker.")] = 0,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit code 1 if an attack exceeded this claim; with --smooth, on the copy or on "
            "your network."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON summary and nothing else.")
    ] = False,
) -> None:
    """Bound and attack the attributions of a model on every sample of some data.

    Options override the settings in CONFIG. Killed or stopped at any moment, the
    same command with --resume goes on and gives the same rows.
    """
    folder = out or Path("runs") / datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    document = _document(config, folder if resume else None)
    given = {
        "model": model,
        "weights": weights,
        "data": data,
        "split": split,
        "limit": limit,
        "skip": skip,
        "attributions": attribution,
        "balls": _balls(ball, eps, _list(document.get("balls"))),
        "claims": _values(claim),
        "attacks": _values(attack),
        "protocol": protocol,
        "smooth": smooth and toml_value(smooth),
        "seed": seed,
    }
    document |= {name: value for name, value in given.items() if value is not None}
    document = changed(document, settings or ())
    if not {"model", "data"} <= {*document}:
        raise InputError(
            "what to audit",
            expected="--model and --data, a --config that has them, or --resume of a run",
            got=f"--resume, but no run in {folder}" if resume else "not both",
            remedy="try --model zoo:fashion-mnist/at-mlp --data fashion-mnist-sample --limit 16",
        )
    chosen = read_settings(document)
    watched = [claim_named(each).name for each in _values(fail_on) or ()]
    console = False if quiet or as_json else Console(stderr=True)
    try:
        run = run_audit(
            chosen,
            out=folder,
            resume=resume,
            engine=_engine(engine, workers, threads, address, gpus),
            progress=console,
        )
    except KeyboardInterrupt as error:
        typer.echo(f"attribound: interrupted; {_how_to_resume(folder)}", err=True)
        raise typer.Exit(INTERRUPTED) from error
    except StorageError as error:
        typer.echo(f"attribound: {error}\n{_how_to_resume(folder)}", err=True)
        raise typer.Exit(NOT_STORED) from error
    summaries = summarise(run.rows())
    _report(run, summaries, quiet=quiet, as_json=as_json)
    exceeded = totals(summaries)
    if any((share := exceeded.get(each)) is not None and share.count for each in watched):
        raise typer.Exit(EXCEEDED)
    if any(summary.errors for summary in summaries):
        raise typer.Exit(FAILED)


def _document(config: Path | None, resumed: Path | None) -> dict[str, Any]:
    """Settings to begin with: a file's, or those of the run that goes on."""
    if config is not None and config.name == "run.json":
        return dict(Manifest.read(config.parent).settings)
    if config is not None:
        return read_toml(config)
    if resumed is not None and is_run(resumed):
        return dict(Manifest.read(resumed).settings)
    return {}


def _balls(
    texts: Sequence[str] | None, eps: Sequence[str] | None, before: Sequence[Any] = ()
) -> list[dict[str, Any]] | None:
    """A table for each ball, with its own radii or the only ones.

    Radii without balls are for those of ``before``, the settings of a file, if there are any.
    """
    if not texts and not eps:
        return None
    balls = [parse_text(text) for text in texts or ()] or _shapes(before) or [{"kind": "l2"}]
    lists = [_radii(each) for each in eps or ["0.1"]]
    if len(lists) not in (1, len(balls)):
        raise InputError(
            "--eps",
            expected=f"once for all balls, or {len(balls)} times, once for each",
            got=f"{len(lists)} times",
            remedy="write several radii of one ball as --eps 0.05,0.1",
        )
    each = lists if len(lists) == len(balls) else lists * len(balls)
    return [{"epsilon": radii, **ball} for ball, radii in zip(balls, each, strict=True)]


def _shapes(balls: Sequence[Any]) -> list[dict[str, Any]]:
    """The balls of a file without their radii, each once."""
    tables = [parse_text(each) if isinstance(each, str) else each for each in balls]
    found: list[dict[str, Any]] = []
    for table in tables:
        shape = {name: value for name, value in table.items() if name != "epsilon"}
        if shape not in found:
            found.append(shape)
    return found


def _list(value: object) -> list[Any]:
    """``value`` if it is a list; what else a file has there is refused with the other settings."""
    return value if isinstance(value, list) else []


def _values(texts: Sequence[str] | None) -> list[str] | None:
    """What was given again and again; names without settings also with commas."""
    if texts is None:
        return None
    split = [[text] if ":" in text else text.split(",") for text in texts]
    return [each.strip() for several in split for each in several]


def _radii(text: str) -> list[float]:
    try:
        return [float(each) for each in text.split(",")]
    except ValueError as error:
        raise InputError(
            "--eps", expected="numbers with commas", got=repr(text), remedy="write e.g. 0.05,0.1"
        ) from error


def _engine(
    name: str, workers: int | None, threads: int | None, address: str | None, gpus: float
) -> Engine:
    if name == "ray":
        return RayEngine(address=address, workers=workers, cpus=threads or 1, gpus=gpus)
    if name != "local":
        raise InputError("--engine", expected="local or ray", got=name, remedy="choose one")
    if address is not None or gpus:
        raise InputError(
            "--address and --gpus",
            expected="--engine ray",
            got="--engine local",
            remedy="add --engine ray; the device of a local audit is --set device=cuda",
        )
    return LocalEngine(workers or _cores() // (threads or 1) or 1, threads)


def _cores() -> int:
    """Those this process may use, which in a container may be fewer than there are."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _how_to_resume(folder: Path) -> str:
    return f"go on with: attribound audit --out {shlex.quote(str(folder))} --resume"


def _report(run: Run, summaries: list[Summary], *, quiet: bool, as_json: bool) -> None:
    if as_json:
        shares, yours = totals(summaries), yours_totals(summaries)
        found = {
            "run": str(run.path),
            "finished": run.finished,
            "samples": run.manifest.samples,
            "errors": sum(summary.errors for summary in summaries),
            "smooth": run.manifest.settings.get("smooth"),
            # With a smooth copy: on the copy or on the network itself, and on that alone.
            "exceeded": {name: share and vars(share) for name, share in shares.items()},
            "yours_exceeded": {name: share and vars(share) for name, share in yours.items()},
            "settings": [summary.record() for summary in summaries],
        }
        typer.echo(json.dumps(found, indent=1, allow_nan=False))
    elif not quiet:
        terminal = Console()
        if not terminal.is_terminal:
            terminal = Console(width=_WIDE)
        terminal.print(table_of(run))
        typer.echo(f"run: {run.path}; its page: attribound report {shlex.quote(str(run.path))}")
