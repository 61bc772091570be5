"""How far the attribution of one example can move: the proof, from the sweep to the tree."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, TINY, UNIT
from attribound.bounding.certified.path import GradientPath
from attribound.bounding.certified.rectified import Rectified
from attribound.bounding.certified.relu.compact import Compact
from attribound.bounding.certified.relu.cut import longest
from attribound.bounding.certified.relu.lagrangian import shared
from attribound.bounding.certified.relu.memory import check_memory
from attribound.bounding.certified.relu.node import Node, node_of
from attribound.bounding.certified.relu.region import Region
from attribound.bounding.certified.relu.sweep import Point, Swept, sweep
from attribound.bounding.certified.relu.tree import CLOSE, EXACT, Limits, Tree

#: More items than these are bounded together once, not branched on.
BRANCHED = 150
#: Of the search beside what is known: rounds, perturbations in each, parts of moves, furthest.
_ROUNDS, _BESIDE, _PARTS, _FURTHEST = 24, 128, 3, 0.7
#: Of the ascent over switches: starts, widths of sigmoids, steps at each, least share of a step.
_CLIMBERS, _WIDTHS, _STEPS, _LEAST = 16, (0.2, 0.1, 0.05, 0.02), 15, 0.15
_JOINT = 8 * 6  # bytes of a component of an item, where all items are bounded together
_AT_ONCE = 128  # perturbations that go through the network together


@dataclass(frozen=True)
class Effort:
    """How much may be spent on one example, and in what the network is evaluated."""

    limits: Limits
    memory_limit: int
    unit: float


@dataclass(frozen=True, eq=False)
class Flips:
    """What is proved of one example.

    Attributes:
        value: at least |g(x + delta) - g| in the region, with g what is computed at x in
            float64; ``root``: before branching.
        attained: by a perturbation that was looked at.
        neurons: that may switch; ``nodes``: that were bounded.
        exact: value and attained are the same; ``stopped``: by a limit.
    """

    value: float
    root: float
    attained: float
    neurons: int
    nodes: int
    exact: bool
    stopped: bool


def flips(
    network: Rectified, path: GradientPath, target: int, region: Region, effort: Effort
) -> Flips:
    """Bound the deviation of the path's attribution in ``region``."""
    margins = (stage.margin * effort.unit / UNIT for stage in network.stages)
    if max(margins) > 0.01:  # sums of so many terms in so few digits have no error bound
        return Flips(math.inf, math.inf, 0.0, 0, 0, exact=False, stopped=True)
    question = Moving(network, path, target, region, effort)
    if len(path.nodes) > 1:
        return question.together(question.along_path(alone=True))
    return question.branched(question.swept(0))


