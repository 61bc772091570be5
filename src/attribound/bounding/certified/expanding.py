"""Expansions at all points of a path, with enclosures of every neuron."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from attribound.basics.rounding import SLACK
from attribound.bounding.certified.composites import Composites, Direct
from attribound.bounding.certified.expansion import Expansion, expand
from attribound.bounding.certified.network import Network
from attribound.bounding.certified.path import GradientPath
from attribound.bounding.certified.remainder import NeuronEnclosure, enclose_all

#: An expansion, its enclosures in the ball and at the point itself.
Expanded = tuple[Expansion, NeuronEnclosure, NeuronEnclosure]

#: Bytes of dense derivatives of points that are worked on together, at most; one point always is.
_TOGETHER = 2**28


def dense_bytes(network: Network, size: int) -> int:
    """What the expansion at a point keeps: two derivatives of each neuron by each feature."""
    return 8 * size * (2 * sum(network.widths) + size)


def is_large(network: Network, path: GradientPath) -> bool:
    """Whether expansions at all points are too many to be kept."""
    return dense_bytes(network, path.x.shape[1]) * len(path.nodes) > _TOGETHER


def expansions(
    network: Network, path: GradientPath, target: int, ball: tuple[float, float], widest: int
) -> Iterator[Expanded]:
    """Expand at the points of the path; enclose them in the plain p-ball and at the points.

    Small networks at all points at once, large ones at a few: who forgets each expansion before
    taking the next needs the memory of these few.
    """
    (radius, p), points = ball, [*path.points()]
    together = max(1, _TOGETHER // dense_bytes(network, path.x.shape[1]))
    for first in range(0, len(points), together):
        made = []
        for node, _, point in points[first : first + together]:
            expansion = expand(network, point, path.spread, target, p)
            made.append((node * radius * (1 + SLACK), expansion))
        every = [expansion for _, expansion in made]
        slopes = [_slopes(each) for each in every]
        inside = [Composites(network, each, widest) for each in slopes]
        crude = [Composites(network, each, 0) for each in slopes]
        radii = [reach for reach, _ in made] + [0.0] * len(made)
        found = enclose_all([*every, *every], radii, [*inside, *crude])
        yield from zip(every, found[: len(made)], found[len(made) :], strict=True)
        del made, every, found, slopes, inside, crude


def expansions_from_both_sides(
    network: Network, path: GradientPath, target: int, ball: tuple[float, float], widest: int
) -> Iterator[tuple[Expanded, NeuronEnclosure]]:
    """The same without products of layers, one by one; and what is below any enclosure with them.

    Products are nearly all of the work in convolutions.
    """
    radius, p = ball
    for node, _, point in path.points():
        expansion = expand(network, point, path.spread, target, p)
        reach, slopes = node * radius * (1 + SLACK), _slopes(expansion)
        crude = Composites(network, slopes, 0)
        inside, still, least = enclose_all(
            [expansion] * 3, [reach, 0.0, reach], [crude, crude, Direct(network, slopes, widest)]
        )
        yield (expansion, inside, still), least
        del expansion, inside, still, least


def _slopes(expansion: Expansion) -> tuple[Tensor, ...]:
    return tuple(layer.slope for layer in expansion.layers)
