"""A zoo of tiny untrained networks for the digits; what their cards say is measured."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import torch

from attribound.basics import sha256_of
from attribound.models import MLPConfig, build, save
from attribound.zoo import Card, CardProtocol, Licence, Weights, write_card
from reproduction.zoo.measuring import images_of, measure
from reproduction.zoo.protocols import protocol_of

CONFIG = MLPConfig(features=64, hidden=(8,), classes=10)


def quick(images: int = 40) -> CardProtocol:
    """The protocol of the digits with fewer steps and images."""
    usual = protocol_of("digits").limited(images)
    return replace(
        usual,
        predictions=replace(
            usual.predictions, attack=replace(usual.predictions.attack, steps=3, step_size=0.05)
        ),
        attributions=replace(
            usual.attributions,
            attack=replace(usual.attributions.attack, steps=3, step_size=0.02),
            images=5,
        ),
    )


def make(root: Path, name: str = "digits/ce-mlp", *, seed: int = 0, weights: bool = True) -> Card:
    """Weights and card of a model in the directory ``root``, as shipped."""
    file = root / f"{name}.safetensors"
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    model = build(CONFIG).eval()
    save(model, CONFIG, file)
    x, y = images_of("digits")
    made = Card(
        name=name,
        data="digits",
        method=name.partition("/")[2].removesuffix("-mlp"),
        network=CONFIG.to_json(),
        training={"epochs": 0, "optimiser": {"name": "adam", "lr": 1e-3}, "milestones": [1, 2]},
        seed=seed,
        epochs=0,
        warm_start=None,
        cpu_seconds=60.0 * seed,
        weights=Weights(sha256=sha256_of(file), bytes=file.stat().st_size),
        measured=measure(model, x, y, quick()),
        date=datetime.date(2025, 1, 2),
        versions={"torch": torch.__version__},
        licence=Licence(weights="Apache-2.0", data="CC BY 4.0"),
        commit=None,
    )
    write_card(made, root / f"{name}.json")
    if not weights:
        file.unlink()
    return made
