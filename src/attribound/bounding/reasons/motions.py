"""What each claim says of single scores and pairs of them, example by example."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, singledispatch

import torch
from torch import Tensor

from attribound.attacks.displace import By
from attribound.attributions import Grouped
from attribound.bounding.certified import Certified
from attribound.bounding.certified.certify import check_memory, unrolled_network
from attribound.bounding.certified.exact_path import certify_exact, is_exact, without_offsets
from attribound.bounding.certified.path import paths
from attribound.bounding.certified.rectified import Rectified
from attribound.bounding.certified.relu.bound import evaluation_unit, mean_gradient
from attribound.bounding.certified.relu.deviation import Effort, Moving
from attribound.bounding.certified.relu.directions import Directions
from attribound.bounding.certified.relu.region import regions
from attribound.bounding.certified.relu.tree import Limits
from attribound.bounding.certified.sums import stretch_above
from attribound.bounding.certified.taylor_along import SmoothDirections
from attribound.bounding.first_order import FirstOrder
from attribound.bounding.mean_value import MeanValue
from attribound.bounding.method import Method, Question
from attribound.bounding.reasons.averaged import averaged_motions
from attribound.bounding.reasons.motion import Directed, Ends, Motion, RowMotion, Rows, WholeMap
from attribound.bounding.smoothed import Smoothed

_ROUNDINGS = 32  # of a map at x, beside those that were seen there


def motions(method: Method, question: Question, clean: Tensor, k: int, by: By) -> Iterator[Motion]:
    """The motion of each example under the claim of a method.

    Args:
        method: of the claim.
        question: examples, ball, labels, attacks that are known.
        clean: the maps at x, ``(batch, *scores)``.
        k: how many scores are on the list that is asked about.
        by: how it is ranked; an averaged map ranks by itself, before it is bounded.
    """
    if isinstance(method, Smoothed):
        return averaged_motions(method, question, k, by)
    return _of_map(method, question, clean)


@singledispatch
def _of_map(method: Method, question: Question, clean: Tensor) -> Iterator[Motion]:
    """Of methods that say no more: what their bound on the whole map says."""
    size = clean[0].numel()
    for whole in question.bound(method).euclidean.tolist():
        yield WholeMap(whole, size)


@_of_map.register
def _(method: FirstOrder, question: Question, clean: Tensor) -> Iterator[Motion]:
    x, wholes = question.x, question.bound(method).euclidean.tolist()
    every = regions(question.ball, x)
    for part, rows in question.attribution.groups(x):
        at_x = part.linearize(x[rows], question.target[rows])
        for i in range(rows.stop - rows.start):
            row = rows.start + i
            still = torch.zeros(1, clean[0].numel(), dtype=torch.float64)
            shells = [[Rows(at_x.jacobian, i)]]
            yield RowMotion(wholes[row], still.shape[1], shells, every[row], still)


@_of_map.register
def _(method: MeanValue, question: Question, clean: Tensor) -> Iterator[Motion]:
    """Jacobians where attacks lead through each shell; the search of the bound asks the same."""
    x, wholes = question.x, question.bound(method).euclidean.tolist()
    every = regions(question.ball, x)
    found = [trial for each in question.attacked for trial in each.trials or (each,)]
    if method.attack is not None:
        own = method.attack(question.attribution, x, question.ball, question.target)
        found += own.trials or (own,)
    for row, whole in enumerate(wholes):
        one = slice(row, row + 1)
        part = question.attribution.rows(x, one)
        deltas = torch.cat([torch.zeros_like(x[one]), *(each.delta[one] for each in found)])
        labels = question.target[one].expand(len(deltas))
        shells = []
        for shell in range(method.shells):
            at = part.rows(x[one], torch.zeros(len(deltas), dtype=torch.long))
            points = x[one] + (shell + 1) / method.shells * deltas
            there = at.relinearize(points, labels)
            shells.append([Rows(there.jacobian, i) for i in range(len(deltas))])
        seen = _flat(there.value) - _flat(clean[one])
        yield RowMotion(whole, seen.shape[1], shells, every[row], seen)


@_of_map.register
def _(method: Certified, question: Question, clean: Tensor) -> Iterator[Motion]:
    attribution = question.attribution
    if isinstance(attribution, Grouped):
        yield from _of_sums(attribution, method, question, clean)
        return
    yield from _directed(method, question, clean)


def _directed(method: Certified, question: Question, clean: Tensor) -> Iterator[Directed]:
    """The motions of maps that are not summed."""
    for row, (ends, centre, proved) in enumerate(_certified(method, question)):
        here = _flat(clean[row : row + 1])[0]
        eps = torch.finfo(clean.dtype).eps
        # As of the bound on the whole map: what is evaluated may differ from what is proved.
        noise = 4 * (here - centre).norm().item() + _ROUNDINGS * eps * here.norm().item()
        if proved is None or method in question.made:
            whole = question.bound(method).euclidean[row].item()
        else:
            whole = proved() + noise  # from the same proof, which is not made twice
        yield Directed(whole, len(here), _Noisy(ends, noise))


class _Noisy:
    """Ends, widened by an error of the maps of at most ``noise`` in the Euclidean norm."""

    def __init__(self, ends: Callable[[Tensor], Ends], noise: float) -> None:
        self._ends, self._noise = ends, noise

    @torch.no_grad()
    def __call__(self, directions: Tensor) -> Ends:
        low, high = self._ends(directions)
        wide = self._noise * directions.norm(dim=1)
        nothing = torch.full_like(low, torch.inf)  # where the computation overflowed
        low, high = low.nan_to_num(nan=-torch.inf), high.nan_to_num(nan=torch.inf)
        return torch.maximum(low - wide, -nothing), torch.minimum(high + wide, nothing)


def _certified(
    method: Certified, question: Question
) -> Iterator[tuple[Callable[[Tensor], Ends], Tensor, Callable[[], float] | None]]:
    """Ends along directions, the map they count from, and the whole of each example.

    None for the whole where what gives the ends does not give that.
    """
    attribution, x, ball = question.attribution, question.x, question.ball
    if is_exact(attribution):
        attribution = without_offsets(attribution, x) or attribution
    if is_exact(attribution):
        for part in certify_exact(attribution, x, ball, question.target, method.memory_limit).parts:
            yield part.along, part.map, partial(getattr, part, "value")
        return
    network = unrolled_network(attribution, x, ball)
    rows = zip(paths(attribution, x), question.target.tolist(), regions(ball, x), strict=True)
    if isinstance(network, Rectified):
        limits = Limits(method.nodes, method.seconds)
        effort = Effort(limits, method.memory_limit, evaluation_unit(attribution, x))
        for path, label, region in rows:
            moving = Moving(network, path, label, region, effort)
            centre = path.displacement[0] * mean_gradient(network, path, label)
            yield Directions(moving), centre, None
        return
    kept = max(len(path.nodes) for path in paths(attribution, x))
    check_memory(network, x, method.memory_limit, kept)
    for path, label, region in rows:
        with torch.no_grad():
            made = SmoothDirections.of(network, path, label, region, method.widest)
        yield made, (made.path.displacement * made.gradient)[0], partial(getattr, made, "whole")


def _of_sums(
    grouped: Grouped, method: Certified, question: Question, clean: Tensor
) -> Iterator[Motion]:
    """A direction of sums is one of the map: each score with the weight of its group."""
    scores = grouped.base.revalue(question.x, question.target)
    inner = replace(question, attribution=grouped.base, made={}, seconds={})
    stretch = stretch_above(grouped, scores)
    shape, size = clean.shape[1:], clean[0].numel()

    def pulled(base: Directed) -> Directed:
        def ends(directions: Tensor) -> Ends:
            like = scores[:1].cpu().expand(len(directions), *scores.shape[1:])
            spread = grouped.spread(directions.view(-1, *shape), like)
            return base.ends(spread.flatten(1))

        return Directed(stretch * base.whole, size, ends)

    for base in _directed(method, inner, scores):
        yield pulled(base)


def _flat(maps: Tensor) -> Tensor:
    return maps.detach().flatten(1).to("cpu", torch.float64)
