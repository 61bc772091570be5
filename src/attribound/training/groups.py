"""Terms with second derivatives, a few examples at a time.

Graphs of second derivatives are large, and a CPU is slower on large ones (twice, for ten times
the examples). Examples do not see each other in eval mode, so they can be taken in groups
and each group's graph freed before the next is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from attribound.attacks.objectives import Evaluation, Objective, Problem

#: Points in one graph of second derivatives.
POINTS_AT_ONCE = {"cpu": 64}
POINTS_AT_ONCE_ELSEWHERE = 4096

#: From rows of the batch to a number for each of them, with its graph.
Term = Callable[[slice], Tensor]


def groups(x: Tensor, points: int) -> Iterator[slice]:
    """Rows of ``x`` to be taken together, if an example needs that many points."""
    most = POINTS_AT_ONCE.get(x.device.type, POINTS_AT_ONCE_ELSEWHERE)
    size = max(1, most // points)
    for start in range(0, len(x), size):
        yield slice(start, min(start + size, len(x)))


def mean_over_examples(model: nn.Module, x: Tensor, points: int, term: Term) -> Tensor:
    """The mean over the rows of ``x`` of a term, with its gradient to the model's parameters.

    That gradient is taken here already, group by group; the backward of the result only
    scales it. So the result can be differentiated once, and not with respect to ``x``.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    rows = list(groups(x, points))
    if not parameters or not torch.is_grad_enabled():
        return torch.stack([term(part).detach().sum() for part in rows]).sum() / len(x)
    total: Tensor = _Sum.apply(term, rows, *parameters)  # type: ignore[no-untyped-call]
    return total / len(x)


class _Sum(Function):
    """The sum of a term over groups of examples; its gradient is computed with it."""

    @staticmethod
    def forward(ctx: Any, term: Term, rows: list[slice], *parameters: Tensor) -> Tensor:
        total = parameters[0].new_zeros(())
        gradients: list[Tensor | None] = [None] * len(parameters)
        for part in rows:
            with torch.enable_grad():
                value = term(part).sum()
            total += value.detach()
            found = torch.autograd.grad(value, parameters, allow_unused=True)
            gradients = [_plus(a, b) for a, b in zip(gradients, found, strict=True)]
        ctx.gradients = gradients
        return total

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> Any:
        scaled = [None if g is None else scale * g for g in ctx.gradients]
        return None, None, *scaled


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The sum, where None stands for zero."""
    return b if a is None else a if b is None else a + b


@dataclass(frozen=True, eq=False)
class GroupedScore(Objective):
    """A score per example to be climbed by second derivatives, a few examples at a time.

    Attributes:
        score: from perturbed inputs and the rows of the batch they are, with its graph.
        points: gradients of the model in one score.
    """

    score: Callable[[Tensor, slice], Tensor]
    points: int

    def cost(self, problem: Problem) -> int:  # noqa: ARG002
        """The gradients and their derivatives."""
        return 2 * self.points

    def evaluate(self, problem: Problem, points: Tensor, *, slope: bool) -> Evaluation:  # noqa: ARG002
        """The score, and its slope by double backward."""
        scores, slopes = [], []
        for rows in groups(points, self.points):
            with torch.enable_grad():
                leaf = points[rows].detach().requires_grad_()
                score = self.score(leaf, rows)
            scores.append(score.detach())
            if slope:
                slopes.append(torch.autograd.grad(score.sum(), leaf)[0])
        together = torch.cat(scores)
        return Evaluation(together, torch.cat(slopes) if slope else None, together)
