"""How far scores of an averaged map can move: one by one, in pairs, and by votes.

The list is that of a first batch of draws; all numbers are from a second one, which knows nothing
of it. Each is about a direction a that was fixed before: a . h by Maurer and Pontil, the deviation
of a . map by Chernoff and Hoeffding; ``a . h(x + delta)`` then lies within deviation * growth(t) of
``a . h(x)``. Votes (normaliser ``top``) are coins, of which Neyman and Pearson know more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

from attribound.attacks.displace import By, first_of
from attribound.attributions.noise import Array
from attribound.basics.errors import InputError
from attribound.bounding.method import Question
from attribound.bounding.reasons.motion import Ends, Motion
from attribound.bounding.smoothed import Smoothed
from attribound.bounding.smoothed.drawing import SECOND
from attribound.bounding.smoothed.stating import reservations
from attribound.bounding.smoothed.turning import Turning, growth
from attribound.bounding.smoothed.votes import Votes
from attribound.results import Status

VOTES = "top"
_STEPS = 60  # of a bisection in float64


@dataclass(frozen=True, eq=False)
class AveragedMotion(Motion):
    """What h(x + delta) - ``scores`` can be, sampling error included, with 1 - alpha.

    Attributes:
        scores: the mean of the first batch, which ranks.
        shift: the largest of the ball, in standard deviations of the noise.
        single: ends of h(x + delta), ``(2, size)``.
        members: places of the list.
        entries: of the second batch.
        failure: of each statement.
    """

    whole: float
    size: int
    scores: Tensor
    shift: float
    single: Tensor
    members: tuple[int, ...]
    entries: Entries
    failure: float

    def features(self, places: Tensor) -> Ends:
        """Ends of single scores."""
        low, high = self.single[:, places] - self.scores[places]
        return low, high

    def differences(self, place: int, sign: float, others: Tensor, other: float) -> Tensor:
        """Along differences of two scores, as unit vectors; by single ends for other members."""
        low, high = self.features(others)
        own = torch.tensor([place])
        ends = self.features(own)
        apart = (sign * ends[0] if sign > 0 else sign * ends[1]) - torch.maximum(
            other * low, other * high
        )
        if place not in self.members:
            return apart
        mean, wide = self.entries.pairs(self.members.index(place), sign, other, self.failure)
        least = math.sqrt(2) * _apart(mean, wide, growth(self.shift), -1.0)
        margin = sign * self.scores[place] - other * self.scores[others]
        joint = torch.from_numpy(least)[others] - margin
        return torch.maximum(apart, joint)


@dataclass(frozen=True, eq=False)
class Entries:
    """Sums over the second batch: of scores, their squares, and products with the list's.

    Attributes:
        n: draws.
        mean: ``(size,)``.
        square: mean squares, ``(size,)``.
        product: mean products with each member of the list, ``(k, size)``.
        members: places of the list.
    """

    n: int
    mean: Array
    square: Array
    product: Array
    members: tuple[int, ...]

    def statements(self, signs: int) -> int:
        """How many are made of each example: three a score, two a pair, two a vote."""
        return 5 * self.mean.size + 2 * signs * self.product.size

    def singles(self, shift: float, failure: float) -> tuple[Array, Array]:
        """Ends of every score at every shift up to ``shift``."""
        low = _lower(self.mean, self.square, self.n, failure)
        high = -_lower(-self.mean, self.square, self.n, failure)
        reach = growth(shift)
        wide = _deviation(self.square, np.maximum(low, -high), self.n, failure)
        # Scores of maps of norm at most 1 are at most 1, at every shift.
        return _apart(low, wide, reach, -1.0), -_apart(-high, wide, reach, -1.0)

    def pairs(self, rank: int, sign: float, other: float, failure: float) -> tuple[Array, Array]:
        """Of each direction (sign e_member - other e_j) / sqrt 2: a lower mean, a deviation."""
        place = self.members[rank]
        mean = (sign * self.mean[place] - other * self.mean) / math.sqrt(2)
        crossed = sign * other * self.product[rank]
        square = (self.square[place] + self.square - 2 * crossed).clip(min=0) / 2
        low = _lower(mean, square, self.n, failure)
        return low, _deviation(square, low, self.n, failure)


def _apart(low: Array, deviation: Array, reach: float, least: float) -> Array:
    with np.errstate(invalid="ignore"):  # no deviation at an unlimited shift: nothing is known
        found: Array = np.nan_to_num(low - deviation * reach, nan=least, neginf=least)
    return np.maximum(found, least)


def _lower(mean: Array, square: Array, n: int, failure: float) -> Array:
    """Maurer and Pontil, theorem 4, for variables in [-1, 1]."""
    log = math.log(2 / failure)
    variance = (square - mean**2).clip(min=0) * n / (n - 1)
    found: Array = mean - np.sqrt(2 * variance * log / n) - 14 * log / (3 * (n - 1))
    return found


def _deviation(square: Array, away: Array, n: int, failure: float) -> Array:
    """Upper standard deviations, from mean squares about zero and how far the mean is from it."""
    upper = _upper(square, n, failure)
    found: Array = np.sqrt((upper - away.clip(min=0) ** 2).clip(min=0))
    return found


def _upper(mean: Array, n: int, failure: float) -> Array:
    """Chernoff and Hoeffding for means of variables in [0, 1], all at once."""
    limit = math.log(1 / failure) / n
    q = mean.clip(0, 1)
    low, high = q.copy(), np.ones_like(q)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        fine = _kl(q, middle) <= limit
        low, high = np.where(fine, middle, low), np.where(fine, high, middle)
    return high


def _kl(q: Array, p: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(q > 0, q * np.log(q / p), 0.0)
        found: Array = first + np.where(q < 1, (1 - q) * np.log((1 - q) / (1 - p)), 0.0)
    return np.nan_to_num(found, nan=np.inf)


def check_asked(method: Smoothed, k: int, by: By) -> Smoothed:
    """The method with what this question adds: votes are for as many scores as the list has.

    Raises:
        InputError: the proofs don't cover it.
    """
    if method.noise != "gaussian":
        raise InputError(
            "noise",
            expected="gaussian, for lists of reasons",
            got=method.noise,
            remedy="leave it out: uniform noise is there to compare angles",
        )
    if method.normaliser != VOTES:
        return method
    if by != "absolute":
        raise InputError(
            "by",
            expected="'absolute' with normaliser='top': draws vote for the largest in size",
            got=repr(by),
            remedy="rank by absolute value, or use normaliser='unit'",
        )
    return replace(method, k=k)


@dataclass(frozen=True, eq=False)
class Drawn:
    """What the draws of one example say of its averaged map, at whatever shift is asked.

    All of it holds together: one sample serves every radius.

    Attributes:
        turning: of the whole map.
        away: at most the distance of the average from ``scores``.
        scores: the mean of the first batch, which ranks.
        members: places of the list.
        entries: of the second batch.
        votes: of the second batch, where draws vote.
        failure: of each statement.
        shift: the largest of the ball that was asked about.
        status: what is to be said against the average.
    """

    turning: Turning
    away: float
    scores: Tensor
    members: tuple[int, ...]
    entries: Entries
    votes: Votes | None
    failure: float
    shift: float
    status: Status

    def motion(self, shift: float) -> AveragedMotion:
        """How far the averaged map can move under shifts up to this one."""
        low, high = self.entries.singles(shift, self.failure)
        if self.votes is not None:
            height = math.sqrt(self.votes.k)
            low = np.maximum(low, ndtr(ndtri(self.votes.lower) - shift) / height)
            high = np.minimum(high, ndtr(ndtri(self.votes.upper) + shift) / height)
        return AveragedMotion(
            self.turning.distance(shift) + self.away,
            self.scores.numel(),
            self.scores,
            shift,
            torch.from_numpy(np.stack([low, high])),
            self.members,
            self.entries,
            self.failure,
        )


def averaged_motions(
    method: Smoothed, question: Question, k: int, by: By
) -> Iterator[AveragedMotion]:
    """The motion of each example's averaged map in the ball of the question; see :func:`drawn`."""
    for each in drawn(method, question, k, by):
        yield each.motion(each.shift)


