"""Records as TensorBoard event files."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attribound.basics.packages import package
from attribound.training.log import Record


class EventFiles:
    """Writes the numbers of records; after a resume, what was after the checkpoint is hidden.

    Raises:
        InputError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, step: int) -> None:
        package("tensorboard", extra="tensorboard", purpose="event files")
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        self._writer: Any = writer(str(folder), purge_step=step + 1 if step else None)

    def append(self, record: Record) -> None:
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
