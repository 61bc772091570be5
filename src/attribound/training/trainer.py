"""Train a network: one call, one directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attribound import models
from attribound.balls.ball import check_ball
from attribound.basics.packages import package
from attribound.basics.whole_files import sha256_of
from attribound.training.config import TrainingConfig
from attribound.training.directory import Directory, read_json, versions, write_json
from attribound.training.loop import Loop, TrainingRun
from attribound.training.network import FirstNetwork, check_fit, first_network
from attribound.training.parts import DataParts, in_units, load_parts
from attribound.values import fingerprints, to_spec


@dataclass(frozen=True)
class Hardware:
    """Where to train, as Lightning Fabric names it.

    Attributes:
        accelerator: ``"cpu"``, ``"gpu"``, ``"auto"`` (what there is), ...
        devices: how many; each batch is divided among them.
    """

    accelerator: str = "auto"
    devices: int = 1


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A trained network.

    Attributes:
        model: on the CPU, in eval mode, as stored in ``model.safetensors``.
        summary: what ``summary.json`` says.
        rank: the number of this process; with several devices all get a result.
    """

    model: nn.Module
    summary: Mapping[str, Any]
    rank: int = 0


def train(
    config: TrainingConfig,
    out: str | Path,
    *,
    resume: bool = False,
    progress: bool = True,
    tensorboard: bool = False,
    hardware: Hardware | None = None,
) -> TrainingResult:
    """Train the network of ``config``; everything that happens is written into ``out``.

    The result depends on the config, the data, the devices and the number of threads only: a
    training that was killed at any moment and resumed gives the weights, bit for bit, of
    one that was not (on CPUs; some operations of GPUs are not reproducible).

    Args:
        config: what to do.
        out: a new directory, or that of a training to resume.
        resume: go on from the last checkpoint; where there is no training yet, begin one.
        progress: show a live table on a terminal, lines elsewhere, on standard error.
        tensorboard: also write event files into ``out/tensorboard``.
        hardware: where to train; default one device, a GPU if there is one.

    Raises:
        InputError: config and data do not fit, or ``out`` has something else; says what.
        NotFiniteError: a loss or a gradient became NaN or infinite; says where.
        Stopped: Ctrl-C; the state was saved.
    """
    lightning = package("lightning_fabric", extra="train", purpose="training")
    hardware = hardware or Hardware()
    fabric = lightning.Fabric(
        accelerator=hardware.accelerator, devices=hardware.devices, precision=config.precision
    )
    directory = Directory(Path(out).expanduser())
    first = fabric.global_rank == 0
    with directory.locked() if first else nullcontext(), _threads(config.threads):
        # Refused before other processes are started, which would wait for this one.
        parts = load_parts(config.data)
        config = in_units(config, parts.train)
        start = _prepared(config, parts)
        if first:
            directory.claim(_document(fabric, config, parts, start), resume=resume)
        if not directory.summary.exists():
            fabric.launch(
                _train, TrainingRun(config, parts, start, directory, progress, tensorboard)
            )
    summary = read_json(directory.summary)
    return TrainingResult(models.load(directory.model), summary, fabric.global_rank)


def _prepared(config: TrainingConfig, parts: DataParts) -> FirstNetwork:
    """The network, which fits the data."""
    shape, classes = parts.train.shape, len(parts.train.classes)
    start = first_network(config.network, config.warm_start, shape, classes, config.seed)
    x = parts.train.read(torch.arange(min(2, len(parts.train))))
    check_fit(start.model, x, classes)
    check_ball(config.ball, x)
    return start


def _train(fabric: Any, run: TrainingRun) -> None:
    """What every process does."""
    loop = Loop(fabric, run)
    loop.train()
    if fabric.is_global_zero:
        summary, directory = loop.finish(), run.directory
        write_json(directory.summary, {**summary, "sha256": sha256_of(directory.model)})
        shutil.rmtree(directory.checkpoints, ignore_errors=True)
    fabric.barrier()


def _document(
    fabric: Any, config: TrainingConfig, parts: DataParts, start: FirstNetwork
) -> dict[str, Any]:
    """What ``config.json`` says: all that determines the result, and the versions.

    Methods and balls of a user's own are recognised by the fingerprint of their code.
    """
    return {
        "settings": to_spec(config, whole=True),
        "code": fingerprints(config),
        "network": start.config.to_json(),
        "data": {
            "name": parts.train.name,
            "train": len(parts.train),
            "held_out": len(parts.held_out),
            "classes": list(parts.train.classes),
            "fingerprint": parts.fingerprint,
        },
        "warm_start_sha256": start.sha256,
        "devices": {"kind": fabric.device.type, "count": fabric.world_size},
        "versions": versions(),
    }


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
