"""Make a model of the zoo, weights and measured card, out of a finished training."""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from attribound import InputError
from attribound.basics import sha256_of, store_whole
from attribound.data import NAMES
from attribound.models import load
from attribound.zoo import (
    Card,
    CardProtocol,
    Licence,
    Measurement,
    WarmStart,
    Weights,
    check_describes,
    parse_card,
    to_json,
    write_card,
)
from reproduction.zoo.measuring import images_of, measure
from reproduction.zoo.protocols import protocol_of

#: Of the weights this project trains.
LICENCE = "Apache-2.0"

#: What the authors of the data say of its use.
DATA_LICENCES = {
    "digits": "CC BY 4.0 (UCI, Optical Recognition of Handwritten Digits)",
    "mnist": "CC BY-SA 3.0, by Y. LeCun and C. Cortes, as its mirrors state",
    "fashion-mnist": "MIT, by Zalando SE",
    "cifar10": "none stated by its author, A. Krizhevsky",
    "flowers17": "none stated by its authors, M.-E. Nilsback and A. Zisserman",
    "credit-german": "CC BY 4.0 (UCI, Statlog German Credit Data, H. Hofmann)",
    "credit-taiwan": "CC BY 4.0 (UCI, Default of Credit Card Clients, I.-C. Yeh)",
    "imagenet": "for research without commercial use, by its terms of access",
}


def add(
    run: str | Path,
    name: str,
    place: str | Path,
    *,
    cards: str | Path | None = None,
    protocol: CardProtocol | None = None,
    replace: bool = False,
) -> Card:
    """Measure the network of a finished training, and put its weights and card into a zoo.

    Args:
        run: directory of the training (``config.json``, ``summary.json``, ``model.safetensors``).
        name: in the zoo; must say what the model is.
        place: directory of the zoo, for the weights and the card.
        cards: directory for the card, if another.
        protocol: how to measure; default: as usual for the data.
        replace: overwrite a model of that name.

    Raises:
        InputError: the training is not finished, the name tells another story, or is taken.
    """
    run = Path(run)
    config, summary = _read(run / "config.json"), _read(run / "summary.json")
    weights = run / "model.safetensors"
    digest = sha256_of(weights) if weights.is_file() else "no file"
    if digest != summary.get("sha256"):
        raise InputError(
            str(weights),
            expected=f"sha256 {summary.get('sha256')}, as summary.json says",
            got=digest,
            remedy="the file is not what the training wrote: restore it, or train again",
        )
    with _as_the_trainer_writes(run):
        data = config["data"]["name"]
        method, network = config["settings"]["method"]["kind"], config["network"]["architecture"]
    check_describes(name, data, method, network)
    at = Path(cards or place) / f"{name}.json"
    _check_free(at, data, replace)
    measured = measure(load(weights), *images_of(data), protocol or protocol_of(data))
    size = Weights(sha256=digest, bytes=weights.stat().st_size)
    with _as_the_trainer_writes(run):
        card = _card(name, config, summary, size, measured)
    # Read as it will be: what the trainer wrote is checked like any card.
    card = parse_card(to_json(card), at.name)
    file = Path(place) / f"{name}.safetensors"
    file.parent.mkdir(parents=True, exist_ok=True)
    store_whole(file, weights.read_bytes())
    write_card(card, at)
    return card


@contextmanager
def _as_the_trainer_writes(run: Path) -> Iterator[None]:
    """Say what is wrong with the files of a training that lack something."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            str(run),
            expected="a training as this version of attribound writes it",
            got=f"{type(error).__name__}: {error}",
            remedy="add it with the version that trained it",
        ) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            str(path),
            expected="a file of a finished training",
            got=f"{type(error).__name__}: {error}",
            remedy="finish it with `attribound train --resume`, or check the directory",
        ) from error
    return found if isinstance(found, dict) else {}


def _check_free(at: Path, data: str, replace: bool) -> None:
    if data not in NAMES:
        raise InputError(
            "data",
            expected=f"one of {', '.join(NAMES)}, so that others can measure it",
            got=repr(data),
            remedy="models for other data are loaded with attribound.models.load",
        )
    if at.exists() and not replace:
        raise InputError(
            str(at),
            expected="a name that is free",
            got="a card of that name",
            remedy="choose another name, or pass --replace (replace=True)",
        )


def _card(
    name: str,
    config: dict[str, Any],
    summary: dict[str, Any],
    weights: Weights,
    measured: Measurement,
) -> Card:
    settings = config["settings"]
    versions = dict(config["versions"])
    commit = versions.pop("commit")
    start = None
    if config["warm_start_sha256"] is not None:
        label = settings["warm_start"]["label"]
        origin = label.removeprefix("zoo:") if label and label.startswith("zoo:") else None
        start = WarmStart(name=origin, sha256=config["warm_start_sha256"])
    return Card(
        name=name,
        data=config["data"]["name"],
        method=settings["method"]["kind"],
        network=config["network"],
        training=_without_folders(config),
        seed=settings["seed"],
        epochs=summary["epochs"],
        warm_start=start,
        cpu_seconds=summary["cpu_seconds"],
        weights=weights,
        measured=measured,
        date=datetime.datetime.now(datetime.timezone.utc).date(),
        versions=versions,
        licence=Licence(weights=LICENCE, data=DATA_LICENCES[config["data"]["name"]]),
        commit=commit,
    )


def _without_folders(config: dict[str, Any]) -> dict[str, Any]:
    """The config without what only the machine that trained knows: where its files lay."""
    shown = copy.deepcopy(config)
    settings = shown["settings"]
    settings["data"]["root"] = None
    if settings["warm_start"] is not None:
        settings["warm_start"]["file"] = PurePath(settings["warm_start"]["file"]).name
    return shown
