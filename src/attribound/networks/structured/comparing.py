"""Whether a traced network is the network: compared with the module itself, on the data at hand."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attribound.networks.structured.network import StructuredNetwork, UnstructuredError

#: Of the norm of what is compared: evaluation errors of deep networks are a tenth of it.
_TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-9}

Product = Callable[[Tensor], Tensor]
#: Gradients of the targets' logits at points, and products with the Hessians there.
Linearise = Callable[[Tensor, Tensor], tuple[Tensor, Product]]


def agrees(
    network: StructuredNetwork,
    points: Tensor,
    logits: Callable[[Tensor], Tensor],
    linearise: Linearise,
) -> bool:
    """Whether logits, gradients and Hessian-vector products are those of the module at ``points``.

    They are compared for one point at a time, for the sake of memory.

    Args:
        network: what was traced.
        points: ``(batch, *features)``.
        logits: of the module.
        linearise: gradients of the module, and products, by autograd.
    """
    return all(_agrees_at(network, one, logits, linearise) for one in torch.split(points, 1))


def _agrees_at(
    network: StructuredNetwork,
    point: Tensor,
    logits: Callable[[Tensor], Tensor],
    linearise: Linearise,
) -> bool:
    with torch.no_grad():
        expected = logits(point)
    target = expected.argmax(1)
    try:
        here = network.linearise(point, target)
    except UnstructuredError:
        return False
    if not _close(here.logits, expected):  # nor if they are not finite: no gradients of these
        return False
    gradient, product = linearise(point, target)
    direction = gradient.detach()
    return _close(here.gradient, direction) and _close(here.product(direction), product(direction))


def _close(ours: Tensor, theirs: Tensor) -> bool:
    tolerance = _TOLERANCE.get(theirs.dtype)
    if tolerance is None or ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    return bool((ours - theirs).norm() <= tolerance * theirs.norm())  # False for NaN
