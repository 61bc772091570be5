"""Checkpoints: one folder each, whole or not there, every byte under a checksum."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attribound import models
from attribound.basics.errors import InputError
from attribound.basics.whole_files import sha256_of, sync_folder
from attribound.training.directory import read_json, write_json

_NAME = re.compile(r"step-(\d{9})")
_WEIGHTS, _STATE, _MANIFEST = "model.safetensors", "state.pt", "manifest.json"


def save_checkpoint(
    folder: Path, step: int, model: nn.Module, config: models.Config, state: dict[str, Any]
) -> Path:
    """Write the checkpoint of ``step`` into ``folder``; those before it go when it is complete.

    It is written into a hidden folder, waited for until it is on the disk, and renamed:
    killed at any moment, ``folder`` holds the checkpoint before or this one.
    """
    target = folder / f"step-{step:09d}"
    unfinished = folder / f".{target.name}"
    folder.mkdir(exist_ok=True)
    if not target.exists():
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        models.save(model, config, unfinished / _WEIGHTS)
        with (unfinished / _STATE).open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        sums = {name: sha256_of(unfinished / name) for name in (_WEIGHTS, _STATE)}
        write_json(unfinished / _MANIFEST, {"step": step, "sha256": sums})
        unfinished.rename(target)
        sync_folder(folder)
    for entry in folder.iterdir():
        if entry != target:
            shutil.rmtree(entry, ignore_errors=True)
    return target


def latest_checkpoint(folder: Path) -> Path | None:
    """The complete checkpoint of the highest step in ``folder``, if there is one."""
    found = folder.iterdir() if folder.is_dir() else ()
    return max((entry for entry in found if _NAME.fullmatch(entry.name)), default=None)


def load_checkpoint(path: Path, model: nn.Module) -> tuple[int, dict[str, Any]]:
    """Put the weights stored at ``path`` into ``model``; its step and the state stored with it.

    No code from the files is run.

    Raises:
        InputError: a file is missing or was changed; the message names it.
    """
    manifest = _manifest(path / _MANIFEST)
    for name, wanted in manifest["sha256"].items():
        file = path / name
        got = sha256_of(file) if file.is_file() else "no such file"
        if got != wanted:
            raise InputError(
                str(file),
                expected=f"a file of SHA-256 {wanted}",
                got=got,
                remedy=f"the checkpoint was damaged: delete {path} to start over, or restore it",
            )
    model.load_state_dict(models.load(path / _WEIGHTS).state_dict())
    state = torch.load(path / _STATE, weights_only=True, map_location="cpu")
    return int(manifest["step"]), state


def _manifest(path: Path) -> dict[str, Any]:
    manifest: Any = read_json(path) if path.is_file() else None
    found = manifest if isinstance(manifest, dict) else {}
    names = found.get("sha256")
    if "step" not in found or not isinstance(names, dict) or set(names) != {_WEIGHTS, _STATE}:
        raise InputError(
            str(path),
            expected="the step and checksums of a checkpoint",
            got="something else" if path.is_file() else "no such file",
            remedy=f"the checkpoint was damaged: delete {path.parent} to start over, or restore it",
        )
    return found
