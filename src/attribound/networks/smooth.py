"""Smooth copies of networks: ReLU to softplus, max-pooling to log-sum-exp pooling."""

from __future__ import annotations

import copy
import math
from numbers import Real
from typing import Any, TypeVar

import torch
from torch import nn
from torch.fx import GraphModule
from torch.overrides import TorchFunctionMode

from attribound.basics.errors import InputError, ModelError
from attribound.networks.pooling import LogSumExpPool
from attribound.networks.replacements import REPLACEMENTS, Smoothing
from attribound.networks.subject import mark_copy

Model = TypeVar("Model", bound=nn.Module)


def smooth(
    model: Model, beta: float, *, pooling: bool = True, share_weights: bool = False
) -> Model:
    """A copy of ``model`` with softplus for ReLU and log-sum-exp for max-pooling.

    Modules and functions alike are replaced, wherever they are called in the
    model's ``forward``: ``relu``, ``relu6``, ``leaky_relu``, ``prelu``, ``rrelu``,
    ``threshold(0, 0)``, ``hardtanh``, ``clamp``, ``max_pool*d`` and
    ``adaptive_max_pool*d``. GELU, SiLU, tanh and other smooth functions stay.
    The copy is another function than the model: see :func:`attribound.fidelity`.

    Parameters keep their names, so ``load_state_dict`` works in both directions.
    Call the copy itself, not its submodules, and without activation checkpointing:
    functions are replaced only while its ``forward`` runs.

    Args:
        model: left as it is.
        beta: sharpness; softplus is (1/beta) log(1 + exp(beta x)). How large it must be for the
            copy to explain as the model does, :func:`attribound.choose_beta` measures.
        pooling: replace max-pooling too. If not, the copy keeps its jumps and is
            refused by the bounds.
        share_weights: the copy uses the model's own parameters and buffers (a later
            change of either is seen by both) instead of copies.

    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> smooth(net, beta=20)[1]
    Softplus(beta=20.0, threshold=20.0)
    """
    if not isinstance(model, nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise ModelError(
            "model",
            expected="a torch.nn.Module with a Python forward",
            got=type(model).__name__,
            remedy="smooth the module before scripting it, or wrap the function in a module",
        )
    given: object = beta  # maybe of NumPy, which is no float but as good
    number = isinstance(given, Real) and not isinstance(given, bool)
    if not (number and 0 < beta < math.inf):
        raise InputError(
            "beta",
            expected="a finite number above 0",
            got=repr(beta),
            remedy="use attribound.choose_beta(model, x).beta",
        )
    kept = [*model.parameters(), *model.buffers()] if share_weights else []
    smoothed = copy.deepcopy(model, {id(tensor): tensor for tensor in kept})
    smoothing = Smoothing(float(beta), pooling)
    for parent in list(smoothed.modules()):
        for name, child in list(parent.named_children()):
            setattr(parent, name, _replace_module(child, smoothing))
    root = _replace_module(smoothed, smoothing)
    made = _intercepted(smoothed, smoothing) if root is smoothed else root
    mark_copy(made, model, smoothing.beta)
    return made  # type: ignore[return-value]


class SoftReLU(nn.Softplus):
    """The softplus that stands for a ReLU, so that smoothing again can replace it."""

    def _get_name(self) -> str:
        return "Softplus"


def _replace_module(module: nn.Module, smoothing: Smoothing) -> nn.Module:
    """The smooth module for one with no state; in-place ones keep their side effect."""
    if isinstance(module, SmoothCopy):
        return _intercepted(module, smoothing)
    if type(module) is SoftReLU or (type(module) is nn.ReLU and not module.inplace):
        return SoftReLU(beta=smoothing.beta)
    if type(module) is LogSumExpPool:
        return module.with_beta(smoothing.beta)
    pools = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
    if smoothing.pooling and type(module) in pools and not module.return_indices:
        return LogSumExpPool(module, smoothing.beta)  # type: ignore[arg-type]
    return module


def _intercepted(model: Model, smoothing: Smoothing) -> Model:
    """Give ``model`` a subclass of its class whose forward replaces functions, too."""
    kind: type[nn.Module] = model.kind if isinstance(model, SmoothCopy) else type(model)
    mixin = _SmoothGraph if issubclass(kind, GraphModule) else SmoothCopy
    model.__class__ = type(
        f"Smooth{kind.__name__}", (mixin, kind), {"kind": kind, "smoothing": smoothing}
    )
    return model


def made_by_smooth(kind: type[nn.Module]) -> bool:
    """Whether a class is one of :func:`smooth`, with nothing of its own."""
    mixin, *rest = kind.__bases__
    own = {"kind", "smoothing", "__module__", "__doc__"}
    return mixin in (SmoothCopy, _SmoothGraph) and len(rest) == 1 and vars(kind).keys() <= own


def _restore(kind: type[nn.Module], smoothing: Smoothing) -> nn.Module:
    return _intercepted(kind.__new__(kind), smoothing)


class SmoothCopy(nn.Module):
    """Mixin before the model's own class: its forward, with kinked functions intercepted."""

    kind: type[nn.Module]
    smoothing: Smoothing

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own forward, smooth."""
        with _Interception(self.smoothing):
            return super().forward(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Copies and pickles are made by class and settings: the class itself is made here."""
        return _restore, (self.kind, self.smoothing), self.__dict__


class _SmoothGraph(SmoothCopy):
    """The same for graph modules, which copy and pickle themselves.

    They make a class for every instance and put its forward there: a copy made by theirs
    of a smooth one would lose the interception.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Module:
        return _intercepted(copy.deepcopy(self._unsmoothed(), memo), self.smoothing)

    def __copy__(self) -> nn.Module:
        return _intercepted(copy.copy(self._unsmoothed()), self.smoothing)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _intercepted, (self._unsmoothed(), self.smoothing)

    def _unsmoothed(self) -> nn.Module:
        """The same module, of its own class."""
        same = object.__new__(self.kind)
        same.__dict__ = self.__dict__
        return same


class _Interception(TorchFunctionMode):
    def __init__(self, smoothing: Smoothing) -> None:
        super().__init__()
        self.smoothing = smoothing

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        replacement = REPLACEMENTS.get(func)
        if replacement is None:
            return func(*args, **kwargs)
        x, *rest = args or (kwargs.pop("input"),)
        named = {name: value for name, value in kwargs.items() if name != "inplace"}
        # Operators have their overload in the name: relu_.default.
        name = getattr(func, "__name__", "").partition(".")[0]
        in_place = bool(kwargs.get("inplace")) or name.endswith("_")
        result = replacement(self.smoothing, x.clone() if in_place else x, *rest, **named)
        if result is None:
            return func(*args, **kwargs)
        return x.copy_(result) if in_place else result
