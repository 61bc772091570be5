"""The bound of every example."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.balls import Ball
from attribound.basics.tables import cell, columns, render
from attribound.basics.tensors import ratio
from attribound.results.claims import Claim, Status, claim_named
from attribound.results.gap import Gap
from attribound.results.spectral import Bracket
from attribound.results.subject import YOURS


@dataclass(frozen=True, eq=False)
class LabelConstraint:
    """The half-space ``normal . delta < margin`` in which, to first order, the label stays.

    Attributes:
        runner_up: the second best label y'.
        normal: M, the gradient of the runner-up's logit minus that of the target's.
        margin: b, the target's logit minus the runner-up's; negative if misclassified.
        plus_feasible, minus_feasible: whether the worst perturbation and its negative
            lie in the half-space.
        misclassified: the target is not the predicted label.
    """

    runner_up: Tensor
    normal: Tensor
    margin: Tensor
    plus_feasible: Tensor
    minus_feasible: Tensor
    misclassified: Tensor

    @property
    def attained(self) -> Tensor:
        """Whether the constraint leaves the linearised optimum where it was."""
        return self.plus_feasible | self.minus_feasible

    def __repr__(self) -> str:
        rows = zip(
            *columns(self.runner_up, self.margin, self.plus_feasible, self.minus_feasible),
            *columns(self.misclassified),
            strict=True,
        )
        header = ["runner-up", "margin", "+ feasible", "- feasible", "misclassified"]
        return render("LabelConstraint", header, list(rows))


@dataclass(frozen=True, eq=False)
class Bound:
    """How far the attribution of each example can move in a ball.

    Attributes:
        ball: of the perturbations.
        target: the labels explained.
        claim: what ``euclidean`` and what follows from it promise.
        euclidean: T_e, the largest Euclidean deviation (claim: ``claim``).
        adjusted: T'_e, ``euclidean`` raised to the deviations seen at plus and minus
            ``epsilon * direction`` (claim: adjusted).
        cosine, degrees: the cosine distance and angle that ``euclidean`` implies.
        adjusted_cosine, adjusted_degrees: the same from ``adjusted``.
        xi: largest singular value of the Jacobian, from below and from above.
        direction: the linearised worst perturbation found, divided by epsilon: exact for
            p = 1 and 2, the best of a search otherwise.
        source: the result that gave ``euclidean``, the smallest of several, per example.
        values: every result that was computed, by name, as a Euclidean bound.
        attribution_norm: Euclidean norm of the unperturbed attribution.
        label: the label constraint, if the attribution knows its classifier.
        products: operator products spent on each example.
        subject: of which network it speaks.
        steps_needed: of each example how many steps of its path would make the scores add up
            to within 5 % of the change in the logit: 0 where those it has do, -1 where none that
            was tried does. None for attributions of which nothing of the kind is known.
        gap: of a certificate of a ReLU network, what is attained below it; None of others.
    """

    ball: Ball
    target: Tensor
    claim: Claim
    euclidean: Tensor
    adjusted: Tensor
    cosine: Tensor
    degrees: Tensor
    adjusted_cosine: Tensor
    adjusted_degrees: Tensor
    xi: Bracket
    direction: Tensor
    source: tuple[str, ...]
    values: dict[str, Tensor]
    attribution_norm: Tensor
    label: LabelConstraint | None
    products: Tensor
    status: tuple[Status, ...]
    subject: str = YOURS
    steps_needed: Tensor | None = None
    gap: Gap | None = None

    @property
    def relative(self) -> Tensor:
        """T_e divided by the norm of the attribution: free of the scale of the logits."""
        return ratio(self.euclidean, self.attribution_norm)

    @property
    def c(self) -> Tensor:
        """The paper's factor c = T'_e / T_e >= 1; one where both are zero."""
        both_zero = (self.adjusted == 0) & (self.euclidean == 0)
        return torch.where(
            both_zero, torch.ones_like(self.adjusted), self.adjusted / self.euclidean
        )

    @property
    def epsilon(self) -> float:
        """The radius of the ball."""
        return self.ball.epsilon

    @property
    def claims(self) -> dict[str, Claim]:
        """The claim of every number."""
        adjusted = ["adjusted", "adjusted_cosine", "adjusted_degrees", "c"]
        own = ["euclidean", "cosine", "degrees", "relative"]
        raised = claim_named("adjusted")
        return {**dict.fromkeys(own, self.claim), **dict.fromkeys(adjusted, raised)}

    def __len__(self) -> int:
        return len(self.status)

    def _statuses(self) -> list[str]:
        """The status of each example, with the steps that would do where these are too few."""
        needed = [0] * len(self) if self.steps_needed is None else self.steps_needed.tolist()
        return [
            f"{status} ({steps} steps would do)" if steps > 0 else str(status)
            for status, steps in zip(self.status, needed, strict=True)
        ]

    def __repr__(self) -> str:
        numbers = columns(
            self.target,
            self.attribution_norm,
            self.xi.lower,
            self.xi.upper,
            self.euclidean,
            self.adjusted,
            self.cosine,
            self.degrees,
        )
        rows = list(zip(*numbers, self.source, self._statuses(), strict=True))
        title = (
            f"Bound on the attribution deviation of {self.subject}, {self.ball.name} ball of "
            f"radius {cell(self.epsilon)}, claim: {self.claim} (T'_e: {claim_named('adjusted')})"
        )
        header = ["target", "|g|", "xi >=", "xi <=", "T_e", "T'_e", "cosine", "degrees"]
        return render(title, [*header, "by", "status"], rows)
