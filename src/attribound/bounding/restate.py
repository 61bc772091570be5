"""The same examples and ball under another claim."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from attribound.bounding.cosine import cosine_and_degrees
from attribound.results import Bound, Claim, Status


@dataclass(frozen=True)
class Reservations:
    """What another value changes in the reservations about an example.

    Attributes:
        outdated: what was said of the first-order bound alone.
        unbounded: what to say where nothing limits the angle.
    """

    outdated: Status = Status.CONVERGED
    unbounded: Status = Status.CONVERGED


def restate(  # noqa: PLR0913 - everything that differs
    first: Bound,
    euclidean: Tensor,
    claim: Claim,
    source: tuple[str, ...],
    products: Tensor,
    *,
    adjusted: Tensor | None = None,
    reservations: Reservations = Reservations(),  # noqa: B008 - frozen
) -> Bound:
    """``first`` with another Euclidean bound and all that follows from it.

    Reservations about the angle are drawn anew, those about the network stay.

    Args:
        first: the first-order bound of the same examples.
        euclidean: the bound to state instead.
        claim: what it promises.
        source: what gave it, per example.
        products: operator products spent on it, those for ``first`` included.
        adjusted: raised to deviations that were seen; default: the bound itself.
        reservations: what else changes in the status.
    """
    raised = euclidean if adjusted is None else adjusted
    cosine, degrees = cosine_and_degrees(euclidean, first.attribution_norm)
    adjusted_cosine, adjusted_degrees = cosine_and_degrees(raised, first.attribution_norm)
    outdated = Status.ANGLE_UNBOUNDED | reservations.outdated
    anew = Status.ANGLE_UNBOUNDED | reservations.unbounded
    status = tuple(
        (kept & ~outdated) | (anew if unbounded else Status.CONVERGED)
        for kept, unbounded in zip(first.status, (degrees == 180).tolist(), strict=True)
    )
    return replace(
        first,
        claim=claim,
        euclidean=euclidean,
        adjusted=raised,
        cosine=cosine,
        degrees=degrees,
        adjusted_cosine=adjusted_cosine,
        adjusted_degrees=adjusted_degrees,
        source=source,
        values={**first.values, str(claim): euclidean},
        products=products,
        status=status,
    )


def counted(bound: Bound, steps: Tensor | None) -> Bound:
    """The bound with what is to be said of scores that do not add up for want of steps."""
    if steps is None:
        return bound
    said = tuple(
        (status & ~Status.INCOMPLETE) | (Status.INCOMPLETE if needed else Status.CONVERGED)
        for status, needed in zip(bound.status, steps.tolist(), strict=True)
    )
    return replace(bound, status=said, steps_needed=steps)
