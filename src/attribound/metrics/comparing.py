"""How alike two attributions are, before and after: one number per example.

Every metric takes ``a`` and ``b`` of shape ``(batch, *features)`` and gives a
tensor of shape ``(batch,)``, in their floating dtype and on the device of
``a``. It is computed in double precision on the CPU, and without a graph: these
numbers are for reports, not for objectives.

No finite input gives NaN. What has no direction counts as opposite (cosine
distance 2, 180 degrees), what has no variation as uncorrelated (0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.basics.later import Later
from attribound.basics.numbers import refuse_other
from attribound.basics.tensors import angle_degrees, dot, norm, unit

if TYPE_CHECKING:
    from scipy import stats
else:
    stats = Later("scipy.stats")  # it takes as long to import as torch


def maps(g: Tensor, absolute: bool = False, channel_dim: int | None = None) -> Tensor:
    """What a viewer sees of ``g``: its absolute value, then its sum over channels, each if asked.

    With ``channel_dim=1``, images ``(batch, channels, h, w)`` become maps
    ``(batch, h, w)``. Every metric can be asked of the raw attributions or of these.
    """
    seen = g.abs() if absolute else g
    if channel_dim is None:
        return seen
    if g.dim() < 3 or channel_dim == 0 or not -g.dim() < channel_dim < g.dim():
        raise InputError(
            "channel_dim",
            expected="a feature dimension of the attribution, and not its only one",
            got=f"{channel_dim} for shape {tuple(g.shape)}",
            remedy="give 1 for (batch, channels, h, w), or None if there are no channels",
        )
    return seen.sum(channel_dim)


def euclidean(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distance between ``a`` and ``b``."""
    x, y = _rows(a, b)
    scale = _power_of_two(torch.maximum(_largest(x), _largest(y)))
    return _answer(norm(x * scale - y * scale) / scale.squeeze(1), a, b)


def degrees(a: Tensor, b: Tensor) -> Tensor:
    """Angle between ``a`` and ``b``, from 0 to 180; it is 180 where either is zero."""
    return _answer(_degrees(*_rows(a, b)), a, b)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """One minus the cosine of the angle, from 0 to 2; it is 2 where either is zero."""
    # 1 - cos would lose all digits below an angle of 1e-8.
    half = torch.deg2rad(_degrees(*_rows(a, b))) / 2
    return _answer(2 * torch.sin(half) ** 2, a, b)


def pearson(a: Tensor, b: Tensor) -> Tensor:
    """Linear correlation of the entries, from -1 to 1; it is 0 where either is constant.

    Entries that differ by rounding only are not constant, and their correlation is noise.
    """
    return _answer(_correlation(*_rows(a, b)), a, b)


def spearman(a: Tensor, b: Tensor) -> Tensor:
    """Correlation of the ranks, ties averaged, from -1 to 1; it is 0 where either is constant."""
    x, y = (torch.from_numpy(stats.rankdata(m.numpy(), axis=1)) for m in _rows(a, b))
    return _answer(_correlation(x, y), a, b)


def kendall(a: Tensor, b: Tensor) -> Tensor:
    """Kendall's tau-b of the entries, from -1 to 1; it is 0 where either is constant.

    Examples are taken one by one, each in ``n log n`` time for ``n`` features.
    """
    x, y = _rows(a, b)
    tau = torch.zeros(len(x), dtype=x.dtype)
    for i in (~(_constant(x) | _constant(y))).nonzero().flatten().tolist():
        tau[i] = float(stats.kendalltau(x[i].numpy(), y[i].numpy()).statistic)
    return _answer(tau.clamp(-1, 1), a, b)


def top_k_intersection(a: Tensor, b: Tensor, k: int) -> Tensor:
    """Share of the ``k`` largest entries of ``a`` that are among the ``k`` largest of ``b``.

    Largest means most positive: take ``maps(g, absolute=True)`` for the largest
    in size. Of equal entries the first ones win.
    """
    x, y = _rows(a, b)
    if not isinstance(k, (int, np.integer)) or not 1 <= k <= x.shape[1]:
        raise InputError(
            "k",
            expected=f"an integer from 1 to {x.shape[1]}, the number of features",
            got=repr(k),
            remedy="choose how many of the largest entries to compare",
        )
    return _answer((_top(x, k) & _top(y, k)).sum(1).double() / k, a, b)


