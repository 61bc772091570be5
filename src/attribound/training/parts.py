"""The examples a training sees, what is held out, and a fingerprint of both."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch

from attribound.auditing.tables import FeatureMoments, TableSettings, ball_in_units
from attribound.basics.errors import InputError
from attribound.data import Examples, Split, load, split
from attribound.data.splits import UNDIVIDED
from attribound.training.config import TrainingConfig, TrainingData

#: Examples whose values enter the fingerprint; the labels of all do.
_FINGERPRINTED = 4096


@dataclass(frozen=True, eq=False)
class DataParts:
    """Examples to train on, and those held out to measure progress on."""

    train: Examples
    held_out: Examples

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all labels, and of the values of up to 4,096 examples spread evenly."""
        digest = hashlib.sha256()
        for part in (self.train, self.held_out):
            digest.update(f"{len(part)} {part.shape} {part.classes}".encode())
            digest.update(part.labels.numpy().tobytes())
            count = min(len(part), _FINGERPRINTED)
            rows = torch.arange(count) * len(part) // max(count, 1)
            for first in range(0, count, 256):
                digest.update(part.read(rows[first : first + 256]).numpy().tobytes())
        return digest.hexdigest()


def load_parts(data: TrainingData) -> DataParts:
    """The data of a config, divided with its own seed.

    Raises:
        InputError: there is no such data, or there are fewer examples than asked for.
    """
    part: Split | None = "train" if data.part == "train" else None
    try:
        whole = load(data.name, part, root=data.root, size=data.size, layout=data.layout)
    except InputError as error:
        sized = error.naming("pass size=", "add data.size=128, or --set data.size=128,")
        undivided = 'set data.part="whole", or --set data.part=whole: held_out is taken from it'
        raise sized.naming(UNDIVIDED, undivided) from None
    limit = len(whole) if data.limit is None else data.limit
    if data.held_out >= limit or limit > len(whole):
        raise InputError(
            "data",
            expected=f"limit up to {len(whole)}, the examples there are, and held_out below it",
            got=f"limit={data.limit}, held_out={data.held_out}",
            remedy="lower held_out, or correct limit",
        )
    held_out, train = split(whole, (data.held_out, limit - data.held_out), data.seed)
    return DataParts(train, held_out)


def in_units(config: TrainingConfig, train: Examples) -> TrainingConfig:
    """``config`` of a training on a table: the network standardises, the ball has its units.

    As in audits: radii count standard deviations of the training part, categories can't change. A
    normalisation, a warm start or a scale of its own stays.
    """
    if train.columns is None:
        return config
    moments = FeatureMoments.of(train)
    network = dict(config.network)
    if config.warm_start is None:
        own = {"mean": moments.mean.tolist(), "std": moments.std.tolist()}
        network.setdefault("normalisation", own)
    ball = ball_in_units(config.ball, TableSettings(), train.columns, moments)
    return replace(config, network=network, ball=ball)
