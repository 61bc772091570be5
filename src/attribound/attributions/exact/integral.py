"""The exact mean gradient on the way from a baseline, and its derivative.

The gradient is constant between crossings and jumps by dg at each. When the end x of the path
moves by delta, the crossing at alpha moves by -alpha (dg . delta) / (dg . (x - base)), because dg
is a multiple of the normal of the kink. So the mean gradient has the derivative
``sum alpha dg dg^T / (dg . (x - base))``: a Hessian whose masses sit on the kinks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions.exact.cells import Cells, StraightPaths, cells
from attribound.attributions.exact.piecewise import PiecewiseLinear
from attribound.operators import LinearOperator

#: Of the largest gradient on the path: smaller jumps are none.
_SMALLEST = 1e-11
#: Of |dg| |x - base|: a jump that the path hardly crosses has no derivative that means anything.
_GRAZING = 1e-13
#: Numbers held for one layer while gradients are taken.
_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class Integral:
    """Mean gradients ``(batch, d)`` in float64 and, where wanted, the jumps of each path.

    Attributes:
        mean: of each path.
        cells: how many parts each path has, ``(batch,)``.
        jumps: for each path the rows dg, scaled so that the Hessian is ``sum sign row row^T``.
        signs: of each row.
    """

    mean: Tensor
    cells: Tensor
    jumps: tuple[Tensor, ...] = ()
    signs: tuple[Tensor, ...] = ()

    def hessian(self, like: Tensor) -> JumpHessian:
        """The derivative of the mean gradient, acting on what is like ``like``."""
        rows = tuple(each.to(like) for each in self.jumps)
        signs = tuple(each.to(like) for each in self.signs)
        return JumpHessian(like, torch.arange(len(rows)), rows, signs)


def integrate(
    network: PiecewiseLinear, lines: StraightPaths, target: Tensor, *, crossings: int, jumps: bool
) -> Integral:
    """The mean gradient of the target's logit on each path, and its derivative if ``jumps``.

    Args:
        network: piecewise linear.
        lines: the paths.
        target: labels ``(batch,)``.
        crossings: about how many one path has.
        jumps: neurons that switch at the same place are then switched one after the other,
            earlier layers first, because their kinks may differ.
    """
    mean = torch.zeros_like(lines.base)
    count = torch.zeros(len(mean), dtype=torch.long)
    if not len(mean):  # attacks ask for the rows that are left, which may be none
        return Integral(mean, count)
    found: list[_Jumps] = []
    state: _State | None = None
    for part in cells(network, lines, crossings):
        count += torch.bincount(part.owner, minlength=len(mean))
        if jumps:
            state, here = _jumped(network, target, part, state)
            found.append(here)
            low, high = part.start[0], part.end[-1]  # the same for all paths
            mean += (high - low) * here.before
            mean.index_add_(0, here.owner, (high - here.place).unsqueeze(1) * here.rows)
        else:
            for rows, gradient in _gradients(network, part.masks, target[part.owner]):
                width = (part.end - part.start)[rows].unsqueeze(1)
                mean.index_add_(0, part.owner[rows], width * gradient)
    if not jumps:
        return Integral(mean, count)
    return _scaled(mean, count, found, lines)


@dataclass(frozen=True, eq=False)
class _State:
    """Masks and gradients at the end of a part of the paths."""

    masks: Tensor
    gradient: Tensor


@dataclass(frozen=True, eq=False)
class _Jumps:
    """Jumps ``rows`` of the gradient at places of the paths ``owner``; gradients before them."""

    owner: Tensor
    place: Tensor
    rows: Tensor
    before: Tensor


def _jumped(
    network: PiecewiseLinear, target: Tensor, part: Cells, state: _State | None
) -> tuple[_State, _Jumps]:
    """Every jump in a part of the paths, one neuron after the other."""
    first = torch.ones_like(part.owner, dtype=torch.bool)
    first[1:] = part.owner[1:] != part.owner[:-1]
    if state is None:
        masks = part.masks[first]
        state = _State(masks, torch.cat([g for _, g in _gradients(network, masks, target)]))
    before = torch.empty_like(part.masks)
    before[1:] = part.masks[:-1]
    before[first] = state.masks
    cell, neuron = (before ^ part.masks).nonzero(as_tuple=True)
    owner, place = part.owner[cell], part.start[cell]
    numbers = torch.arange(network.neurons)
    rows = torch.empty(len(cell), state.gradient.shape[1], dtype=torch.float64)
    for few in _batches(network, len(cell)):
        switched = numbers <= neuron[few].unsqueeze(1)
        masks = torch.where(switched, part.masks[cell[few]], before[cell[few]])
        rows[few] = network.gradient(masks, target[owner[few]])
    previous = torch.empty_like(rows)
    previous[1:] = rows[:-1]
    begins = torch.ones_like(owner, dtype=torch.bool)
    begins[1:] = owner[1:] != owner[:-1]
    previous[begins] = state.gradient[owner[begins]]
    after, ends = state.gradient.clone(), torch.ones_like(begins)
    ends[:-1] = begins[1:]
    after[owner[ends]] = rows[ends]
    last = torch.ones_like(first)
    last[:-1] = first[1:]
    return _State(part.masks[last], after), _Jumps(owner, place, rows - previous, state.gradient)


def _scaled(mean: Tensor, count: Tensor, found: list[_Jumps], lines: StraightPaths) -> Integral:
    """The integral with the jumps of each path, scaled to ``sign row row^T``."""
    owner, place, rows = (
        torch.cat([getattr(each, name) for each in found]) for name in ("owner", "place", "rows")
    )
    height = rows.abs().amax(1)
    size = torch.stack([each.before.abs().amax(1) for each in found]).amax(0)
    matters = height > _SMALLEST * size.scatter_reduce(0, owner, height, "amax")[owner]
    crossing = (rows * lines.away[owner]).sum(1)
    reach = rows.norm(dim=1) * lines.away.norm(dim=1)[owner]
    touches = crossing.abs() <= _GRAZING * reach
    kept = matters & ~touches
    owner, rows, crossing, place = owner[kept], rows[kept], crossing[kept], place[kept]
    scaled = rows * (place / crossing.abs()).sqrt().unsqueeze(1)
    signs = crossing.sign()
    mine = [(owner == row).nonzero().flatten() for row in range(len(mean))]
    jumps = tuple(scaled[each] for each in mine)
    return Integral(mean, count, jumps, tuple(signs[each] for each in mine))


def _gradients(
    network: PiecewiseLinear, masks: Tensor, target: Tensor
) -> Iterator[tuple[slice, Tensor]]:
    for rows in _batches(network, len(masks)):
        yield rows, network.gradient(masks[rows], target[rows])


def _batches(network: PiecewiseLinear, count: int) -> Iterator[slice]:
    size = max(1, _AT_ONCE // network.widest)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


@dataclass(frozen=True, eq=False)
class JumpHessian(LinearOperator):
    """``sum_k sign_k row_k row_k^T`` for each example; a product evaluates no network.

    Attributes:
        domain_like: ``(batch, *features)``.
        which: which of the matrices each example has, ``(batch,)``.
        rows: matrices ``(jumps, d)``.
        signs: of their rows.
    """

    domain_like: Tensor
    which: Tensor
    rows: tuple[Tensor, ...]
    signs: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        """Every matrix equals its transpose."""
        object.__setattr__(self, "symmetric", True)

    @property
    def domain(self) -> Tensor:
        """A tensor like what it acts on."""
        return self.domain_like

    def matvec(self, v: Tensor) -> Tensor:
        """The Hessian times ``v``."""
        flat = v.flatten(1)
        out = torch.zeros_like(flat)
        for number in sorted(set(self.which.tolist())):
            mine = (self.which == number).nonzero().flatten().to(v.device)
            rows, signs = self.rows[number], self.signs[number]
            out[mine] = ((flat[mine] @ rows.T) * signs) @ rows
        return out.view_as(v)

    def rmatvec(self, u: Tensor) -> Tensor:
        """The same: the Hessian is symmetric."""
        return self.matvec(u)

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``; the jumps are shared."""
        which = self.which[index.to(self.which.device)]
        return JumpHessian(self.domain_like[index], which, self.rows, self.signs)
