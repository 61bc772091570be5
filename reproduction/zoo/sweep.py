"""Train one recipe with several values of a setting, and compare them on held-out images.

    .venv/bin/python -m reproduction.zoo.sweep fashion-mnist/art method.weight=0.5,2,8

The images are those the recipe holds out of its training set: no test image chooses a
setting. What the training starts from is measured on them, too. Results are kept in
``sweeps/<name>.json`` beside this file and a row that is there is not made again; ``runs/sweeps``
has the trainings. ``--table`` only prints what is there.
"""

# ruff: noqa: S603, T201 - a script that prints, and starts processes

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attribound import data, models, zoo
from attribound.basics import read_toml, render, store_whole
from attribound.training import TrainingConfig, load_parts
from attribound.values import changed, from_spec
from reproduction.zoo.measuring import measure
from reproduction.zoo.protocols import protocol_of
from reproduction.zoo.train import place_of

HERE = Path(__file__).resolve().parent
Row = dict[str, Any]


def wanted(recipe: Path, over: str, others: list[str]) -> list[list[str]]:
    """The settings of each training; none for what all of them start from."""
    key, _, values = over.partition("=")
    swept = [sorted([f"{key}={value}", *others]) for value in values.split(",")]
    return [[], *swept] if from_spec(read_toml(recipe), TrainingConfig).warm_start else swept


def train(recipe: Path, settings: list[str], run: Path) -> Path:
    """Train with ``settings`` on top of the recipe, going on where it was stopped."""
    command = [sys.executable, "-m", "attribound.cli", "train", "--config", str(recipe)]
    command += [text for setting in settings for text in ("--set", setting)]
    subprocess.run([*command, "--out", str(run), "--resume", "--quiet"], check=True)
    return run / "model.safetensors"


def measured(weights: Path, recipe: Path, images: int) -> Row:
    """A model's numbers on the first held-out images of a recipe, by its data's protocol."""
    config = from_spec(read_toml(recipe), TrainingConfig)
    x, y = data.arrays(load_parts(config.data).held_out)
    protocol = protocol_of(config.data.name)
    protocol = replace(protocol, attributions=replace(protocol.attributions, images=images))
    found = measure(models.load(weights), x, y, protocol)
    similarity = found.similarity
    return {
        "clean": found.clean.value,
        "attacked": found.attacked.value,
        "kendall": similarity and similarity.kendall.value,
        "kendall_error": similarity and similarity.kendall.standard_error,
        "images": [len(x), similarity.n if similarity else 0],
    }


HEADER = ("settings", "clean", "under PGD", "Kendall")


def cells(rows: list[Row]) -> list[tuple[str, ...]]:
    """All rows as they are printed, best first by Kendall."""
    return [
        (
            " ".join(row["settings"]) or f"start: {row['start']}",
            f"{100 * row['clean']:.1f}%",
            f"{100 * row['attacked']:.1f}%",
            f"{row['kendall'] or 0:.3f} ± {row['kendall_error'] or 0:.3f}",
        )
        for row in sorted(rows, key=lambda row: -(row["kendall"] or 0))
    ]


def title(rows: list[Row]) -> str:
    """On which images."""
    images, explained = rows[0]["images"]
    return f"{images:,} held-out images, {explained} of them for Kendall under IFIA"


def markdown(folder: Path) -> str:
    """Every sweep that is kept."""
    parts = []
    for file in sorted(folder.glob("*/*.json")):
        rows: list[Row] = json.loads(file.read_text())
        name = file.relative_to(folder).with_suffix("").as_posix()
        lines = [
            f"`{name}`: {title(rows)}.",
            "",
            f"| {' | '.join(HEADER)} |",
            "|---|---:|---:|---:|",
        ]
        parts.append("\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells(rows))]))
    return "\n\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line; train and measure what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="a recipe, for example fashion-mnist/art")
    parser.add_argument("over", nargs="?", help="setting=value,value,...")
    parser.add_argument("--set", action="append", default=[], help="a setting for all of them")
    parser.add_argument("--images", type=int, default=200, help="images for Kendall")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    parser.add_argument("--recipes", type=Path, default=HERE / "recipes", help="where recipes are")
    parser.add_argument("--runs", type=Path, default=HERE / "runs" / "sweeps")
    parser.add_argument("--to", type=Path, default=HERE / "sweeps", help="where results are kept")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    recipe = place_of(options.recipes, options.name)
    kept = options.to / f"{options.name}.json"
    rows: list[Row] = json.loads(kept.read_text()) if kept.exists() else []
    if options.over and not options.table:
        for settings in wanted(recipe, options.over, options.set):
            if all(row["settings"] != settings for row in rows):
                rows.append(_row(recipe, settings, options))
                kept.parent.mkdir(parents=True, exist_ok=True)
                store_whole(kept, f"{json.dumps(rows, indent=1)}\n".encode())
    print(render(title(rows), HEADER, cells(rows)) if rows else f"no sweep of {options.name} yet")
    return 0


def _row(recipe: Path, settings: list[str], options: argparse.Namespace) -> Row:
    """Train and measure one; without settings, what the recipe starts from."""
    config = from_spec(changed(read_toml(recipe), settings), TrainingConfig)
    if not settings and config.warm_start is not None:
        start = config.warm_start.file
        named = start.startswith("zoo:")
        weights = zoo.path(start.removeprefix("zoo:")) if named else Path(start)
        return {"settings": [], "start": start, **measured(weights, recipe, options.images)}
    run = options.runs / options.name / "_".join(settings).replace("/", "-")
    weights = train(recipe, settings, run)
    summary = json.loads((run / "summary.json").read_text())
    cost = {name: summary[name] for name in ("steps", "cpu_seconds") if name in summary}
    return {"settings": settings, **cost, **measured(weights, recipe, options.images)}


if __name__ == "__main__":
    sys.exit(main())