def drawn(method: Smoothed, question: Question, k: int, by: By) -> Iterator[Drawn]:
    """Draw the averaged map of each example; half of alpha is for what is known of the whole.

    Args:
        method: noise and draws.
        question: examples, ball, labels.
        k: how many scores are on the list.
        by: how it is ranked.
    """
    method = check_asked(method, k, by)
    half = replace(method, alpha=method.alpha / 2)
    for row, ((example, to),) in half.examples([question]):
        scores = torch.from_numpy(example.pilot)
        members = tuple(first_of(scores[None], k, by)[0].tolist())
        source = method.source(question, row, to)
        draws = example.draws - example.draws // 5
        total, square = np.zeros_like(example.pilot), np.zeros_like(example.pilot)
        product = np.zeros((k, scores.numel()))
        for vectors in source.vectors(draws, SECOND, method.normaliser, method.k):
            total += vectors.sum(0)
            square += (vectors**2).sum(0)
            product += vectors[:, list(members)].T @ vectors
        entries = Entries(draws, total / draws, square / draws, product / draws, members)
        failure = method.alpha / 2 / entries.statements(1 if by == "value" else 2)
        votes = None
        if method.normaliser == VOTES:
            counts = np.rint(total * math.sqrt(k))
            # Votes split what they get over two ends of every score.
            votes = Votes.counted(counts, draws, k, 2 * counts.size * failure)
        known, turning = example.average, method.turning(example, to)
        away = known.distance + float(np.linalg.norm(known.shown - example.pilot))
        status = reservations(question.attribution, example, turning.moves(0.0)[0])
        yield Drawn(turning, away, scores, members, entries, votes, failure, to.shift, status)


def scores_of(motion: Motion, clean: Tensor) -> Tensor:
    """The flat scores that a motion counts from: those at x, or the average's."""
    if isinstance(motion, AveragedMotion):
        return motion.scores
    return clean.detach().flatten().to("cpu", torch.float64)
