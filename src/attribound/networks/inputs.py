"""Check what users pass: inputs, labels."""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.basics.errors import InputError

Target = Tensor | int | None


def check_inputs(x: object) -> Tensor:
    """``x`` detached, refused unless it is a finite floating batch ``(batch, *features)``."""
    if not isinstance(x, Tensor):
        raise InputError(
            "x",
            expected="a torch.Tensor (batch, *features)",
            got=type(x).__name__,
            remedy="convert it, e.g. torch.as_tensor(x, dtype=torch.float32)",
        )
    if not x.is_floating_point():
        raise InputError(
            "x",
            expected="floating point numbers",
            got=str(x.dtype),
            remedy="use x.float() and scale it as the model expects",
        )
    if x.dim() < 2:
        raise InputError(
            "x",
            expected="a batch (batch, *features)",
            got=f"shape {tuple(x.shape)}",
            remedy="add a batch dimension, x.unsqueeze(0)",
        )
    if x.numel() == 0:
        raise InputError(
            "x",
            expected="at least one example with at least one feature",
            got=f"shape {tuple(x.shape)}",
            remedy="skip empty batches",
        )
    finite = torch.isfinite(x).flatten(1).all(1)
    if not finite.all():
        bad = (~finite).nonzero().flatten().tolist()
        raise InputError(
            "x",
            expected="finite numbers",
            got=f"NaN or infinity in examples {bad[:10]}",
            remedy="clean or drop these examples",
        )
    return x.detach()


def check_targets(target: Tensor | int, x: Tensor, classes: int | None) -> Tensor:
    """``target`` as a label per example, refused unless each is one of ``classes``."""
    try:
        labels = torch.as_tensor(target, device=x.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            "target", expected="integer labels", got=repr(target), remedy="pass class indices"
        ) from error
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputError(
            "target",
            expected="integer labels",
            got=str(labels.dtype),
            remedy="pass class indices, e.g. logits.argmax(1)",
        )
    if labels.dim() == 0:
        labels = labels.expand(len(x))
    if labels.shape != (len(x),):
        raise InputError(
            "target",
            expected=f"one label, or {len(x)} of them",
            got=f"shape {tuple(labels.shape)}",
            remedy="pass a vector as long as the batch",
        )
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or (classes is not None and high >= classes):
        raise InputError(
            "target",
            expected=f"labels from 0 to {'the last class' if classes is None else classes - 1}",
            got=f"labels from {low} to {high}",
            remedy="check the label encoding",
        )
    return labels.long()
