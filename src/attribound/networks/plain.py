"""Whether a module computes what its class says: nothing of its own in the way.

A proof about a network unrolled from its modules is one about the network that runs only if
these are exactly the known classes, with no method replaced and no hook anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules

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


def own_ways(module: nn.Module) -> str:
    """What a module does other than its class, as text; empty if nothing."""
    kind = type(module)
    replaced = [name for name in vars(module) if callable(getattr(kind, name, None))]
    if replaced:
        return f"with a {replaced[0]} of its own"
    if any(getattr(module, name) for name in _HOOKS):
        return "with hooks"
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
