"""Check what users pass: inputs, labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attribound.basics.errors import InputError, ModelError

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
    if x.layout is not torch.strided or x.is_meta or x.is_nested:
        other = "a nested one" if x.is_nested else f"layout {x.layout}"
        raise InputError(
            "x",
            expected="a dense tensor with numbers in it",
            got="one on the meta device" if x.is_meta else other,
            remedy="use x.to_dense(), or pad its parts, on the device of the model",
        )
    if not x.is_floating_point():
        pixels = x.dtype == torch.uint8
        raise InputError(
            "x",
            expected="floating point numbers",
            got=str(x.dtype),
            remedy="use x.float() / 255, or as the model expects it"
            if pixels
            else "use x.float(); if these are token ids, explain the network of their embeddings",
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
    # A clone outside of inference mode is a tensor that autograd may use.
    return x.detach().clone() if x.is_inference() else x.detach()


@contextmanager
def explained(model: object, x: Tensor) -> Iterator[None]:
    """Errors of a model that is run on ``x`` meanwhile, told as what is wrong with ``x`` or it."""
    try:
        yield
    except TypeError as error:
        if "positional argument" not in str(error):
            raise
        raise ModelError(
            "model",
            expected="a forward that wants x alone",
            got=str(error),
            remedy="wrap it with what else it wants: lambda x: model(x, mask)",
        ) from error
    except RuntimeError as error:
        if type(error) not in (RuntimeError, NotImplementedError):
            raise  # out of memory, or one of the model's own
        weights = model.parameters() if isinstance(model, nn.Module) else ()
        dtype = next((each.dtype for each in weights if each.is_floating_point()), x.dtype)
        if dtype != x.dtype:
            raise InputError(
                "x",
                expected=f"{dtype}, as the weights of the model",
                got=str(x.dtype),
                remedy=f"use x.to({dtype}), or convert the model",
            ) from error
        raise ModelError(
            "model",
            expected=f"one that runs on x of shape {tuple(x.shape)}",
            got=str(error).splitlines()[0],
            remedy="check the shape of x, (batch, *features), and what the model expects",
        ) from error


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


def check_logits(logits: Tensor) -> Tensor:
    """The logits; refused unless all of them are finite."""
    if not torch.isfinite(logits).all():
        raise ModelError(
            "model output",
            expected="finite logits",
            got="NaN or infinity",
            remedy="check the weights and the scale of x",
        )
    return logits
