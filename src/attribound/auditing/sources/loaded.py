"""A model that was loaded: checked, in eval mode, with what is known about it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attribound.basics.errors import ModelError

_HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model ready to be bounded.

    Attributes:
        model: in eval mode, on the CPU, in float32 or float64.
        name: short, for tables.
        details: where it came from, as JSON has it; ``notes`` lists what a reader of
            results should know, e.g. that half precision was converted.
    """

    model: nn.Module
    name: str
    details: dict[str, Any] = field(default_factory=dict)


def loaded(
    model: nn.Module, name: str, details: dict[str, Any], notes: tuple[str, ...] = ()
) -> LoadedModel:
    """``model`` in eval mode, half precision converted to float32, with notes.

    Raises:
        ModelError: a parameter is not finite.
    """
    half = sorted({_name(p.dtype) for p in model.state_dict().values() if p.dtype in _HALF})
    if half:
        model = model.float()
        notes += (f"weights in {', '.join(half)} were converted to float32",)
    for key, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise ModelError(
                name,
                expected="finite weights",
                got=f"NaN or infinity in {key!r}",
                remedy="its training diverged or the file is damaged: use another checkpoint",
            )
    return LoadedModel(model.eval(), name, {**details, "notes": list(notes)})


def file_details(path: Path) -> dict[str, Any]:
    """The name and the SHA-256 of a file."""
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
