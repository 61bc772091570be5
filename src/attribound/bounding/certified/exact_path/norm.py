"""The largest norm of ``c + M delta + sum G_j rho_j``: proved, from weights that were searched.

Weighted Cauchy-Schwarz: for any positive weights the square is at most the sum of the weights
times the largest eigenvalue of a sum of outer products over them. A second bound also uses that
the residual rho_j is small where the input moves its neuron little, ``rho^2 <= b + k t^2``: with
multipliers z for ``(rho - low)(rho - high) <= 0``, y for that, and v for the ball,

    (y + z)(rho - m z / (y + z))^2 summed + delta^T N delta <= budget,
    N = Diag(v) - sum y k J J^T,
    budget = sum (m z)^2 / (y + z) - z low high + y b  +  v of the ball.

Whatever the search finds, the number that leaves is recomputed and proved by a Cholesky
factorisation that runs to its end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, TINY
from attribound.bounding.certified.exact_path.items import NeuronItems
from attribound.bounding.certified.exact_path.path_ball import PathBall
from attribound.bounding.certified.quadratic import Form, proved

_ROUNDS, _COLUMNS = 40, 8
_STEPS, _RATE = 80, 0.1
#: Features up to which the second bound is searched: every step has an eigenvalue problem.
MOST_FEATURES = 128


@dataclass(frozen=True, eq=False)
class Shift:
    """``c + M delta + sum G_j rho_j``, with delta in units of the ball's radius.

    Attributes:
        matrix: M, ``(d, d)``, times scale and radius.
        columns: G, ``(d, N)``.
        middle, half: of rho, ``(N,)``.
        items: what rho is.
        rows: J times scale and radius, ``(N, d)``.
        cube: whether delta is in a cube, or in the Euclidean ball.
    """

    matrix: Tensor
    columns: Tensor
    middle: Tensor
    half: Tensor
    items: NeuronItems
    rows: Tensor
    cube: bool

    @classmethod
    def of(cls, matrix: Tensor, factor: Tensor, items: NeuronItems, ball: PathBall) -> Shift:
        """From the derivative, and the factor of mean gradients, ``(d,)``."""
        middle = (items.low + items.high) / 2
        half = (items.high - items.low) / 2 * (1 + SLACK) + TINY
        units = ball.epsilon * ball.scale
        return cls(
            matrix * units,
            (factor * items.rows).T.contiguous(),
            middle,
            half,
            items,
            items.rows * units,
            ball.p != 2,
        )

    def weights(self) -> Tensor:
        """Weights of c, of the items and of the ball (one, or each feature's), nearly the best."""
        centre = (self.columns @ self.middle).unsqueeze(1)
        fixed = torch.cat([centre, self.columns * self.half], 1)
        generator = torch.Generator().manual_seed(0)
        size = len(self.matrix)
        z = torch.randn(size, _COLUMNS, generator=generator, dtype=torch.float64)
        for _ in range(_ROUNDS):
            parts, ball = fixed.T @ z, self.matrix.T @ z
            length = parts.norm(dim=1, keepdim=True)
            wide = ball.norm(dim=1, keepdim=True) if self.cube else ball.norm().view(1, 1)
            z = fixed @ (parts / length.clamp_min(TINY)) + self.matrix @ (
                ball / wide.clamp_min(TINY)
            )
            z = z / z.norm().clamp_min(TINY)
        found = torch.cat([length.flatten(), wide.flatten()])
        return found + 1e-9 * found.sum() / len(found) + TINY

    def first(self, weights: Tensor) -> float:
        """An upper value of the norm, proved; infinity if a weight is not above zero."""
        if not bool((weights > 0).all()):
            return math.inf
        centre = (self.columns @ self.middle).unsqueeze(1)
        every = torch.cat([centre, self.columns * self.half, self.matrix], 1)
        count = self.columns.shape[1] + 1
        share = torch.cat([weights[:count], weights[count:].expand(len(self.matrix))])
        form = Form.of(every, 1 / share, 2)
        return math.sqrt(form.maximum(2) * float(weights.sum())) * (1 + SLACK)

    def second(self, weights: Tensor) -> float:
        """The same, with multipliers searched from these weights; infinity if none is proved."""
        multipliers = _Multipliers.start(self, weights)
        best, kept = math.inf, multipliers
        adam = torch.optim.Adam([multipliers.logs], lr=_RATE)
        for _ in range(_STEPS):
            adam.zero_grad()
            with torch.enable_grad():
                square = multipliers.square()
            if square is None:
                multipliers.halve()
                continue
            if square.item() < best:
                best, kept = square.item(), multipliers.copy()
            with torch.enable_grad():
                square.log().backward()  # type: ignore[no-untyped-call]  # untyped in torch
            adam.step()
        return kept.proved() if math.isfinite(best) else math.inf


@dataclass(eq=False)
class _Multipliers:
    """Logarithms of the multipliers of c, z, y, and the ball."""

    shift: Shift
    logs: Tensor

    @classmethod
    def start(cls, shift: Shift, weights: Tensor) -> _Multipliers:
        """Those of the first bound, with a little of the second."""
        count = len(shift.items)
        z = weights[1 : count + 1] / shift.half**2
        ball = weights[count + 1 :]
        room = shift.items.growth * (shift.rows**2).sum(1)
        y = torch.minimum(0.1 * z, 0.1 * ball.min() / (room * max(1, count)).clamp_min(TINY))
        logs = torch.cat([weights[:1], z, y, ball]).clamp_min(1e-200).log()
        return cls(shift, logs.requires_grad_())

    def copy(self) -> _Multipliers:
        return _Multipliers(self.shift, self.logs.detach().clone())

    def halve(self) -> None:
        """Less of what can make N indefinite."""
        count = len(self.shift.items)
        with torch.no_grad():
            self.logs[1 + count : 1 + 2 * count] -= math.log(2)

    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The outer products without those of M, N, the budget; sizes of what N and it sum up."""
        shift, count = self.shift, len(self.shift.items)
        known = shift.items
        every = self.logs.exp()
        c, z, y, ball = (
            every[:1],
            every[1 : count + 1],
            every[count + 1 : 2 * count + 1],
            every[2 * count + 1 :],
        )
        both = y + z
        centre = shift.columns @ (shift.middle * z / both)
        outer = torch.outer(centre, centre) / c + (shift.columns / both) @ shift.columns.T
        grown = shift.rows * (y * known.growth).unsqueeze(1)
        least = torch.diag(ball.expand(len(shift.matrix))) - grown.T @ shift.rows
        terms = (shift.middle * z) ** 2 / both + y * known.constant
        signed = -z * known.low * known.high
        budget = c.sum() + (terms + signed).sum() + ball.sum()
        summed = (terms.abs() + signed.abs()).sum() + c.sum() + ball.sum()
        trace = ball.expand(len(shift.matrix)).sum() + (grown * shift.rows).sum()
        return outer, least, budget, summed, trace

    def square(self) -> Tensor | None:
        """The bound's square; None if N is not definite."""
        outer, least, budget, *_ = self.parts()
        root, info = torch.linalg.cholesky_ex(least)
        if info.item() != 0 or not budget.item() > 0:
            return None
        half = torch.linalg.solve_triangular(root, self.shift.matrix.T, upper=False)
        largest: Tensor = torch.linalg.eigvalsh(outer + half.T @ half)[-1] * budget
        return largest if bool(torch.isfinite(largest)) else None

    @torch.no_grad()
    def proved(self) -> float:
        """An upper value of the norm: ``[[largest - outer, M], [M^T, N]]`` is proved definite."""
        square = self.square()
        if square is None:
            return math.inf
        outer, least, budget, size, trace = self.parts()
        outer, least = (outer + outer.T) / 2, (least + least.T) / 2
        largest = square.item() / budget.item()
        count = len(outer)
        # N is in units of its own: balance both blocks before the proof.
        unit = math.sqrt(largest / max(least.diagonal().max().item(), TINY))
        errors = SLACK * (outer.diagonal().sum() + unit**2 * trace).item()
        errors += SLACK * float(self.shift.matrix.norm()) * unit
        for digits in range(10, 2, -1):
            top = largest * (1 + 10.0**-digits)
            block = torch.zeros(2 * count, 2 * count, dtype=torch.float64)
            block[:count, :count] = top * torch.eye(count, dtype=torch.float64) - outer
            block[:count, count:] = unit * self.shift.matrix
            block[count:, :count] = unit * self.shift.matrix.T
            block[count:, count:] = unit**2 * least
            deficit = proved(block)
            if deficit is None:
                continue
            spare = deficit + errors
            ball = count if self.shift.cube else 1
            total = budget.item() + SLACK * size.item() + ball * spare / unit**2
            return math.sqrt((top + spare) * total) * (1 + SLACK)
        return math.inf
