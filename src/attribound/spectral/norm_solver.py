"""The norm of every example's operator from the p-norm, p > 2, or a box, into the 2-norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attribound.balls import unit_maximiser
from attribound.basics.errors import InputError, ModelError
from attribound.basics.tensors import round_up
from attribound.operators import DenseOperator, LinearOperator, dense
from attribound.results import Bracket, NormEstimate, Status
from attribound.spectral.dual_certificate import certificate, dense_certificate, weights
from attribound.spectral.generalised_power import full_rank, gaussians, generalised_power
from attribound.spectral.homogenised import Homogenised, corner, homogenised
from attribound.spectral.mixing import mixing
from attribound.spectral.rounding import Attained, ascend, attained, best_of, hyperplanes
from attribound.spectral.solver import SpectralSolver
from attribound.spectral.surrogate import nystroem, promising, refine
from attribound.values import Value, register

_POINTS = 64  # model evaluations at once while a matrix is built
# What costs no products is done until it gains nothing more.
_ITERATIONS = 100
_ROUNDINGS = 64
_REGULARISERS = (1e-2, 1e-3, 1e-4)
_MARGIN = 64  # outwards for rounding, in units of the operator's precision


@register("norm_solver")
@dataclass(frozen=True)
class NormSolver(Value):
    """Bracket of max |J d|_2 over |d|_p <= 1 (p > 2), or over a box.

    NP-hard to compute; bracketed by a semidefinite relaxation. Above: weights from a
    few steps of a low-rank power method, certified by one singular value. Valid for
    whatever weights came out, except with the solver's failure probability; tight
    if the method got far. Below: a point of the ball found by rounding. Between the two
    lies at most what the relaxation costs (for p = inf a factor 1.2534 at its
    optimum, a few per cent on trained networks) and what the method left undone.

    With the defaults at most 193 products for an example of any size. Up to
    ``dense_below`` features the matrix is built instead, at a product a feature; the
    rest is then free, solved to the end and certified without probability.

    Attributes:
        rank: columns of the relaxation; with ``iterations`` costs 2 * rank * iterations.
        iterations: steps of the power method.
        roundings: points tried for the lower value, a product each.
        dense_below: features up to which the matrix is built.
        solver: of the singular value in the certificate; its start is independent of ``seed``.
        seed: of the random start and roundings, the same for every example.
    """

    rank: int = 10
    iterations: int = 4
    roundings: int = 4
    dense_below: int = 192
    solver: SpectralSolver = field(
        default_factory=lambda: SpectralSolver(tolerance=0.005, max_iterations=52)
    )
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        for name, least in [
            ("rank", 1),
            ("iterations", 1),
            ("roundings", 1),
            ("dense_below", 0),
            ("seed", 0),
        ]:
            if not getattr(self, name) >= least:
                raise InputError(
                    name,
                    expected=f"at least {least}",
                    got=repr(getattr(self, name)),
                    remedy="leave it out to use the default",
                )

    @torch.no_grad()
    def __call__(self, operator: LinearOperator, p: float = math.inf) -> NormEstimate:
        """Solve for the unit ball of the p-norm, 2 <= p <= inf."""
        if not p >= 2:
            raise InputError(
                "p",
                expected="an order from 2 to infinity",
                got=repr(p),
                remedy="below 2 the largest singular value is an upper value; for p = 1 the "
                "largest column is the norm",
            )
        size = operator.domain[0].numel()
        if size <= self.dense_below:
            answer = self._on_matrices(_matrices(operator), p, size)
        else:
            answer = self._matrix_free(operator, p)
        return self._estimate(operator, answer, answer.found.point)

    @torch.no_grad()
    def box(self, operator: LinearOperator, low: Tensor, high: Tensor) -> NormEstimate:
        """Solve for ``low <= d <= high``, both ``(batch, *features)``."""
        cube = homogenised(operator, low, high)
        size = operator.domain[0].numel()
        if size <= self.dense_below:
            # The matrix of J; that of the cube follows without products.
            flat = Homogenised(_matrices(operator), _flat(cube.half), _flat(cube.centre))
            answer = self._on_matrices(_matrices(flat), math.inf, size)
        else:
            answer = self._matrix_free(cube, math.inf)
        ends = (end.to(operator.domain) for end in (low, high))
        point = corner(answer.found.point.to(operator.domain), *ends)
        return self._estimate(operator, answer, point)

    def _matrix_free(self, operator: LinearOperator, p: float) -> _Answer:
        size = operator.domain[0].numel()
        start = gaussians(self.rank, size, self.seed, stream=0)
        relaxed = generalised_power(operator, p, start, self.iterations)
        _check_finite(relaxed.images)
        surrogate = nystroem(relaxed.factors, relaxed.images)
        product, row_norms = refine(surrogate, relaxed, p)
        dual = certificate(operator, weights(row_norms, p), p, self.solver)
        directions = gaussians(max(_ROUNDINGS, self.roundings), self.rank, self.seed, stream=1)
        points = hyperplanes(product, directions, p)
        best = best_of(operator, promising(surrogate, points, p, self.roundings))
        best = best.or_better(attained(operator, unit_maximiser(dual.slope, p)))
        found = ascend(operator, best, p)
        products = dual.spectral.products + relaxed.products + found.products
        return _Answer(found, dual.upper, products, dual.spectral.status)

    def _on_matrices(self, operator: DenseOperator, p: float, spent: int) -> _Answer:
        size = operator.domain.shape[1]
        rank = full_rank(size)
        start = gaussians(rank, size, self.seed, stream=0)
        if p == math.inf:
            each = [mixing(matrix, start) for matrix in operator.matrix]
            product, primal, upper = (torch.stack(part) for part in zip(*each, strict=True))
        else:
            relaxed = generalised_power(operator, p, start, _ITERATIONS)
            product, primal = relaxed.product, relaxed.value
            candidates = [weights(relaxed.row_norms, p, share) for share in _REGULARISERS]
            upper = torch.stack([dense_certificate(operator, y, p) for y in candidates]).amin(0)
        directions = gaussians(_ROUNDINGS, rank, self.seed, stream=1)
        found = ascend(operator, best_of(operator, hyperplanes(product, directions, p)), p)
        converged = upper <= primal * (1 + self.solver.tolerance)
        status = [Status.CONVERGED if ok else Status.ITERATION_LIMIT for ok in converged.tolist()]
        return _Answer(found, upper, torch.full((len(product),), spent), tuple(status))

    def _estimate(self, operator: LinearOperator, answer: _Answer, point: Tensor) -> NormEstimate:
        like = operator.domain
        lower = answer.found.value.double().cpu()
        # Outwards for the products' rounding; what is attained is a lower value for certain.
        outwards = answer.upper * (1 + _MARGIN * torch.finfo(like.dtype).eps)
        upper = round_up(torch.maximum(outwards, lower), like)
        return NormEstimate(
            value=Bracket(
                torch.minimum(lower.to(like), upper), upper, self.solver.failure_probability
            ),
            point=point.to(like).view_as(like),
            products=answer.products,
            status=answer.status,
        )


@dataclass(frozen=True, eq=False)
class _Answer:
    """Lower and upper value, ``upper`` in doubles on the CPU."""

    found: Attained
    upper: Tensor
    products: Tensor
    status: tuple[Status, ...]


def _matrices(operator: LinearOperator) -> DenseOperator:
    """The operator as matrices, in double precision on the CPU."""
    at_once = max(1, _POINTS // operator.points)
    rows = range(len(operator))
    found = [dense(operator, row, at_once).cpu().double() for row in rows]
    return DenseOperator(_check_finite(torch.stack(found)))


def _check_finite(products: Tensor) -> Tensor:
    """``products``, refused with NaN or infinity in them."""
    if not torch.isfinite(products).all():
        raise ModelError(
            "derivatives of the attribution",
            expected="finite numbers",
            got="NaN or infinity in a product with the Jacobian",
            remedy="use a smaller beta, float64, or inputs in the model's range",
        )
    return products


def _flat(tensor: Tensor) -> Tensor:
    return tensor.flatten(1).cpu().double()
