"""Which of the largest scores provably stay so, given how far a map can move."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attacks.displace import By, first_of, sizes
from attribound.bounding.reasons.motion import Motion

#: Rivals that are looked at one by one; the bound on the whole map speaks for others.
RIVALS = 2048
_BELOW = 1 - 1e-9  # of a cost that was searched for


@dataclass(frozen=True, eq=False)
class Decided:
    """Of one example: places of the k largest scores, ``(k,)`` each, and what stays.

    Attributes:
        low, high: ends of the scores.
        sign_kept, stays: whether the sign, and the membership, is sure.
        kept, order_kept: so many surely stay; so many places from the first on keep their order.
    """

    features: Tensor
    low: Tensor
    high: Tensor
    sign_kept: Tensor
    stays: Tensor
    kept: int
    order_kept: int


def decide(scores: Tensor, motion: Motion, k: int, by: By) -> Decided:
    """Decide the k largest of ``scores (size,)``, rivals among all others.

    A member stays if all but k - 1 other scores surely stay below it. Scores are compared one by
    one by their ends and, where these overlap, pair by pair with both signs; scores too far below
    for that to matter by the bound on the whole map.
    """
    top = first_of(scores.unsqueeze(0), k, by)[0]
    low, high = scores - motion.whole, scores + motion.whole
    low, high = _refined(scores, motion, top, (low, high))
    least, most = _size_ends(low, high, by)
    outside = torch.ones(len(scores), dtype=torch.bool)
    outside[top] = False
    rivals = (outside & (most >= least[top].min())).nonzero().flatten()
    rivals = rivals[most[rivals].argsort(descending=True, stable=True)[:RIVALS]]
    low, high = _refined(scores, motion, rivals, (low, high))
    least, most = _size_ends(low, high, by)
    beaten = _beaten(scores, motion, top, (least, most), torch.cat([top, rivals]), by)
    stays = (len(scores) - 1 - beaten.sum(1)) <= k - 1
    entering = int((outside & ~beaten.all(0)).sum())
    kept = max(
        int(stays.sum()),
        k - entering,
        _by_ends(least[top], most[outside]),
        by_norm(sizes(scores.unsqueeze(0), by)[0], top, motion.whole),
    )
    return Decided(
        top,
        low[top],
        high[top],
        (low[top] > 0) | (high[top] < 0),
        stays | (kept == k),
        kept,
        _in_order(beaten, top),
    )


def _refined(
    scores: Tensor, motion: Motion, places: Tensor, ends: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """``ends`` with those of some scores from what is known of each."""
    low, high = (end.clone() for end in ends)
    if len(places):
        least, most = motion.features(places)
        low[places] = torch.maximum(low[places], scores[places] + least)
        high[places] = torch.minimum(high[places], scores[places] + most)
    return low, high


def _size_ends(low: Tensor, high: Tensor, by: By) -> tuple[Tensor, Tensor]:
    """Ends of what scores are ranked by."""
    if by == "value":
        return low, high
    return torch.maximum(low, -high).clamp_min(0), torch.maximum(high, -low)


def _beaten(
    scores: Tensor,
    motion: Motion,
    top: Tensor,
    ends: tuple[Tensor, Tensor],
    known: Tensor,
    by: By,
) -> Tensor:
    """Of each member ``(k, size)`` which scores surely stay below it; itself never."""
    least, most = ends
    found = least[top].unsqueeze(1) > most
    together = -math.sqrt(2) * motion.whole
    for rank, place in enumerate(top.tolist()):
        sign = 1.0 if by == "value" or scores[place] >= 0 else -1.0
        gap = torch.full_like(scores, torch.inf)
        exact = torch.full_like(scores, torch.inf)
        open_ = known[~found[rank, known] & (known != place)]
        for other in (1.0,) if by == "value" else (1.0, -1.0):
            margin = sign * scores[place] - other * scores
            gap = torch.minimum(gap, margin + together)
            if len(open_):
                moved = motion.differences(place, sign, open_, other)
                exact[open_] = torch.minimum(exact[open_], margin[open_] + moved)
        found[rank] |= gap > 0
        found[rank, open_] |= exact[open_] > 0
        found[rank, place] = False
    return found


def _by_ends(least: Tensor, most: Tensor) -> int:
    """At least i stay if the i-th lower end is above the (k - i + 1)-th upper end outside."""
    k = len(least)
    lower = least.sort(descending=True).values
    upper = torch.full((k,), -torch.inf, dtype=torch.float64)
    few = min(k, len(most))
    upper[:few] = most.topk(few).values
    return max((i for i in range(1, k + 1) if lower[i - 1] > upper[k - i]), default=0)


def by_norm(size: Tensor, top: Tensor, whole: float) -> int:
    """How many stay by the bound on the whole map alone: fewer leave than it can pay for."""
    k = len(top)
    outside = torch.ones(len(size), dtype=torch.bool)
    outside[top] = False
    members = size[top].sort().values
    rivals = size[outside].sort(descending=True).values
    most = min(k, len(rivals))
    leaving = next((m for m in range(1, most + 1) if whole < cost(members[:m], rivals[:m])), None)
    return k - most if leaving is None else k - leaving + 1


def cost(members: Tensor, rivals: Tensor) -> float:
    """The least Euclidean distance that brings members to or below as many rivals.

    ``min over t of sum (a - t)_+^2 + sum (t - b)_+^2``, a slightly smaller number.
    """
    low, high = float(rivals.min()), float(members.max())
    for _ in range(200):
        t = (low + high) / 2
        slope = float((t - rivals).clamp_min(0).sum() - (members - t).clamp_min(0).sum())
        low, high = (low, t) if slope > 0 else (t, high)
    t = (low + high) / 2
    square = (members - t).clamp_min(0).square().sum() + (t - rivals).clamp_min(0).square().sum()
    return math.sqrt(float(square)) * _BELOW


def at_most(size: Tensor, members: Tensor, error: float) -> int:
    """How many of ``members (k,)`` may be among the k largest of a map that is off by ``error``.

    For one more of them its size and that of the weakest on the list must meet, and so on: what
    :func:`cost` says. Rounding is such an error, so that fewer than this have surely not stayed.
    """
    listed = torch.zeros(len(size), dtype=torch.bool)
    listed[first_of(size.unsqueeze(0), len(members), "value")[0]] = True
    belongs = torch.zeros_like(listed)
    belongs[members] = True
    gone = size[belongs & ~listed].sort(descending=True).values
    instead = size[listed & ~belongs].sort().values
    stayed = len(members) - len(gone)
    for more in range(1, len(gone) + 1):
        if (instead[0] - gone[0]) / math.sqrt(2) > error:  # at least that, and quickly known
            break
        if cost(instead[:more], gone[:more]) > error:
            break
        stayed += 1
    return stayed


def _in_order(beaten: Tensor, top: Tensor) -> int:
    """Places from the first on whose member surely beats all but those before it."""
    for rank in range(len(top)):
        below = beaten[rank].clone()
        below[top[: rank + 1]] = True
        if not below.all():
            return rank
    return len(top)
