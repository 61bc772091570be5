"""The log of a training: typed records, one a line, none lost and none twice after a resume.

On request they become event files of TensorBoard, too.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from attribound.basics.errors import InputError
from attribound.basics.packages import package
from attribound.metrics import Similarity


@dataclass(frozen=True)
class StepRecord:
    """What happened in the steps since the record before.

    Attributes:
        step: steps done.
        epoch: epochs done, with its fraction.
        epsilon, lr: of the last step.
        loss, terms: means over these steps.
        gradient_norm: mean, before clipping.
        accuracy, attacked_accuracy: of the last step's batch at x and x', before the step,
            in eval mode.
        seconds, cpu_seconds: since the training began, without pauses; CPU of all processes.
    """

    step: int
    epoch: float
    epsilon: float
    lr: float
    loss: float
    terms: Mapping[str, float]
    gradient_norm: float
    accuracy: float
    attacked_accuracy: float
    seconds: float
    cpu_seconds: float
    kind: Literal["steps"] = "steps"


@dataclass(frozen=True)
class EvaluationRecord:
    """What the network is worth after some epochs, on held-out examples.

    Attributes:
        step, epoch: done.
        clean_accuracy: on all held-out examples.
        adversarial_accuracy: on the first of them, under PGD at the full epsilon, if asked for.
        similarity: of integrated gradients under IFIA, if asked for and to be had.
        unexplained: why there is none, although it was asked for.
        seconds, cpu_seconds: since the training began.
    """

    step: int
    epoch: float
    clean_accuracy: float
    adversarial_accuracy: float | None
    similarity: Similarity | None
    unexplained: str | None
    seconds: float
    cpu_seconds: float
    kind: Literal["evaluation"] = "evaluation"


LogRecord = StepRecord | EvaluationRecord


class Log:
    """Appends records to a JSONL file.

    Args:
        path: of the file.
        keep: bytes of it that are kept: what was there at the checkpoint. The rest is of
            steps that will be done again.

    Raises:
        InputError: there are fewer.
    """

    def __init__(self, path: Path, keep: int) -> None:
        there = path.stat().st_size if path.exists() else 0
        if there < keep:
            raise InputError(
                str(path),
                expected=f"the {keep} bytes it had at the checkpoint",
                got=f"{there} bytes",
                remedy="restore it, or train anew in another directory",
            )
        self._file = path.open("ab")
        self._file.truncate(keep)

    def append(self, record: LogRecord) -> None:
        """Write one line."""
        line = json.dumps(asdict(record), allow_nan=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def written(self) -> int:
        """The length of the file, once it is on the disk."""
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class EventFiles:
    """Writes the numbers of records; after a resume, what was after the checkpoint is hidden.

    Raises:
        InputError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, step: int) -> None:
        package("tensorboard", extra="tensorboard", purpose="event files")
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        self._writer: Any = writer(str(folder), purge_step=step + 1 if step else None)

    def append(self, record: LogRecord) -> None:
        """Write every number of ``record`` as a scalar of its own."""
        for name, value in _numbers("", asdict(record)).items():
            self._writer.add_scalar(f"{record.kind}/{name}", value, record.step)

    def close(self) -> None:
        """Write what is waiting."""
        self._writer.close()


def _numbers(path: str, value: object) -> dict[str, float]:
    if isinstance(value, dict):
        inner = [_numbers(f"{path}.{key}" if path else key, item) for key, item in value.items()]
        return {name: number for part in inner for name, number in part.items()}
    return {path: float(value)} if isinstance(value, (int, float)) else {}


class Meter:
    """Means over the steps since the last record; its ``sums`` go into checkpoints."""

    def __init__(self, sums: Mapping[str, float] | None = None) -> None:
        self.sums = dict(sums or {})

    def add(self, values: Mapping[str, float]) -> None:
        """Count one step."""
        for name, value in {**values, "": 1.0}.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def flush(self) -> dict[str, float]:
        """The means, and start over."""
        count = self.sums.pop("")
        means = {name: total / count for name, total in self.sums.items()}
        self.sums = {}
        return means
