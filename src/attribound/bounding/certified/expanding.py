"""Expansions at all points of a path, with enclosures of every neuron."""

from __future__ import annotations

from attribound.basics.rounding import SLACK
from attribound.bounding.certified.composites import Composites
from attribound.bounding.certified.expansion import Expansion, expand
from attribound.bounding.certified.network import Network
from attribound.bounding.certified.path import GradientPath
from attribound.bounding.certified.remainder import NeuronEnclosure, enclose_all

#: An expansion, its enclosures in the ball and at the point itself.
Expanded = tuple[Expansion, NeuronEnclosure, NeuronEnclosure]


def expansions(
    network: Network, path: GradientPath, target: int, radius: float, p: float, widest: int
) -> list[Expanded]:
    """Expand at the points of the path; enclose them in the plain p-ball and at the points."""
    made = []
    for node, _, point in path.points():
        expansion = expand(network, point, path.spread, target, p)
        slopes = tuple(layer.slope for layer in expansion.layers)
        made.append((node * radius * (1 + SLACK), expansion, slopes))
    every = [expansion for _, expansion, _ in made]
    inside = [Composites(network, slopes, widest) for _, _, slopes in made]
    crude = [Composites(network, slopes, 0) for _, _, slopes in made]
    radii = [reach for reach, _, _ in made] + [0.0] * len(made)
    found = enclose_all([*every, *every], radii, [*inside, *crude])
    return [*zip(every, found[: len(made)], found[len(made) :], strict=True)]