@dataclass(frozen=True, eq=False)
class Moving:
    """The attribution of one example in a region: what is swept, bounded and attained."""

    network: Rectified
    path: GradientPath
    target: int
    region: Region
    effort: Effort

    def along_path(self, *, alone: bool = False) -> list[tuple[Node, Tensor]]:
        """The nodes of all points, and the gradients there.

        What moves most comes first: if that is refused, little is computed in vain. ``alone``:
        without what neurons do to each other, but with room for a bound of all items together.
        """
        found: dict[int, tuple[Node, Tensor]] = {}
        limit, held, size = self.effort.memory_limit, 0, self.path.x.shape[1]
        for number in sorted(range(len(self.path.nodes)), key=lambda i: -self.path.nodes[i]):
            swept = self.swept(number, held)
            node = node_of(swept.compact, self.own(number))
            found[number] = (node.alone() if alone else node), swept.gradient
            held += found[number][0].held + (_JOINT * size * len(node.items.neurons)) * alone
            check_memory(held, limit, f"{len(found)} points of {len(self.path.nodes)}")
        return [found[number] for number in range(len(found))]

    def swept(self, number: int, held: int = 0) -> Swept:
        """The compact network at a point of the path, where so many bytes are held already."""
        node = self.path.nodes[number]
        x = self.path.base + node * (self.path.x - self.path.base)
        point = Point(x, self.path.spread, self.target, self.effort.unit)
        return sweep(self.network, self.own(number), point, self.effort.memory_limit, held)

    def own(self, number: int) -> Region:
        """Where that point can move."""
        return self.region.shrunk(self.path.nodes[number] * (1 + SLACK))

    def branched(self, swept: Swept) -> Flips:
        """Of one point: branch and bound."""
        tree, first, root = self.grown(swept)
        value = tree.value * (1 + SLACK)
        constant = not len(first.items.neurons) and not self.path.multiplied
        exact = value <= EXACT * tree.attained or constant
        done = exact or not len(tree.leaves[0][2].items.neurons)
        return Flips(
            value,
            root * (1 + SLACK),
            tree.attained,
            int(first.compact.free.sum()),
            tree.nodes,
            exact=exact,
            stopped=not done and tree.value > 1.01 * tree.attained,
        )

    def grown(self, swept: Swept) -> tuple[Tree, Node, float]:
        """The tree of one point, with its first node and the bound there."""
        weight, end = self.path.weights[0], self._end()
        mean = swept.gradient
        tree = Tree(self.own(0), lambda node: self._bound(mean, [(weight, node)]), self._attain)
        tree.add(swept.compact, math.inf)
        root, first = tree.value, tree.leaves[0][2]
        known = _starts(first, tree.region)
        tree.attained = self._attain(known)
        if root > CLOSE * tree.attained:
            climbed = self._climbed([first])
            tree.attained = max(tree.attained, self._attain(climbed))
            known = torch.cat([known, climbed])
        if len(first.items.neurons) > BRANCHED and self.effort.limits.nodes > 1:
            tree.tighten(self._bound(mean, [(weight, first)], jointly=end))
            tree.attained = max(tree.attained, self._attain(self._beside(first, known)))
        else:
            left = end - time.monotonic()
            tree.grow(replace(self.effort.limits, seconds=left))
        return tree, first, root

    def together(self, points: list[tuple[Node, Tensor]]) -> Flips:
        """Of several points: all items at once."""
        nodes, gradients = (list(each) for each in zip(*points, strict=True))
        pairs = [*zip(self.path.weights, nodes, strict=True)]
        total = _mean(self.path, gradients)
        root = self._bound(total, pairs) * (1 + SLACK)
        value, stopped = root, False
        if self.effort.limits.nodes > 1:
            end = self._end()
            value = min(root, self._bound(total, pairs, jointly=end))
            stopped = time.monotonic() >= end
        neurons = sum(int(each.compact.free.sum()) for each in nodes)
        starts = torch.cat([_starts(node, self.region) for node in nodes])
        attained = max(self._attain(starts), self._attain(self._climbed(nodes)))
        exact = not neurons and not self.path.multiplied
        return Flips(
            value, root, attained, neurons, len(nodes), exact, stopped and value > CLOSE * attained
        )

    def _end(self) -> float:
        """When no more is done for a better bound: there is one by now, or will be at once."""
        return time.monotonic() + self.effort.limits.seconds

    def _bound(
        self, mean: Tensor, nodes: list[tuple[float, Node]], *, jointly: float | None = None
    ) -> float:
        """An upper value of the deviation where these nodes are, ``mean`` the gradient at x.

        ``jointly``: with one perturbation for all items, looked for until then.
        """
        factor = self.path.displacement[0]
        shift = torch.stack([weight * node.compact.shift for weight, node in nodes]).sum(0)
        items = torch.cat([weight * node.items.vectors for weight, node in nodes])
        noise = sum(abs(weight) * node.compact.gradient_noise for weight, node in nodes)
        if jointly is not None:
            where = zip(nodes, self.path.nodes, strict=True)
            slope = torch.cat([alpha * node.items.slope for (_, node), alpha in where])
            threshold = torch.cat([node.items.threshold for _, node in nodes])
            found = shared(self.region, factor * shift, factor * items, slope, threshold, jointly)
        else:
            found = longest(factor * shift, factor * items)
        found += noise * factor.abs().max().item()
        if self.path.multiplied:
            ends = [items.clamp_max(0).sum(0), items.clamp_min(0).sum(0)]
            sizes = torch.stack([(mean + shift + end).abs() for end in ends]).amax(0)
            rounding = SLACK * (mean.abs() + items.abs().sum(0) + shift.abs())
            found += self.region.stretched(sizes + rounding + noise)
        return found * (1 + SLACK)

    def _climbed(self, nodes: list[Node]) -> Tensor:
        """Perturbations at which many switches add up, ``(n, d)``: no pass through the network.

        How far the neurons are beyond their kinks, in units of how far they can get, is put into a
        sigmoid, ever steeper, in place of a step; each step goes towards the furthest point along
        the slope of what the switches add up to then.
        """
        factor, slopes, reaches, items = self.path.displacement[0], [], [], []
        for weight, alpha, node in zip(self.path.weights, self.path.nodes, nodes, strict=True):
            known, free = node.compact, node.compact.free
            turned = known.s[free].unsqueeze(1) * known.jacobian[free]
            slopes.append(alpha * turned)
            reaches.append((known.s * known.z)[free])
            items.append(weight * factor * known.u[free].unsqueeze(1) * turned)
        slope, z, item = (torch.cat(each) for each in (slopes, reaches, items))
        if not len(z):
            return slope
        room = self.region.size(slope).clamp_min(TINY)
        slope, z = slope / room.unsqueeze(1), z / room
        delta = self.region.furthest(slope[item.norm(dim=1).argsort(descending=True)[:_CLIMBERS]])
        found = []
        for width, step in itertools.product(_WIDTHS, range(_STEPS)):
            taken = torch.sigmoid((delta @ slope.T + z) / width)
            gain = (taken @ item @ item.T) * taken * (1 - taken)
            share = max(_LEAST, (1 - 2 * _LEAST) ** (step + 1))
            delta = self.region.inside(
                (1 - share) * delta + share * self.region.furthest(gain @ slope)
            )
            found += [delta] if step == _STEPS - 1 else []
        return torch.cat(found)

    def _beside(self, node: Node, deltas: Tensor) -> Tensor:
        """Better perturbations next to the best few, towards kinks or from them: no pass either."""
        compact = node.compact.only(node.compact.free)
        generator = torch.Generator().manual_seed(0)
        towards = self.region.furthest(compact.jacobian)
        value = self._lengths(compact, deltas)
        order = value.argsort(descending=True)[:4]
        best, value = deltas[order], value[order]
        for _ in range(_ROUNDS):
            whose = torch.arange(_BESIDE) % len(best)
            which = torch.randint(len(towards), (_BESIDE, _PARTS), generator=generator)
            far = torch.randn(_BESIDE, _PARTS, 1, generator=generator, dtype=torch.float64)
            share = torch.rand(_BESIDE, 1, 1, generator=generator, dtype=torch.float64).square()
            moved = best[whose] + (_FURTHEST * share * far * towards[which]).sum(1)
            moved = self.region.inside(moved)
            found = self._lengths(compact, moved)
            for number in range(len(best)):
                own = (whose == number).nonzero().flatten()
                first = own[found[own].argmax()]
                if found[first] > value[number]:
                    best[number], value[number] = moved[first], found[first]
        return best

    def _lengths(self, compact: Compact, deltas: Tensor) -> Tensor:
        moves = compact.moves(self.path.nodes[0] * deltas)
        lengths: Tensor = (self.path.displacement[0] * moves).norm(dim=1)
        return lengths

    def _attain(self, deltas: Tensor) -> float:
        """The largest deviation at some perturbations."""
        if len(deltas) > _AT_ONCE:
            return max(self._attain(some) for some in torch.split(deltas, _AT_ONCE))
        every = torch.cat([torch.zeros_like(deltas[:1]), deltas]) + self.path.x
        total = torch.zeros_like(every)
        for node, weight in zip(self.path.nodes, self.path.weights, strict=True):
            points = self.path.base + node * (every - self.path.base)
            total += weight * self.network.gradients(points, self.target)
        if self.path.multiplied:
            total = total * (every - self.path.base)
        return (total[1:] - total[0]).norm(dim=1).max().item() if len(deltas) else 0.0


def _mean(path: GradientPath, gradients: list[Tensor]) -> Tensor:
    parts = [weight * each for weight, each in zip(path.weights, gradients, strict=True)]
    return torch.stack(parts).sum(0)


def _starts(node: Node, region: Region) -> Tensor:
    """Perturbations towards the kink of every item, and towards several at once."""
    items = node.items
    if not len(items.neurons):
        return torch.zeros(0, items.vectors.shape[1], dtype=torch.float64)
    order = items.vectors.norm(dim=1).argsort(descending=True)
    along = torch.nn.functional.normalize(items.slope[order], dim=1)
    return region.furthest(torch.cat([along[:64], along[:16].cumsum(0)]))
