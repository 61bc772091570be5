"""Whether a module computes what its class says: nothing of its own in the way.

A proof about a network unrolled from its modules is one about the network that runs only if
these are exactly the known classes, with no method replaced and no hook anywhere.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from attribound.basics.errors import ProbeError

if TYPE_CHECKING:  # a classifier asks whether its modules are plain
    from attribound.networks.classifier import Classifier

#: What a subclass that only makes its modules has of its own.
_HARMLESS = {
    *("__init__", "__module__", "__doc__", "__annotations__", "__dict__", "__weakref__"),
    *("__firstlineno__", "__static_attributes__", "__parameters__", "__orig_bases__", "extra_repr"),
}
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
#: Of the largest logit, between a network in its own dtype and in float64; PyTorch's softplus
#: becomes linear at its threshold, which costs 3e-9.
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-7}


#: Kinds of tensors that compute as tensors do.
TENSORS = (Tensor, nn.Parameter, nn.Buffer)
#: What known modules run: replaced in PyTorch itself, they are another network's.
_RUN: tuple[tuple[Any, str], ...] = (
    *((F, name) for name in ("linear", "conv1d", "conv2d", "conv3d", "batch_norm", "dropout")),
    *((F, name) for name in ("dropout1d", "dropout2d", "dropout3d", "avg_pool1d", "avg_pool2d")),
    *((F, name) for name in ("adaptive_avg_pool2d", "relu", "leaky_relu", "softplus", "gelu")),
    *((F, name) for name in ("silu", "tanh", "sigmoid", "pad")),
    *((torch, name) for name in ("relu", "tanh", "sigmoid", "flatten", "reshape", "mean")),
    *((torch, name) for name in ("add", "sub", "mul", "div")),
    *((Tensor, name) for name in ("relu", "tanh", "sigmoid", "flatten", "view", "reshape")),
    *((Tensor, name) for name in ("mean", "clone", "__add__", "__sub__", "__mul__")),
)
_FOUND = [getattr(where, name) for where, name in _RUN]


def own_ways(module: nn.Module) -> str:
    """What a module does other than its class, as text; empty if nothing."""
    kind, own = type(module), vars(module)
    replaced = [name for name in own if callable(getattr(kind, name, None))]
    if replaced:
        return f"with a {replaced[0]} of its own"
    if own.get("_compiled_call_impl") is not None:
        return "that is compiled"
    if any(getattr(module, name) for name in _HOOKS):
        return "with hooks"
    held = [own.get(name, {}) for name in ("_modules", "_parameters", "_buffers")]
    if any(type(each) not in (dict, OrderedDict) for each in held):
        return "with collections of its own"
    tensors = [*held[1].values(), *held[2].values(), *own.values()]
    kinds = [type(each) for each in tensors if isinstance(each, Tensor)]
    if strange := [each for each in kinds if each not in TENSORS]:
        return f"with a tensor of its own kind, {strange[0].__name__}"
    return ""


def replaced_in_torch(module: nn.Module) -> str:
    """A method of computing that was put into a class of PyTorch's; empty if none.

    Told by the module in which it says it was written.
    """
    for kind in type(module).__mro__:
        if not _torchs(kind):
            continue
        for name, method in vars(kind).items():
            computes = name == "forward" or (name.startswith("_") and name not in _HARMLESS)
            if computes and callable(method) and not _torchs(method):
                return f"with a {name} that is not PyTorch's"
    return ""


def _torchs(made: object) -> bool:
    """Whether PyTorch made a class or function; what has no module is built in."""
    module = getattr(made, "__module__", None)
    return module is None or str(module).split(".")[0] == "torch"


def watched() -> str:
    """What in the process changes what every module computes, as text; empty if nothing."""
    if global_hooks():
        return "hooks that are registered for every module"
    functions = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    modes = [*functions, *_get_current_dispatch_mode_stack()]
    # Where tensors are made changes nothing that is computed. (Who uses that mode has its module.)
    harmless = getattr(sys.modules.get("torch.utils._device"), "DeviceContext", None)
    if strange := [type(mode).__name__ for mode in modes if type(mode) is not harmless]:
        return f"a mode of PyTorch, {strange[-1]}, through which every operation goes"
    if name := patched():
        return f"a {name} that is not PyTorch's"
    return ""


def in_modes() -> bool:
    """Whether every operation goes through something first, or is not PyTorch's."""
    modes = torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack()
    return bool(modes) or any(
        getattr(*one) is not was for one, was in zip(_RUN, _FOUND, strict=True)
    )


def patched() -> str:
    """A function of PyTorch that was replaced, by name; empty if none."""
    for (where, name), found in zip(_RUN, _FOUND, strict=True):
        now = getattr(where, name)
        if now is not found or not _torchs(now):
            return f"{where.__name__}.{name}"
    return ""


def only_constructs(kind: type[nn.Module], base: type[nn.Module]) -> bool:
    """Whether a class is ``base``, or derived from it with nothing changed but how it is made."""
    if not issubclass(kind, base):
        return False
    own = kind.__mro__[: kind.__mro__.index(base)]
    changed = {name for each in own for name in vars(each) if hasattr(base, name)}
    return changed <= _HARMLESS


def global_hooks() -> bool:
    """Whether hooks are registered for every module of the process."""
    return any(
        bool(hooks)
        for name, hooks in vars(torch_modules).items()
        if name.startswith("_global_") and name.endswith("hooks")
    )


def refuse_another(classifier: Classifier, unrolled: Tensor, points: Tensor) -> None:
    """Refuse an unrolled network whose logits at ``points`` are not those of the module.

    They are compared in the dtype of the weights. Where one overflows, so must the other.

    Args:
        classifier: what runs.
        unrolled: logits of the unrolled network, float64.
        points: inputs ``(batch, *features)``.

    Raises:
        ProbeError: they differ by more than evaluation errors.
    """
    dtype = _dtype(classifier.model, points.dtype)
    with torch.no_grad():
        runs = classifier.logits(points.to(dtype)).double().cpu()
    worst, size = float("inf"), 0.0
    finite = torch.isfinite(unrolled)
    if runs.shape == unrolled.shape and bool((finite == torch.isfinite(runs)).all()):
        zero = unrolled.new_zeros(1)
        worst = torch.cat([zero, (runs - unrolled)[finite].abs()]).amax().item()
        size = torch.cat([zero, runs[finite].abs(), unrolled[finite].abs()]).amax().item()
    if not worst <= _TOLERANCE.get(dtype, 1e-1) * (size + 1e-6):
        raise ProbeError(
            "the model",
            expected="a network that computes what its modules say",
            got=f"logits that differ from theirs by {worst:.3g} of {size:.3g}",
            remedy="remove what changes its forward (patches, hooks, subclasses), or use a bound "
            "that needs no proof",
        )


def _dtype(model: object, usual: torch.dtype) -> torch.dtype:
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    return next((each.dtype for each in parameters if each.is_floating_point()), usual)
