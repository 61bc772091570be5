"""The directory of a training: what is where, who may write, and what a resume must agree with."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attribound.basics import limits
from attribound.basics.errors import InputError
from attribound.basics.locking import Lock
from attribound.basics.whole_files import made_folder, write_whole

_SHOWN = 5
#: What changes nothing in the result; of a warm start the checksum is compared.
_FREE = ("checkpoint", "data.root", "warm_start")


@dataclass(frozen=True)
class Directory:
    """The files of one training.

    ``config.json`` is written at the start, ``log.jsonl`` and ``checkpoints/`` on the way,
    ``model.safetensors`` and then ``summary.json`` at the end.
    """

    path: Path

    @property
    def config(self) -> Path:
        """Every setting, and what else determines the result."""
        return self.path / "config.json"

    @property
    def log(self) -> Path:
        """One record a line."""
        return self.path / "log.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Until the end."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """The trained network."""
        return self.path / "model.safetensors"

    @property
    def summary(self) -> Path:
        """There if and only if the training is finished."""
        return self.path / "summary.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No other process trains here; the lock goes with the process, however it ends."""
        made_folder(self.path)
        lock = Lock(self.path)
        try:
            yield
        finally:
            lock.release()

    def claim(self, document: Mapping[str, Any], *, resume: bool) -> None:
        """Write ``document`` as the config, or make sure that what is there is the same training.

        Raises:
            InputError: there is a training and ``resume`` is off, or it is another one.
        """
        if not self.config.exists():
            there = [f.name for f in (self.log, self.model, self.summary) if f.exists()]
            if there:
                raise self._in_use(f"{there[0]} without config.json", "choose another directory")
            write_json(self.config, document)
            return
        if not resume:
            remedy = "pass --resume (resume=True) to go on with it, or choose another directory"
            raise self._in_use("one that has a training", remedy)
        found = differences(_identity(read_json(self.config)), _identity(document))
        if found:
            raise InputError(
                str(self.path),
                expected="a training with the same settings, data and devices",
                got="; ".join(found[:_SHOWN]) + ("; ..." if len(found) > _SHOWN else ""),
                remedy="restore these to resume it, or choose another directory",
            )

    def _in_use(self, got: str, remedy: str) -> InputError:
        return InputError(
            str(self.path), expected="an empty or new directory", got=got, remedy=remedy
        )


def write_json(path: Path, document: object) -> None:
    """Write JSON beside ``path``, wait until it is on the disk, and move it there."""
    write_whole(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """What ``write_json`` wrote.

    Raises:
        InputError: the file is no JSON.
    """
    try:
        return limits.read_json(path)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            str(path),
            expected="JSON, as a training writes it",
            got=str(error),
            remedy="the file was damaged: restore it, or train anew in another directory",
        ) from error


def stored_settings(directory: Directory) -> dict[str, Any]:
    """The settings of the training in a directory.

    Raises:
        InputError: its description has none.
    """
    document = read_json(directory.config)
    table = document.get("settings") if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise InputError(
            str(directory.config),
            expected="the description of a training, with its settings",
            got="none" if table is None else type(table).__name__,
            remedy="the file was damaged: restore it, or train anew in another directory",
        )
    return table


def differences(there: object, here: object, path: str = "") -> list[str]:
    """Where two JSON values differ, as texts."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        keys = [*there, *(key for key in here if key not in there)]
        return [
            difference
            for key in keys
            for difference in differences(
                there.get(key), here.get(key), f"{path}.{key}" if path else str(key)
            )
        ]
    return [] if there == here else [f"{path} is {there!r} there and {here!r} here"]


def versions() -> dict[str, str | None]:
    """What the training runs with; the commit is that of a source checkout, if it is one."""
    return {
        "attribound": importlib.metadata.version("attribound"),
        "torch": str(torch.__version__),  # a class of its own, which no checkpoint may hold
        "python": platform.python_version(),
        "commit": _commit(Path(__file__).resolve().parents[3]),
    }


def _identity(document: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a config document that determines the result."""
    identity = {key: value for key, value in document.items() if key != "versions"}
    settings = dict(identity.get("settings", {}))
    for path in _FREE:
        table, _, key = path.partition(".")
        if not key:
            settings.pop(table, None)
        elif isinstance(settings.get(table), Mapping):
            settings[table] = {k: v for k, v in settings[table].items() if k != key}
    return {**identity, "settings": settings}


@functools.cache
def _commit(checkout: Path) -> str | None:
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()
