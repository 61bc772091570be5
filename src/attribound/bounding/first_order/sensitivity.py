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
from attribound.balls import LpBall, unit_maximiser
from attribound.bounding.first_order.dense_limit import check_dense, fits
from attribound.bounding.first_order.entrywise_sum import THEOREM_2
from attribound.bounding.first_order.l2_norm import INCLUSION, THEOREM_1, l2_norm
from attribound.bounding.first_order.largest_column import LARGEST_COLUMN
from attribound.bounding.first_order.norm_relaxation import COROLLARY_1, norm_relaxation
from attribound.bounding.first_order.unit_balls import UnitBalls
from attribound.results import NormEstimate, SpectralEstimate, Status
from attribound.spectral import NormSolver, SpectralSolver

DUAL_CERTIFICATE = "dual certificate"
RANGE_CERTIFICATE = "dual certificate in range"
_CHEAP = 256  # features up to which d products cost no more than the matrix-free way


@dataclass(frozen=True)
class FirstOrder:
    """How the first-order bounds are computed.

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
    progress: bool = False

    def builds_matrix(self, like: Tensor, p: float) -> bool:
        """Whether a dense Jacobian is built for inputs like ``like``; refuses what won't fit."""
        if p not in (1, math.inf) or self.dense is False:
            return False
        if self.dense:
            check_dense(like, self.dense_limit)
            return True
        cheap = p == 1 or self.norm is None or like[0].numel() <= _CHEAP
        return cheap and fits(like, self.dense_limit)


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


def upper_value(at: Linearization, ball: LpBall, x: Tensor, method: FirstOrder) -> Upper:
    """The tightest upper value without the others beside it: for inner loops."""
    if ball.p <= 2 or method.norm is None:
        found = sensitivity(at, ball, x, method)
        return Upper(found.value, found.delta, found.products, found.status)
    return _by_certificate(at, ball, x, method.norm)


def _by_certificate(at: Linearization, ball: LpBall, x: Tensor, solver: NormSolver) -> Upper:
    """The dual certificate, in the range of the cube if it has one."""
    if _limited(ball, x):
        found = solver.box(at.jacobian, *ball.box(x))
        return Upper(found.value.upper, found.point, found.products, found.status)
    return _scaled(solver(at.jacobian, ball.p), ball.epsilon)


def _scaled(unit: NormEstimate, epsilon: float) -> Upper:
    """From the unit ball to that of radius ``epsilon``."""
    return Upper(epsilon * unit.value.upper, epsilon * unit.point, unit.products, unit.status)


def _limited(ball: LpBall, x: Tensor) -> bool:
    """Whether the range cuts something off the cube around one of the examples."""
    low, high = ball.box(x)
    return ball.p == math.inf and bool((high - low < 2 * ball.epsilon).any())


def sensitivity(
    at: Linearization,
    ball: LpBall,
    x: Tensor,
    method: FirstOrder,
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
    p, epsilon = ball.p, ball.epsilon
    dense = method.builds_matrix(at.value, p)
    unit = shared or UnitBalls(at.jacobian, method.solver)
    spectral = unit.spectral
    products = spectral.products
    delta = epsilon * unit_maximiser(spectral.right, p)
    values: dict[str, Tensor] = {}
    statuses: dict[str, tuple[Status, ...]] = {}
    if p > 2:
        values[COROLLARY_1] = epsilon * norm_relaxation(spectral, p)
    else:
        values[THEOREM_1 if p == 2 else INCLUSION] = epsilon * l2_norm(spectral)
    if dense:
        products = products + at.value[0].numel()
        if p == 1:
            column, vertex = unit.largest_column
            values[LARGEST_COLUMN], delta = epsilon * column, epsilon * vertex
        else:
            values[THEOREM_2] = epsilon * unit.entrywise_sum
    if p > 2 and method.norm is not None:
        # Without the range first, so that a range never loosens the bound.
        free = _scaled(unit.norm(method.norm, p), epsilon)
        values[DUAL_CERTIFICATE], delta = free.value, free.delta
        statuses[DUAL_CERTIFICATE] = free.status
        products = products + free.products
        if _limited(ball, x):
            within = _by_certificate(at, ball, x, method.norm)
            values[RANGE_CERTIFICATE], delta = within.value, within.delta
            statuses[RANGE_CERTIFICATE] = within.status
            products = products + within.products
    value, which = torch.stack(list(values.values())).min(0)
    names = list(values)
    source = tuple(names[i] for i in which.tolist())
    status = tuple(statuses.get(name, spectral.status)[i] for i, name in enumerate(source))
    return Sensitivity(value, source, values, ball.clip(delta, x), spectral, products, status)
