"""Appendix B: eta, what the linearisation of the attribution leaves out."""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.attributions import Attribution
from attribound.basics.errors import InputError
from attribound.basics.tensors import norm
from attribound.networks.inputs import Target, check_inputs
from attribound.results import Remainder


def eta(attribution: Attribution, x: Tensor, delta: Tensor, target: Target = None) -> Remainder:
    """|g(x + delta) - g(x) - J delta| per example, beside the deviation to compare it with.

    Args:
        attribution: g.
        x: inputs ``(batch, *features)``.
        delta: perturbations, of the same shape.
        target: labels; default: the predicted class at ``x``, used at both points.
    """
    x = check_inputs(x)
    if not isinstance(delta, Tensor) or delta.shape != x.shape:
        raise InputError(
            "delta",
            expected=f"a tensor of the input's shape {tuple(x.shape)}",
            got=str(tuple(delta.shape)) if isinstance(delta, Tensor) else type(delta).__name__,
            remedy="give one perturbation per example",
        )
    at_x = attribution.linearize(x, target)
    change = attribution(x + delta.to(x), at_x.target) - at_x.value
    with torch.no_grad():
        linear = at_x.jacobian.matvec(delta.to(x))
    return Remainder(eta=norm(change - linear), deviation=norm(change))
