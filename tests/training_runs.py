"""Small trainings, and what must be the same in two of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from attribound.training.config import TrainingConfig
from attribound.values import changed, from_spec

DIGITS = {
    "threads": 1,
    "batch": 64,
    "epochs": 2,
    "log_every": 7,
    "data": {"name": "digits", "limit": 520, "held_out": 40},
    "network": {"hidden": [12]},
    "method": {"kind": "at", "steps": 2},
    "evaluation": {"attacked": 20, "attack_steps": 2, "explained": 4, "explain_steps": 2},
}


def config(*settings: str, table: dict[str, Any] = DIGITS) -> TrainingConfig:
    """A training of seconds on the digits, with settings such as ``epochs=3`` changed."""
    return from_spec(changed(table, settings), TrainingConfig)


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def records(out: Path) -> list[dict[str, Any]]:
    """The log without times, which differ from run to run."""
    lines = (out / "log.jsonl").read_text().splitlines()
    timed = ("seconds", "cpu_seconds")
    return [{k: v for k, v in json.loads(line).items() if k not in timed} for line in lines]


def images(path: Path, shape: tuple[int, ...] = (1, 28, 28), count: int = 60) -> str:
    """An ``.npz`` file of random images in three classes that differ in brightness."""
    rng = np.random.default_rng(0)
    y = np.arange(count) % 3
    x = rng.integers(0, 80, (count, *shape)) + 60 * y.reshape(-1, *[1] * len(shape))
    file = path / "images.npz"
    np.savez(file, x=x.astype(np.uint8), y=y)
    return str(file)
