"""``attribound audit``: bound and attack the attributions of a model on data."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from attribound.auditing.audit import audit as run_audit
from attribound.auditing.engines import Engine, LocalEngine, RayEngine
from attribound.auditing.manifest import Manifest
from attribound.auditing.settings import CLAIMS, parse_settings
from attribound.auditing.store import Run, is_run
from attribound.auditing.summary import Summary, summarise, totals
from attribound.basics.errors import InputError
from attribound.basics.toml_files import read_toml
from attribound.basics.whole_files import StorageError
from attribound.report import console as table_of

BROKEN, FAILED, NOT_STORED, INTERRUPTED = 1, 3, 4, 130
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
        typer.Option(help="ig, ig:steps=50, saliency, ... Several: give it again."),
    ] = None,
    norm: Annotated[
        list[str] | None, typer.Option(help="l2, linf, l1 or lP; several: l2,linf.")
    ] = None,
    eps: Annotated[
        list[str] | None,
        typer.Option(help="Radii, e.g. 0.05,0.1; once for all norms, or once for each."),
    ] = None,
    low: Annotated[
        float | None,
        typer.Option(help="Least value of a feature; default: 0 for images in linf balls."),
    ] = None,
    high: Annotated[
        float | None, typer.Option(help="Largest value of a feature; default: likewise 1.")
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option(help=f"Of {', '.join(CLAIMS)}; several with commas."),
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="quick, paper or strong.")] = None,
    smooth: Annotated[
        float | None, typer.Option(help="Beta of the smooth copy of a ReLU network.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of samples and attacks.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings in TOML, or run.json of another run.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting: batch=32, device=cuda.")
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
        typer.Option(help="Exit code 1 if an attack exceeded this claim; adjusted counts, too."),
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
        "balls": _balls(norm, eps, low, high, _list(document.get("balls"))),
        "claims": claim and [_claim(each) for each in _listed(claim)],
        "protocol": protocol,
        "smooth": smooth,
        "seed": seed,
    }
    document |= {name: value for name, value in given.items() if value is not None}
    document |= dict(_assignment(each) for each in settings or ())
    if not {"model", "data"} <= {*document}:
        raise InputError(
            "what to audit",
            expected="--model and --data, a --config that has them, or --resume of a run",
            got=f"--resume, but no run in {folder}" if resume else "not both",
            remedy="try --model zoo:fashion-mnist/at-mlp --data fashion-mnist-sample --limit 16",
        )
    chosen = parse_settings(document)
    watched = [_claim(each) for each in _listed(fail_on)]
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
    summaries = summarise(run.table())
    _report(run, summaries, quiet=quiet, as_json=as_json)
    broken = totals(summaries)
    if any((share := broken.get(each)) is not None and share.count for each in watched):
        raise typer.Exit(BROKEN)
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
    norms: Sequence[str] | None,
    radii: Sequence[str] | None,
    low: float | None,
    high: float | None,
    before: Sequence[Any] = (),
) -> list[dict[str, Any]] | None:
    """One entry for each norm, with its own radii or the only ones.

    Radii without norms are for those of ``before``, the settings of a file, if there are any.
    """
    if not norms and not radii:
        if low is not None or high is not None:
            raise InputError(
                "--low and --high",
                expected="a ball that they limit",
                got="neither --norm nor --eps",
                remedy="give --norm and --eps",
            )
        return None
    tables = [each for each in before if isinstance(each, dict)]
    norms = norms or list(dict.fromkeys(str(each.get("norm", "l2")) for each in tables))
    names, lists = _listed(norms) or ["l2"], [_radii(each) for each in radii or ["0.1"]]
    if len(lists) not in (1, len(names)):
        raise InputError(
            "--eps",
            expected=f"once for all norms, or {len(names)} times, once for each",
            got=f"{len(lists)} times",
            remedy="write several radii of one norm as --eps 0.05,0.1",
        )
    both = zip_longest(names, lists, fillvalue=lists[0])
    return [
        {"norm": name, "epsilons": epsilons, "low": low, "high": high} for name, epsilons in both
    ]


def _list(value: object) -> list[Any]:
    """``value`` if it is a list; what else a file has there is refused with the other settings."""
    return value if isinstance(value, list) else []


def _listed(values: Sequence[str] | None) -> list[str]:
    """What was given again and again, or with commas."""
    return [each.strip() for text in values or () for each in text.split(",")]


def _radii(text: str) -> list[float]:
    try:
        return [float(each) for each in text.split(",")]
    except ValueError as error:
        raise InputError(
            "--eps", expected="numbers with commas", got=repr(text), remedy="write e.g. 0.05,0.1"
        ) from error


def _assignment(text: str) -> tuple[str, Any]:
    """``batch=32``; the value is JSON, or a text as it stands."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError("--set", expected="NAME=VALUE", got=text, remedy="write e.g. batch=32")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _claim(text: str) -> str:
    name = text.replace("-", "_")
    known = (*CLAIMS, "adjusted")
    if name not in known:
        raise InputError(
            "claim", expected=f"one of {', '.join(known)}", got=text, remedy="check the spelling"
        )
    return name


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
        shares = totals(summaries)
        found = {
            "run": str(run.path),
            "finished": run.finished,
            "samples": run.manifest.samples,
            "errors": sum(summary.errors for summary in summaries),
            "broken": {name: share and vars(share) for name, share in shares.items()},
            "settings": [summary.record() for summary in summaries],
        }
        typer.echo(json.dumps(found, indent=1, allow_nan=False))
    elif not quiet:
        terminal = Console()
        if not terminal.is_terminal:
            terminal = Console(width=_WIDE)
        terminal.print(table_of(run))
        typer.echo(f"run: {run.path}; its page: attribound report {shlex.quote(str(run.path))}")
