"""How far the linearised attribution can move in a ball.

Without a value range everything the paper bounds is a number times epsilon: one
computation serves every radius.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attribound.attributions import Linearization
from attribound.balls import Ball, Enclosure, enclosure, unit_maximiser
from attribound.basics.numbers import refuse_other
from attribound.bounding.first_order.dense_limit import check_dense, fits
from attribound.bounding.first_order.entrywise_sum import THEOREM_2
from attribound.bounding.first_order.l2_norm import INCLUSION, THEOREM_1, l2_norm
from attribound.bounding.first_order.largest_column import LARGEST_COLUMN
from attribound.bounding.first_order.norm_relaxation import COROLLARY_1, norm_relaxation
from attribound.bounding.first_order.unit_balls import UnitBalls
from attribound.bounding.method import Method
from attribound.operators import LinearOperator
from attribound.results import NormEstimate, SpectralEstimate, Status
from attribound.spectral import NormSolver, SpectralSolver
from attribound.values import NO_SETTING

DUAL_CERTIFICATE = "dual certificate"
RANGE_CERTIFICATE = "dual certificate in range"
_CHEAP = 256  # features up to which d products cost no more than the matrix-free way


@dataclass(frozen=True)
class LinearEffort(Method):
    """How the linearised problem is solved: the settings of :class:`FirstOrder`.

    Attributes:
        solver: of the largest singular value.
        norm: of the p-to-2 norm, p > 2, tighter than the paper; None for the paper alone.
        dense: for p = inf and p = 1, build the dense Jacobian (d products) to get
            Theorem 2 and the exact value. None: where that is cheap, that is for p = 1
            or without ``norm`` if it fits, else up to a few hundred features.
        dense_limit: bytes that may be spent on it; with ``dense=True`` more is refused.
        progress: show a progress bar on the terminal.
    """

    solver: SpectralSolver = field(default_factory=SpectralSolver)
    norm: NormSolver | None = field(default_factory=NormSolver)
    dense: bool | None = None
    dense_limit: int = 2**31
    progress: bool = field(default=False, compare=False, metadata=NO_SETTING)

    def __post_init__(self) -> None:
        """Refuse solvers that are none."""
        refuse_other("solver", self.solver, SpectralSolver, "use SpectralSolver(tolerance=1e-3)")
        if self.norm is not None:
            refuse_other("norm", self.norm, NormSolver, "use NormSolver(), or None")

    def builds_matrix(self, jacobian: LinearOperator, p: float) -> bool:
        """Whether a dense Jacobian is built; refuses what won't fit."""
        if p not in (1, math.inf) or self.dense is False:
            return False
        if self.dense:
            check_dense(jacobian, self.dense_limit)
            return True
        cheap = p == 1 or self.norm is None or jacobian.domain[0].numel() <= _CHEAP
        return cheap and fits(jacobian, self.dense_limit)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Upper value of max |J delta|_2 over the ball, per example.

    Attributes:
        value: the smallest of ``values``.
        source: which one that was.
        values: every applicable result by name.
        delta: the best perturbation of the ball that is known.
        spectral: the singular value behind it.
        products: operator products spent.
        status: of the solver behind ``value``.
    """

    value: Tensor
    source: tuple[str, ...]
    values: dict[str, Tensor]
    delta: Tensor
    spectral: SpectralEstimate
    products: Tensor
    status: tuple[Status, ...]


@dataclass(frozen=True, eq=False)
class Upper:
    """One upper value of max |J delta|_2 over the ball, the best delta known, and the cost."""

    value: Tensor
    delta: Tensor
    products: Tensor
    status: tuple[Status, ...]


def upper_value(at: Linearization, ball: Ball, x: Tensor, method: LinearEffort) -> Upper:
    """The tightest upper value without the others beside it: for inner loops."""
    around = enclosure(ball, x)
    if around.p <= 2 or method.norm is None:
        found = sensitivity(at, ball, x, method)
        return Upper(found.value, found.delta, found.products, found.status)
    if _limited(ball, around, x):
        return _in_range(at, ball, x, method.norm)
    return _carried(around, method.norm(around.scaled(at.jacobian), around.p))


def _in_range(at: Linearization, ball: Ball, x: Tensor, solver: NormSolver) -> Upper:
    """The dual certificate in the box that the limits of values leave of a cube."""
    found = solver.box(at.jacobian, *ball.limits(x))
    return Upper(found.value.upper, found.point, found.products, found.status)


def _carried(around: Enclosure, unit: NormEstimate) -> Upper:
    """From the plain unit ball to ``around``."""
    delta = around.carried(around.epsilon * unit.point)
    return Upper(around.epsilon * unit.value.upper, delta, unit.products, unit.status)


def _limited(ball: Ball, around: Enclosure, x: Tensor) -> bool:
    """Whether the range cuts something off the cube around one of the examples."""
    if around.p != math.inf or not ball.limited:
        return False
    low, high = ball.limits(x)
    reach = around.carried(torch.full_like(x, around.epsilon))
    return bool((high - low < 2 * reach).any())


def sensitivity(
    at: Linearization,
    ball: Ball,
    x: Tensor,
    method: LinearEffort,
    shared: UnitBalls | None = None,
) -> Sensitivity:
    """Collect every applicable upper value and keep the smallest, example by example.

    Args:
        at: the linearisation, at ``x`` or elsewhere in the ball.
        ball: the perturbations of ``x``.
        x: its centre, from which a value range is counted.
        method: what to compute.
        shared: what was solved for other balls around ``x`` with this method.
    """
    around = enclosure(ball, x)
    p, epsilon = around.p, around.epsilon
    dense = method.builds_matrix(at.jacobian, p)
    unit = (shared or UnitBalls(at.jacobian, method.solver)).within(around)
    spectral = unit.spectral
    products = spectral.products
    delta = around.carried(epsilon * unit_maximiser(spectral.right, p))
    values: dict[str, Tensor] = {}
    statuses: dict[str, tuple[Status, ...]] = {}
    if p > 2:
        values[COROLLARY_1] = epsilon * norm_relaxation(spectral, p)
    else:
        values[THEOREM_1 if p == 2 else INCLUSION] = epsilon * l2_norm(spectral)
    if dense:
        products = products + at.jacobian.domain[0].numel()
        if p == 1:
            column, vertex = unit.largest_column
            values[LARGEST_COLUMN], delta = epsilon * column, around.carried(epsilon * vertex)
        else:
            values[THEOREM_2] = epsilon * unit.entrywise_sum
    if p > 2 and method.norm is not None:
        # Without the range first, so that a range never loosens the bound.
        free = _carried(around, unit.norm(method.norm, p))
        values[DUAL_CERTIFICATE], delta = free.value, free.delta
        statuses[DUAL_CERTIFICATE] = free.status
        products = products + free.products
        if _limited(ball, around, x):
            within = _in_range(at, ball, x, method.norm)
            values[RANGE_CERTIFICATE], delta = within.value, within.delta
            statuses[RANGE_CERTIFICATE] = within.status
            products = products + within.products
    value, which = torch.stack(list(values.values())).min(0)
    names = list(values)
    source = tuple(names[i] for i in which.tolist())
    status = tuple(statuses.get(name, spectral.status)[i] for i, name in enumerate(source))
    return Sensitivity(value, source, values, ball.clip(delta, x), spectral, products, status)