def compare(
    a: Tensor,
    b: Tensor,
    k: int | None = None,
    absolute: bool = True,
    channel_dim: int | None = None,
) -> dict[str, Tensor]:
    """All metrics of this module on the maps of ``a`` and ``b``, by name; top-k if ``k`` is given.

    >>> a, b = torch.tensor([[3.0, -4.0, 0.0]]), torch.tensor([[3.0, 0.0, 4.0]])
    >>> for name, value in compare(a, b, k=1).items():
    ...     print(f"{name} {value.item():.2f}")
    euclidean 5.66
    cosine 0.64
    degrees 68.90
    pearson -0.85
    spearman -1.00
    kendall -1.00
    top_k_intersection 0.00
    """
    # Sums over channels could agree in shape where the attributions do not.
    _check(a, b)
    a, b = maps(a, absolute, channel_dim), maps(b, absolute, channel_dim)
    # First, for a bad k to be refused before the slow metrics have run.
    top = {} if k is None else {"top_k_intersection": top_k_intersection(a, b, k)}
    each = (euclidean, cosine, degrees, pearson, spearman, kendall)
    return {metric.__name__: metric(a, b) for metric in each} | top


def _check(a: Tensor, b: Tensor) -> None:
    for each in (a, b):
        refuse_other("attributions", each, Tensor, "use torch.as_tensor")
    shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
    if a.shape != b.shape:
        raise InputError(
            "attributions",
            expected="two of the same shape",
            got=shapes,
            remedy="compare attributions of the same inputs",
        )
    if a.dim() < 2 or a.shape[1:].numel() == 0:
        raise InputError(
            "attributions",
            expected="shape (batch, *features), with at least one feature",
            got=shapes,
            remedy="a single example needs a batch dimension: a[None]",
        )
    if not (a.is_floating_point() and b.is_floating_point()):
        raise InputError(
            "attributions",
            expected="floating-point numbers",
            got=f"{a.dtype} and {b.dtype}",
            remedy="convert them with .float()",
        )
    bad = ~(a.isfinite().flatten(1).all(1).cpu() & b.isfinite().flatten(1).all(1).cpu())
    if bad.any():
        raise InputError(
            "attributions",
            expected="finite numbers",
            got=f"NaN or infinity in {int(bad.sum())} of {len(a)} examples",
            remedy="find out why, or leave these examples out",
        )


def _rows(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both as double precision matrices ``(batch, features)`` on the CPU, after all checks."""
    _check(a, b)
    x, y = (g.detach().cpu().double().flatten(1) for g in (a, b))
    return x, y


def _answer(value: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return value.to(a.device, torch.promote_types(a.dtype, b.dtype))


def _degrees(x: Tensor, y: Tensor) -> Tensor:
    return angle_degrees(*(m * _power_of_two(_largest(m)) for m in (x, y)))


def _correlation(x: Tensor, y: Tensor) -> Tensor:
    r = dot(unit(_centered(x)), unit(_centered(y))).clamp(-1, 1)
    return torch.where(_constant(x) | _constant(y), torch.zeros_like(r), r)


def _centered(x: Tensor) -> Tensor:
    x = x * _power_of_two(_largest(x))
    x = x - x.mean(1, keepdim=True)
    # Again: the first mean is rounded at the size of x, which may dwarf its variation.
    return x - x.mean(1, keepdim=True)


def _constant(x: Tensor) -> Tensor:
    # Not by the centred values: the mean of n equal numbers need not be that number.
    return x.amax(1) == x.amin(1)


def _largest(x: Tensor) -> Tensor:
    return x.abs().amax(1, keepdim=True)


def _power_of_two(size: Tensor) -> Tensor:
    """A factor that brings ``size`` near 1, so that squares neither overflow nor vanish.

    A power of two, for the multiplication to be exact.
    """
    exponent = torch.frexp(size).exponent.clamp(-1022, 1022)
    return torch.ldexp(torch.ones_like(size), -exponent)


def _top(x: Tensor, k: int) -> Tensor:
    """Whether each entry is among the ``k`` largest of its row."""
    first = x.argsort(dim=1, descending=True, stable=True)[:, :k]
    return torch.zeros_like(x, dtype=torch.bool).scatter(1, first, True)
