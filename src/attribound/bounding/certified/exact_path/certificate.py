"""The certificate of exact integrated gradients of one example."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions.exact.piecewise import PiecewiseLinear
from attribound.basics.errors import ModelError
from attribound.basics.rounding import SLACK, TINY, gamma
from attribound.bounding.certified.exact_path.flips import flips
from attribound.bounding.certified.exact_path.items import NeuronItems, items
from attribound.bounding.certified.exact_path.norm import MOST_FEATURES, Shift
from attribound.bounding.certified.exact_path.path_ball import PathBall
from attribound.bounding.certified.exact_path.pieces import Pieces, pieces


@dataclass(frozen=True, eq=False)
class IntegrationPath:
    """What is integrated for one example: ``(1, d)`` in float64, and the label explained."""

    base: Tensor
    x: Tensor
    target: int
    multiplied: bool


@dataclass(frozen=True, eq=False)
class PathCertificate:
    """Proved: for every perturbation the map moves by at most ``value`` in the Euclidean norm.

    Attributes:
        map: the exact integrated gradients, as they are computed, ``(d,)``.
        low, high: between these every score stays, ``(d,)``; the error of the map included.
        items: neurons (on runs of cells) that may switch.
    """

    value: float
    map: Tensor
    low: Tensor
    high: Tensor
    items: int
    _pairs: _Pairs

    def top_that_stay(self, k: int) -> int:
        """How many of the k scores largest in size are proved to stay among the k largest."""
        return self._pairs.stay(self.map, k)

    def along(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Ends of ``directions (n, d)`` times the change of the map, for every perturbation."""
        return self._pairs.along(directions)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """What bounds combinations of two scores: rows of M, columns of H, the rest.

    ``error`` is that of the scores at x themselves.
    """

    centre: Tensor
    matrix: Tensor
    columns: Tensor
    rest: Tensor
    error: Tensor
    cube: bool

    def along(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        middle = directions @ self.centre
        rows = directions @ self.matrix
        reach = rows.abs().sum(1) if self.cube else rows.norm(dim=1)
        wide = reach + (directions @ self.columns).abs().sum(1) + directions.abs() @ self.rest
        # Products of signed numbers: rounded relative to those of absolute ones.
        size = self.centre.abs() + self.matrix.abs().sum(1) + self.columns.abs().sum(1)
        margin = wide * SLACK + SLACK * (directions.abs() @ size) + TINY
        return middle - wide - margin, middle + wide + margin

    def stay(self, scores: Tensor, k: int) -> int:
        order = scores.abs().argsort(descending=True)[:k]
        kept = 0
        for i in order.tolist():
            sign = 1.0 if scores[i] >= 0 else -1.0
            below = self._above(scores, i, sign, 1.0) & self._above(scores, i, sign, -1.0)
            below[i] = False
            kept += int(len(scores) - 1 - int(below.sum()) <= k - 1)
        return kept

    def _above(self, scores: Tensor, i: int, sign: float, other: float) -> Tensor:
        """Of which scores j ``sign g_i > other g_j`` is proved, ``(d,)``."""
        rows = sign * self.matrix[i] - other * self.matrix
        reach = rows.abs().sum(1) if self.cube else rows.norm(dim=1)
        columns = (sign * self.columns[i] - other * self.columns).abs().sum(1)
        rest = self.rest[i] + self.rest + self.error[i] + self.error
        centre = sign * (scores + self.centre)[i] - other * (scores + self.centre)
        size = scores.abs() + self.centre.abs()
        return centre > (reach + columns + rest) * (1 + SLACK) + SLACK * (size + size[i]) + TINY


def certify_path(
    network: PiecewiseLinear, path: IntegrationPath, ball: PathBall
) -> PathCertificate:
    """Bound how far exact integrated gradients move when x moves in the ball.

    With J_j the row of a neuron, w_j = slope_j t + rho_j what it adds and D the displacement, they
    move by ``M delta + sum D J_j rho_j + delta * (change of the mean gradient)``, where
    ``M = Diag(mean gradient) + Diag(D) sum slope_j J_j J_j^T``. It holds across kinks and jumps.
    """
    if any(abs(slope) > 1 for slope in network.slopes):
        raise ModelError(
            "the model",
            expected="hinges that are convex, with slopes of at most 1",
            got=f"a LeakyReLU of slope {max(network.slopes, key=abs):g}",
            remedy="use the claim mean_value",
        )
    found = pieces(network, path.base, path.x, path.target)
    moving = items(found, flips(found, ball))
    factor = found.away if path.multiplied else torch.ones_like(found.away)
    matrix = factor.unsqueeze(1) * ((moving.rows.T * moving.slope) @ moving.rows)
    changed = _change(moving)
    rest = torch.zeros_like(factor)
    if path.multiplied:
        matrix = matrix + torch.diag(found.mean)
        rest = changed + found.mean_error
    spare = _still(found, factor, ball) + _rounding(moving, factor)
    shift = Shift.of(matrix, factor, moving, ball)
    weights = shift.weights()
    value = shift.first(weights)
    if len(factor) <= MOST_FEATURES and len(moving):
        value = min(value, shift.second(weights))
    value += ball.times(rest)
    value = (value + spare) * (1 + SLACK)
    return _stated(found, factor, shift, ball.epsilon * ball.scale * rest + spare, value)


def _stated(
    found: Pieces, factor: Tensor, shift: Shift, rest: Tensor, value: float
) -> PathCertificate:
    scores = factor * found.mean
    centre = shift.columns @ shift.middle
    columns = shift.columns * shift.half
    reach = shift.matrix.abs().sum(1) if shift.cube else shift.matrix.norm(dim=1)
    error = factor.abs() * found.mean_error
    size = scores.abs() + centre.abs() + reach + columns.abs().sum(1) + rest
    wide = reach + columns.abs().sum(1) + rest + error + SLACK * size + TINY
    return PathCertificate(
        value if math.isfinite(value) else math.inf,
        scores,
        scores + centre - wide,
        scores + centre + wide,
        len(shift.items),
        _Pairs(centre, shift.matrix, columns, rest, error, shift.cube),
    )


def _change(moving: NeuronItems) -> Tensor:
    """Of each component of the mean gradient how far it changes, from above, ``(d,)``."""
    least, most = moving.least.unsqueeze(1), moving.most.unsqueeze(1)
    ends = torch.stack([least * moving.rows, most * moving.rows])
    low, high = ends.amin(0), ends.amax(0)
    sums = torch.maximum(-low.sum(0), high.sum(0))
    size = torch.maximum(-moving.least, moving.most)
    errors = (moving.row_error * size).sum() + SLACK * (size.unsqueeze(1) * moving.rows.abs()).sum(
        0
    )
    return (sums.clamp_min(0) + errors) * (1 + SLACK) + TINY


def _still(found: Pieces, factor: Tensor, ball: PathBall) -> float:
    """What crossings misplaced by rounding amount to at x itself."""
    there = items(found, flips(found, PathBall(0.0, ball.p, ball.scale)))
    size = torch.maximum(-there.least, there.most)
    length = (factor * there.rows).norm(dim=1) + factor.abs().max() * there.row_error
    return float((size * length).sum()) * (1 + SLACK) + TINY


def _rounding(moving: NeuronItems, factor: Tensor) -> float:
    """What errors of the rows J, and of sums of them, amount to."""
    size = torch.maximum(-moving.least, moving.most)
    size = size + 2 * moving.slope.abs() * moving.radius + moving.low.abs() + moving.high.abs()
    wrong = 4 * moving.row_error + gamma(len(moving) + 16) * moving.rows.norm(dim=1)
    return float(factor.abs().max() * (size * wrong).sum()) * (1 + SLACK) + TINY
