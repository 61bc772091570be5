"""Use a model in eval mode for a while; refuse one in a state that answers wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.jit._script import RecursiveScriptModule
from torch.nn.parameter import is_lazy

from attribound.basics.errors import InputError, ModelError

_STOCHASTIC = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)


def modules_of(model: object) -> list[nn.Module]:
    """All modules of a model; none of a function."""
    return list(model.modules()) if isinstance(model, nn.Module) else []


@contextmanager
def eval_mode(model: object) -> Iterator[None]:
    """Every module of ``model`` is in eval mode while the context lasts.

    Afterwards each is in the mode it was in, also after an error: parts that a user
    keeps in eval mode during training (frozen batch norms) stay there.
    """
    modules = modules_of(model)
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False  # not .eval(), which would change its children, too
    try:
        yield
    finally:
        for module in training:
            module.training = True


def refuse_autocast() -> None:
    """Refuse to work where the process computes in half precision."""
    if any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda")):
        raise InputError(
            "torch.autocast",
            expected="off: derivatives of half precision bound nothing",
            got="on",
            remedy="leave the autocast block",
        )


def check_ready(model: object) -> None:
    """Refuse a module that is in no state to be differentiated twice."""
    if not isinstance(model, nn.Module):
        return
    for name, module in model.named_modules():
        if module.training and isinstance(module, _STOCHASTIC):
            raise ModelError(
                "model",
                expected="eval mode",
                got=f"{type(module).__name__} {name!r} in train mode",
                remedy="call model.eval() first",
            )
        if isinstance(module, RecursiveScriptModule) and not name:
            raise ModelError(
                "model",
                expected="a module of Python",
                got="a scripted one, into which nobody sees",
                remedy="pass the module that was scripted",
            )
        if not all(isinstance(child, nn.Module) for child in module._modules.values()) and (
            isinstance(module, nn.Sequential)
        ):
            raise ModelError(
                "model",
                expected="modules in a Sequential",
                got=f"None in {name!r}" if name else "None",
                remedy="use nn.Identity() for a layer that does nothing",
            )
    if any(is_lazy(parameter) for parameter in model.parameters()):
        raise ModelError(
            "model",
            expected="weights that are there",
            got="lazy ones, whose shape is not known",
            remedy="call model(x) once first",
        )
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise ModelError(
            "model",
            expected="weights that autograd may use",
            got="weights made in torch.inference_mode()",
            remedy="make or load the model outside of it",
        )


def refuse_compiled(model: object) -> None:
    """Refuse what ``torch.compile`` made, or made of a part: it has no second derivatives."""
    parts: list[Any] = [*modules_of(model)] or [model]
    for module in parts:
        own = vars(module) if hasattr(module, "__dict__") else {}
        original = "_torchdynamo_orig_callable" in own or "_orig_mod" in own.get("_modules", {})
        if original or own.get("_compiled_call_impl") is not None:
            raise ModelError(
                "model",
                expected="a module or function of Python, which can be differentiated twice",
                got="one of torch.compile",
                remedy="pass what was compiled, before it was",
            )
