"""``attribound audit``: bound and attack the attributions of a model on data."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attribound.basics.errors import AttriboundError, InputError
from attribound.basics.later import Later
from attribound.basics.terminal import terminal
from attribound.basics.toml_files import read_toml, toml_value
from attribound.basics.whole_files import StorageError
from attribound.cli import texts
from attribound.cli.offered import ATTRIBUTIONS, CLAIMS, PROTOCOLS, listed
from attribound.cli.texts import crashed

if TYPE_CHECKING:
    from attribound import auditing, report, results, values
    from attribound.auditing import manifest, summary
    from attribound.auditing.summary_records import Summary
else:
    auditing, report, results, values = map(
        Later,
        ("attribound.auditing", "attribound.report", "attribound.results", "attribound.values"),
    )
    manifest, summary = map(Later, ("attribound.auditing.manifest", "attribound.auditing.summary"))

EXCEEDED, FAILED, NOT_STORED, INTERRUPTED = 1, 3, 4, 130
_WIDE = 160  # a file or a pipe has no width to fit
#: Shown below the options.
EXIT_CODES = (
    "Exit codes: 0 finished; 1 finished, and an attack exceeded a claim named by --fail-on; "
    "2 wrong use, said in one line; 3 finished, but some samples failed (their rows have the "
    "error); 4 the run could not be stored, e.g. the disk is full; 70 crashed, a bug or an error "
    "of your own code; 130 Ctrl-C. After 4, 70 and 130, and after any kill, the same command "
    "with --resume goes on."
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
    label: Annotated[
        str | None, typer.Option(help="Of a table: the column of the class, or none.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column that names the samples.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns that are no features.")] = None,
    scaler: Annotated[
        str | None,
        typer.Option(help="For networks of standardised inputs: mean and deviation of this table."),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Of radii in tables: std (default) or column.")
    ] = None,
    scale: Annotated[
        list[str] | None, typer.Option(help="Units by column: age=0,income=500; 0 freezes.")
    ] = None,
    freeze: Annotated[
        list[str] | None, typer.Option(help="Columns that can't change; categories can't anyway.")
    ] = None,
    attribution: Annotated[
        list[str] | None,
        typer.Option(help=f"{listed(ATTRIBUTIONS)}, MODULE:CLASS; ig:steps=50. Several: again."),
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
        typer.Option(help=f"{listed(CLAIMS)}, MODULE:CLASS; with settings: mean_value:shells=8."),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(help="pgd, ascent:steps=20, MODULE:CLASS, ... in place of the protocol's."),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help=f"{listed(PROTOCOLS)}, or MODULE:CLASS.")
    ] = None,
    smooth: Annotated[
        str | None,
        typer.Option(help="For ReLU networks: auto, or the beta of the smooth copy."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="Which of so many largest scores stay, e.g. the 4 reasons given."),
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
    trust: texts.Trust = False,  # noqa: ARG001 - read before
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: as many as cores, or as Ray has.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of each process; default: 1, or all with one worker.")
    ] = None,
    patience: Annotated[
        float | None,
        typer.Option(
            help="Seconds after which a worker without a word is killed and its batch tried "
            "again; more if steps take longer. Default: 3600."
        ),
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
    _refuse_elsewhere(engine, address, gpus)
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
        "balls": texts.balls(ball, eps, document.get("balls")),
        "claims": texts.several(claim),
        "attacks": texts.several(attack),
        "protocol": protocol,
        "smooth": smooth and toml_value(smooth),
        "keep": keep,
        "seed": seed,
    }
    document |= {name: value for name, value in given.items() if value is not None}
    table = {
        "label": label,
        "id": id_column,
        "drop": texts.several(drop),
        "scaler": scaler,
        "unit": unit,
        "scale": texts.units(scale),
        "freeze": texts.several(freeze),
    }
    own = {name: value for name, value in table.items() if value is not None}
    if own:
        document["table"] = {**document.get("table", {}), **own}
    if settings:
        document = values.changed(document, settings)
    if not {"model", "data"} <= {*document}:
        raise InputError(
            "what to audit",
            expected="--model and --data, a --config that has them, or --resume of a run",
            got=f"--resume, but no run in {folder}" if resume else "not both",
            remedy="try --model zoo:fashion-mnist/at-mlp --data fashion-mnist-sample --limit 16",
        )
    chosen = auditing.read_settings(document)
    watched = [results.claim_named(each).name for each in texts.several(fail_on) or ()]
    console = False if quiet or as_json else terminal(stderr=True)
    try:
        run = auditing.audit(
            chosen,
            out=folder,
            resume=resume,
            engine=_patient(_engine(engine, workers, threads, address, gpus), patience),
            progress=console,
        )
    except KeyboardInterrupt as error:
        typer.echo(f"attribound: interrupted; {texts.how_to_resume(folder)}", err=True)
        raise typer.Exit(INTERRUPTED) from error
    except StorageError as error:
        typer.echo(f"attribound: {error}\n{texts.how_to_resume(folder)}", err=True)
        raise typer.Exit(NOT_STORED) from error
    except (AttriboundError, OSError):
        raise
    except Exception as error:
        crashed(error, texts.how_to_resume(folder) if auditing.is_run(folder) else "")
    summaries = auditing.summarise(run.rows())
    _report(run, summaries, quiet=quiet, as_json=as_json)
    exceeded = auditing.totals(summaries)
    if any((share := exceeded.get(each)) is not None and share.count for each in watched):
        raise typer.Exit(EXCEEDED)
    if any(summary.errors for summary in summaries):
        raise typer.Exit(FAILED)


def _document(config: Path | None, resumed: Path | None) -> dict[str, Any]:
    """Settings to begin with: a file's, or those of the run that goes on."""
    if config is not None and config.name == "run.json":
        return dict(manifest.Manifest.read(config.parent).settings)
    if config is not None:
        return read_toml(config)
    if resumed is not None and auditing.is_run(resumed):
        return dict(manifest.Manifest.read(resumed).settings)
    return {}


