"""Per-example arithmetic on tensors of shape ``(batch, *features)``."""

from __future__ import annotations

import torch
from torch import Tensor


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner product of each example of ``a`` with that of ``b``, shape ``(batch,)``."""
    return (a.flatten(1) * b.flatten(1)).sum(1)


def norm(a: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm of each example, shape ``(batch,)``."""
    length: Tensor = torch.linalg.vector_norm(a.flatten(1), ord=p, dim=1)
    return length


def per_example(scale: Tensor, like: Tensor) -> Tensor:
    """``scale`` of shape ``(batch,)``, reshaped to multiply ``like``, ``(batch, *features)``."""
    return scale.reshape(-1, *[1] * (like.dim() - 1))


def unit(a: Tensor) -> Tensor:
    """Each example divided by its Euclidean norm; a zero example stays zero."""
    length = norm(a)
    return a / per_example(torch.where(length > 0, length, torch.ones_like(length)), a)


def angle_degrees(a: Tensor, b: Tensor) -> Tensor:
    """Angle between each example of ``a`` and of ``b``, in degrees, accurate for tiny angles.

    Where either is zero there is no angle: the answer is 180, as everywhere in
    this library when nothing is known of a direction. Two equal zeros included.
    """
    # 2 atan2(|u - v|, |u + v|) on unit vectors keeps the digits that arccos loses near 0 and 180.
    u, v = unit(a), unit(b)
    angle = 2 * torch.atan2(norm(u - v), norm(u + v))
    undefined = (norm(a) == 0) | (norm(b) == 0)
    return torch.where(undefined, torch.full_like(angle, 180.0), torch.rad2deg(angle))


def ratio(a: Tensor, b: Tensor) -> Tensor:
    """``a / b`` for numbers that are not negative, with 0 / 0 = 0: never NaN."""
    return torch.where(a == 0, torch.zeros_like(a), a / b)


def round_up(value: Tensor, like: Tensor) -> Tensor:
    """``value`` in the dtype and on the device of ``like``, never below itself."""
    cast = value.to(like.dtype)
    above = torch.nextafter(cast, torch.full_like(cast, torch.inf))
    return torch.where(cast.double() < value, above, cast).to(like.device)
