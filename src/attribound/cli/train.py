"""``attribound train``: train a network, from a TOML file and options."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attribound.basics.later import Later
from attribound.basics.toml_files import read_toml
from attribound.cli import texts

if TYPE_CHECKING:
    from attribound import training, values, zoo
    from attribound.training import directory
else:
    training, values, zoo = map(
        Later, ("attribound.training", "attribound.values", "attribound.zoo")
    )
    directory = Later("attribound.training.directory")

#: Warm starts that are names of the zoo.
_ZOO = "zoo:"


def train(  # noqa: PLR0913, PLR0917 - options of a command
    out: Annotated[Path, typer.Option(help="Directory for everything the training writes.")],
    config: Annotated[
        Path | None, typer.Option(help="Settings in TOML: FILE, or FILE#TABLE.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Name or path of the data.")] = None,
    method: Annotated[
        str | None, typer.Option(help="ce, at:steps=7, trades, trades+igr, MODULE:CLASS, ...")
    ] = None,
    ball: Annotated[
        str | None, typer.Option(help="What the attacker may do: linf:epsilon=0.1,low=0,high=1")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Radius of the ball.")] = None,
    epochs: Annotated[int | None, typer.Option(help="How often each example is seen.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.")] = None,
    threads: Annotated[int | None, typer.Option(help="Of PyTorch, in each process.")] = None,
    warm_start: Annotated[
        str | None, typer.Option(help="Weights to begin with: a file, or zoo:NAME.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting: PATH=VALUE, e.g. optimiser.lr=0.002"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the training in OUT was stopped.")
    ] = False,
    trust: texts.Trust = False,  # noqa: ARG001 - read before
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write event files into OUT/tensorboard.")
    ] = False,
    devices: Annotated[int, typer.Option(min=1, help="How many devices.")] = 1,
    accelerator: Annotated[str, typer.Option(help="cpu, gpu or auto.")] = "auto",
) -> None:
    """Train a network; options override the settings in CONFIG.

    Killed or stopped at any moment, the same command with --resume goes on and
    gives the same weights; --out and --resume are enough.
    """
    table = read_toml(config) if config is not None else {}
    if resume and config is None and directory.Directory(out).config.exists():
        table = directory.stored_settings(directory.Directory(out))
    if method is not None:
        table = _with_method(table, method)
    given = {
        "data.name": data,
        "ball": ball,
        "ball.epsilon": epsilon,
        "epochs": epochs,
        "seed": seed,
        "threads": threads,
        "warm_start": warm_start,
    }
    options = [f"{k}={json.dumps(value)}" for k, value in given.items() if value is not None]
    document = values.changed(table, [*options, *(settings or [])])
    chosen = _with_zoo(values.from_spec(document, training.TrainingConfig))
    try:
        result = training.train(
            chosen,
            out,
            resume=resume,
            progress=not quiet,
            tensorboard=tensorboard,
            hardware=training.Hardware(accelerator, devices),
        )
    except training.Stopped as stopped:
        typer.echo(f"attribound: {stopped}", err=True)
        raise typer.Exit(128 + stopped.signal) from stopped
    if result.rank == 0:
        _report(result.summary, out, as_json=as_json)


def _with_method(table: dict[str, Any], text: str) -> dict[str, Any]:
    """The method that is asked for; a name alone leaves the settings of the same one in a file."""
    asked = values.from_spec(text, training.TrainingObjective)
    if "method" in table and "=" not in text:
        there = values.from_spec(table["method"], training.TrainingObjective)
        if type(there) is type(asked):
            return table
    return {**table, "method": text}


def _with_zoo(config: training.TrainingConfig) -> training.TrainingConfig:
    """``config`` with a warm start from the zoo as a file."""
    warm = config.warm_start
    if warm is None or not warm.file.startswith(_ZOO):
        return config
    file = zoo.path(warm.file.removeprefix(_ZOO))
    return replace(config, warm_start=replace(warm, file=str(file), label=warm.file))


def _report(summary: Any, out: Path, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(summary, indent=1))
        return
    found = summary["evaluation"]
    scores = "" if found is None else f", {100 * found['clean_accuracy']:.1f} % clean"
    if found is not None and found["adversarial_accuracy"] is not None:
        scores += f", {100 * found['adversarial_accuracy']:.1f} % under attack"
    typer.echo(
        f"{summary['steps']} steps in {summary['seconds']:.0f} s{scores}: {out}/model.safetensors"
    )
