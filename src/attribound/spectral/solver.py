"""The largest singular value of every example's operator, bracketed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.basics.tensors import round_up
from attribound.operators import LinearOperator
from attribound.results import Bracket, SpectralEstimate, Status
from attribound.spectral.golub_kahan import GolubKahan
from attribound.spectral.lanczos import Lanczos
from attribound.spectral.upper_estimate import log_component
from attribound.values import Value, register

#: Outward margin of the upper estimate for rounding, in units of the machine precision.
_ROUNDING = 64


@register("spectral_solver")
@dataclass(frozen=True)
class SpectralSolver(Value):
    """Krylov iteration with full reorthogonalisation until the bracket is tight.

    The upper estimate is valid at every step, converged or not, except with
    ``failure_probability`` over the random start. All examples start from the same
    vector, drawn from ``seed``: an example's answer does not depend on its batch.
    Converged examples leave the batch.

    Attributes:
        tolerance: stop when upper / Ritz - 1 is at most this (``stop="upper"``), or the
            residual / Ritz value (``stop="ritz"``).
        max_iterations: steps at most; one step is two products, or one if symmetric.
        failure_probability: of each example's upper estimate.
        seed: of the start vector.
        stop: on the ``upper`` estimate, or on the ``ritz`` value alone: fewer
            products for a direction, with an upper estimate that is valid but loose.
    """

    tolerance: float = 0.01
    max_iterations: int = 100
    failure_probability: float = 1e-6
    seed: int = 0
    stop: Literal["upper", "ritz"] = "upper"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        for name, ok, expected in [
            ("tolerance", self.tolerance > 0, "a relative tolerance above 0"),
            ("max_iterations", self.max_iterations >= 1, "at least one step"),
            ("failure_probability", 0 < self.failure_probability < 1, "a number in (0, 1)"),
            ("stop", self.stop in ("upper", "ritz"), "'upper' or 'ritz'"),
        ]:
            if not ok:
                raise InputError(
                    name,
                    expected=expected,
                    got=repr(getattr(self, name)),
                    remedy="the defaults are 0.01, 100, 1e-6 and 'upper'",
                )

    @torch.no_grad()
    def __call__(self, operator: LinearOperator) -> SpectralEstimate:
        """Solve for all examples of ``operator``."""
        like, image = operator.domain, operator.range
        batch, size, height = len(like), like[0].numel(), image[0].numel()
        steps = min(self.max_iterations, size)
        start = self._start(size).to(like).expand(batch, size)
        process = (Lanczos if operator.symmetric else GolubKahan)(start, image.flatten(1), steps)
        log_tau = log_component(size, self.failure_probability)

        lower, upper, residual = (torch.zeros(batch, dtype=torch.float64) for _ in range(3))
        products = torch.zeros(batch, dtype=torch.long)
        converged = torch.zeros(batch, dtype=torch.bool)
        left, right = torch.zeros_like(image).flatten(1), torch.zeros_like(like).flatten(1)
        active = torch.arange(batch)
        each = process.products_per_step
        # The Krylov space is everything: of the domain, or of a range that is smaller.
        exhausted = each * size if height >= size else each * height + 1
        for product in range(1, each * steps + 1):
            process.expand(operator)
            low, high = process.bracket(log_tau)
            if product >= exhausted:
                high = low  # Ritz values are singular values
            if self.stop == "ritz":
                settled = (process.residual() <= self.tolerance * low) | (high <= low)
            else:
                settled = high <= low * (1 + self.tolerance)
            done = settled | (product == each * steps)
            if not done.any():
                continue
            leaving, staying = (rows.nonzero().flatten() for rows in (done, ~done))
            out, here = active[leaving], active[leaving].to(like.device)
            u, v = process.vectors()
            left[here], right[here] = u[leaving.to(u.device)], v[leaving.to(v.device)]
            lower[out], upper[out] = low[leaving], high[leaving]
            residual[out] = process.residual()[leaving]
            products[out] = product
            converged[out] = settled[leaving]
            if not len(staying):
                break
            active = active[staying]
            process.select(staying.to(like.device))
            operator = operator.select(staying.to(like.device))
        # Outwards, so that rounding in the products cannot put it below.
        upper = upper * (1 + _ROUNDING * torch.finfo(like.dtype).eps)
        return SpectralEstimate(
            value=Bracket(lower.to(like), round_up(upper, like), self.failure_probability),
            left=left.view_as(image),
            right=right.view_as(like),
            residual=residual.to(like),
            products=products,
            status=tuple(
                Status.CONVERGED if ok else Status.ITERATION_LIMIT for ok in converged.tolist()
            ),
        )

    def _start(self, size: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        draw = torch.randn(size, generator=generator, dtype=torch.float64)
        start: Tensor = draw / torch.linalg.vector_norm(draw)
        return start
