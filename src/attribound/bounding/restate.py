"""The same examples and ball under another claim."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attribound.bounding.cosine import cosine_and_degrees
from attribound.results import Bound, Claim, Status


def restate(
    first: Bound, euclidean: Tensor, claim: Claim, source: tuple[str, ...], products: Tensor
) -> Bound:
    """``first`` with another Euclidean bound and all that follows from it.

    Deviations that were seen at two points still raise ``adjusted`` of a mean-value
    bound. Reservations about the angle are drawn anew, those about the network stay.

    Args:
        first: the first-order bound of the same examples.
        euclidean: the bound to state instead.
        claim: what it promises.
        source: what gave it, per example.
        products: operator products spent on it, those for ``first`` included.
    """
    searched, proved = claim is Claim.MEAN_VALUE, claim is Claim.CERTIFIED
    raised = torch.maximum(euclidean, first.adjusted) if searched else euclidean
    cosine, degrees = cosine_and_degrees(euclidean, first.attribution_norm)
    adjusted_cosine, adjusted_degrees = cosine_and_degrees(raised, first.attribution_norm)
    outdated = Status.ANGLE_UNBOUNDED | (Status.ITERATION_LIMIT if proved else Status.CONVERGED)
    anew = Status.ANGLE_UNBOUNDED | (Status.VACUOUS if proved else Status.CONVERGED)
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
