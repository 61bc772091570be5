"""Find where a network is not smooth, by watching one forward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from attribound.basics.errors import KinkError
from attribound.networks.frozen import frozen

#: ATen operators whose derivative, or value, jumps somewhere; comparisons, because masks
#: made of them do.
KINKED = frozenset(
    {
        "_prelu_kernel",
        "abs",
        "adaptive_max_pool2d",
        "adaptive_max_pool3d",
        "amax",
        "amin",
        "aminmax",
        "argmax",
        "argmin",
        "ceil",
        "clamp",
        "clamp_max",
        "clamp_min",
        "cummax",
        "cummin",
        "eq",
        "floor",
        "floor_divide",
        "fmax",
        "fmin",
        "fmod",
        "frac",
        "fractional_max_pool2d",
        "fractional_max_pool3d",
        "ge",
        "gt",
        "hardshrink",
        "hardsigmoid",
        "hardswish",
        "hardtanh",
        "heaviside",
        "kthvalue",
        "le",
        "leaky_relu",
        "lt",
        "max",
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "maximum",
        "median",
        "min",
        "minimum",
        "mode",
        "model",
        "nanmedian",
        "ne",
        "prelu",
        "relu",
        "relu6",
        "remainder",
        "round",
        "rrelu_with_noise",
        "sgn",
        "sign",
        "softshrink",
        "sort",
        "threshold",
        "topk",
        "trunc",
    }
)

#: Of these the ones whose value, or whose indices, jump. Not ``eq`` and ``ne``: those are guards.
JUMPING = frozenset(
    {
        *("argmax", "argmin", "ceil", "floor", "floor_divide", "fmod", "frac", "ge", "gt"),
        *("hardshrink", "heaviside", "kthvalue", "le", "lt", "median", "mode", "nanmedian"),
        *("remainder", "round", "sgn", "sign", "sort", "topk", "trunc"),
    }
)
#: What turns logits into probabilities.
_ENDINGS = {"_softmax": "softmax", "_log_softmax": "log_softmax", "sigmoid": "sigmoid"}

#: ``clamp(min=...)`` up to here is taken for a guard against division by zero, not a kink.
GUARD = 1e-4


@dataclass(frozen=True)
class Kink:
    """An operator that is not smooth, and the module it ran in."""

    operator: str
    module: str

    def __str__(self) -> str:
        return f"{self.operator} in {self.module}"


def find_kinks(model: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Kink, ...]:
    """The operators of one forward pass of ``x`` that are not smooth in ``x``.

    Sees modules, functions and methods alike, because it watches what PyTorch
    executes; blind to branches that this ``x`` does not take.
    """
    with ExitStack() as stack:
        path = stack.enter_context(_module_path(model))
        watcher = stack.enter_context(_Watcher(path))
        stack.enter_context(frozen(model))
        stack.enter_context(torch.enable_grad())
        model(x.detach().requires_grad_().clone())
    return tuple(dict.fromkeys(watcher.kinks))


def find_ending(model: Callable[[Tensor], Tensor], x: Tensor) -> str:
    """Which of softmax, log_softmax and sigmoid made the output; empty if none did."""
    with torch.no_grad(), _Endings() as watcher:
        out: object = model(x.detach().clone())
    return watcher.ends.get(out.data_ptr(), "") if isinstance(out, Tensor) else ""


def refuse_kinks(kinks: tuple[Kink, ...]) -> None:
    """Raise a ``KinkError`` that names every kink and the ways out."""
    if kinks:
        raise KinkError(
            "model",
            expected="a smooth network",
            got=", ".join(map(str, kinks)),
            remedy="bound a smooth copy, attribound.smooth(model, beta) with a beta of "
            "attribound.choose_beta(model, x), or pass attribound.Classifier(model, "
            "allow_kinks=True) to get numbers flagged as kinked",
        )


class _Watcher(TorchDispatchMode):
    """Record kinked operators applied to tensors that depend on the input."""

    def __init__(self, path: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.path = path
        self.kinks: list[Kink] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__.removesuffix("_")  # in place or not
        depends = any(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        if depends and _is_kinked(name, args, kwargs):
            self.kinks.append(Kink(name, self.path[-1]))
        return func(*args, **kwargs)


class _Endings(TorchDispatchMode):
    """Record where in memory results of the :data:`_ENDINGS` are; views of them are there, too."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.ends: dict[int, str] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor):
            name = func.overloadpacket.__name__.removesuffix("_")
            if name in _ENDINGS:
                self.ends[out.data_ptr()] = _ENDINGS[name]
            elif not func.is_view:  # memory that is used anew, or worked on in place
                self.ends.pop(out.data_ptr(), None)
        return out


def _is_kinked(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if name == "elu":
        # elu(x, alpha, scale, input_scale): slopes alpha * input_scale and 1 meet at zero.
        alpha, _, input_scale = [*args[1:], 1, 1, 1][:3]
        return not math.isclose(alpha * input_scale, 1)
    if name in ("clamp", "clamp_min"):
        low = args[1] if len(args) > 1 else kwargs.get("min")
        high = args[2] if len(args) > 2 else kwargs.get("max")
        return not is_guard(args[0], low, high)
    if name == "linalg_vector_norm":
        return bool(([*args[1:], 2][0]) != 2)
    if name == "_cdist_forward":
        return bool(args[2] != 2)
    if name == "div":
        return kwargs.get("rounding_mode") is not None
    if name == "ne" and args[0] is args[1]:
        return False  # isnan
    return name in KINKED


def is_guard(x: Tensor, low: object, high: object) -> bool:
    """Whether a clamp of ``x`` only keeps a denominator away from zero, and is not active."""
    if isinstance(low, Tensor) and low.dim() == 0 and not low.requires_grad:
        low = low.item()
    if high is not None or not isinstance(low, (int, float)) or not 0 < low <= GUARD:
        return False
    return bool((x >= low).all())


@contextmanager
def _module_path(model: Callable[[Tensor], Tensor]) -> Iterator[list[str]]:
    """A stack of the modules being run, innermost last, while the context lasts."""
    path = ["the function given" if not isinstance(model, nn.Module) else "the model's forward"]
    handles = []
    if isinstance(model, nn.Module):
        for name, module in model.named_modules():
            label = f"{name!r} ({type(module).__name__})" if name else path[0]
            handles.append(
                module.register_forward_pre_hook(lambda *_, label=label: path.append(label))
            )
            handles.append(module.register_forward_hook(lambda *_: path.pop() and None))
    try:
        yield path
    finally:
        for handle in handles:
            handle.remove()
