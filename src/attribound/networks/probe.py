"""Measure, on the data at hand, that a function and its derivatives are what they claim."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attribound.basics.errors import ProbeError
from attribound.basics.tensors import dot, norm, unit
from attribound.operators import LinearOperator

#: Relative disagreement with finite differences above which a derivative is called wrong.
TOLERANCE = 0.1
#: What values may be off: PyTorch's softplus is the identity, with slope one, from 20 on.
_SWITCH = math.exp(-20)


def probe_inputs(x: Tensor) -> Tensor:
    """Two different examples made of the first one: itself and itself reversed and shifted."""
    first = x[:1]
    other = first.flatten().flip(0).view_as(first)
    return torch.cat([first, other + 0.1 * (1 + other.abs())])


def random_direction(x: Tensor) -> Tensor:
    """A fixed random unit vector per example."""
    generator = torch.Generator().manual_seed(0)
    draw = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    return unit(draw).to(x)


def probe_determinism(subject: str, value: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """Refuse a function that answers the same question differently."""
    first, second = value(x), value(x)
    worst = (first - second).abs().max().item()
    if not worst <= 1e-4 * (1e-12 + first.abs().max().item()):
        raise ProbeError(
            subject,
            expected="the same output for the same input",
            got=f"outputs that differ by {worst:.3g}",
            remedy="switch off dropout and noise (model.eval(), a fixed seed inside)",
        )


def probe_separation(subject: str, value: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """Refuse a function in which one example of the batch influences another.

    By derivative (exactly zero or not) where there is one, and by value.
    """
    pair = probe_inputs(x).requires_grad_()
    with torch.enable_grad():
        together = value(pair)
        leak = 0.0
        if together.requires_grad:
            (slope,) = torch.autograd.grad(together[0].sum(), pair, materialize_grads=True)
            leak = slope[1].abs().max().item()
    alone = value(pair.detach()[:1])
    worst = (together[:1] - alone).abs().max().item()
    if leak > 0 or not worst <= 1e-3 * (1e-12 + alone.abs().max().item()):
        raise ProbeError(
            subject,
            expected="examples that do not see each other",
            got=f"an output that moves by {worst:.3g} when the rest of the batch changes "
            f"(derivative {leak:.3g})",
            remedy="use eval mode, or statistics that are fixed instead of taken over the batch",
        )


def probe_adjoint(subject: str, jacobian: LinearOperator) -> None:
    """Refuse an operator whose two products are not adjoint to each other."""
    v = random_direction(jacobian.domain)
    u = random_direction(jacobian.range).flatten(1).flip(1).view_as(jacobian.range)
    forward, backward = jacobian.matvec(v), jacobian.rmatvec(u)
    left, right = dot(forward, u), dot(v, backward)
    scale = torch.maximum(norm(forward), norm(backward))
    gap = ((left - right).abs() / scale.clamp_min(torch.finfo(scale.dtype).tiny)).max().item()
    if not gap <= 1e-2:
        raise ProbeError(
            subject,
            expected="forward and backward derivatives that are adjoint",
            got=f"<Jv, u> and <v, J'u> apart by {gap:.3g} of their size",
            remedy="check custom autograd functions: their backward must be differentiable",
        )


def probe_derivative(
    subject: str,
    value: Callable[[Tensor], Tensor],
    x: Tensor,
    product: Callable[[Tensor], Tensor],
    along: Tensor | None = None,
) -> None:
    """Refuse a derivative that central differences of ``value`` contradict.

    Several steps are tried and the best agreement counts; steps at which rounding, or the
    switch of a softplus, could explain a difference do not. Differences that have not settled,
    because the function curves on the scale of the steps, contradict nothing: two steps must
    agree with each other, and not with the derivative. The direction is ``along``, or random.
    """
    v = random_direction(x) if along is None else unit(along.detach())
    claimed = product(v).detach()
    eps = torch.finfo(x.dtype).eps
    noise = (8 * eps + _SWITCH) * (1e-30 + norm(value(x)))
    gaps: list[float] = []
    seen: list[Tensor] = []
    settled = False
    for step in [*(c * eps ** (1 / 3) for c in (1, 3, 8, 30)), eps ** (1 / 4) / 8, eps ** (1 / 2)]:
        measured = (value(x + step * v) - value(x - step * v)) / (2 * step)
        scale = torch.maximum(norm(measured), norm(claimed))
        if (noise / step > TOLERANCE * scale).any():
            continue  # rounding alone could be the difference
        gaps.append((norm(measured - claimed) / scale).max().item())
        near = 2 * TOLERANCE * norm(measured)
        settled |= any(bool((norm(measured - one) <= near).all()) for one in seen)
        seen.append(measured)
    finite = bool(torch.isfinite(claimed).all())
    if not finite or (settled and not min(gaps) <= TOLERANCE):
        gap = min(gaps, default=float("nan"))
        raise ProbeError(
            subject,
            expected="derivatives that agree with finite differences",
            got=f"a relative difference of {gap:.3g} at the best of {len(gaps)} steps "
            f"(claimed norm {norm(claimed).max().item():.3g})",
            remedy="the graph is detached somewhere, or a backward is wrong: compute gradients "
            "with create_graph=True and without .detach(), .data, no_grad, activation "
            "checkpointing or in-place tricks",
        )