def _refuse_elsewhere(engine: str, address: str | None, gpus: float) -> None:
    """Refuse what no engine can do; first of all, as it takes no time."""
    if engine not in ("local", "ray"):
        raise InputError("--engine", expected="local or ray", got=engine, remedy="choose one")
    if engine == "local" and (address is not None or gpus):
        raise InputError(
            "--address and --gpus",
            expected="--engine ray",
            got="--engine local",
            remedy="add --engine ray; the device of a local audit is --set device=cuda",
        )


def _engine(
    name: str, workers: int | None, threads: int | None, address: str | None, gpus: float
) -> auditing.Engine:
    if name == "ray":
        return auditing.RayEngine(address=address, workers=workers, cpus=threads or 1, gpus=gpus)
    return auditing.LocalEngine(workers or _cores() // (threads or 1) or 1, threads)


def _patient(engine: auditing.Engine, seconds: float | None) -> auditing.Engine:
    assert isinstance(engine, (auditing.LocalEngine, auditing.RayEngine))
    return engine if seconds is None else replace(engine, patience=seconds)


def _cores() -> int:
    """Those this process may use, which in a container may be fewer than there are."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _report(run: auditing.Run, summaries: list[Summary], *, quiet: bool, as_json: bool) -> None:
    if as_json:
        shares, yours = auditing.totals(summaries), summary.yours_totals(summaries)
        found = {
            "run": str(run.path),
            "finished": run.finished,
            "answer": report.answers(run).headline,
            "samples": run.manifest.samples,
            "errors": sum(summary.errors for summary in summaries),
            "smooth": run.manifest.settings.get("smooth"),
            # With a smooth copy: on the copy or on the network itself, and on that alone.
            "exceeded": {name: share and vars(share) for name, share in shares.items()},
            "yours_exceeded": {name: share and vars(share) for name, share in yours.items()},
            "reasons": [vars(claim) for each in report.reasons.lists(run) for claim in each.claims],
            "settings": [summary.record() for summary in summaries],
        }
        typer.echo(json.dumps(found, indent=1, allow_nan=False))
    elif not quiet:
        terminal(wide=_WIDE).print(report.console(run))
        typer.echo(f"run: {run.path}; its page: attribound report {shlex.quote(str(run.path))}")
