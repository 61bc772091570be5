"""What all points of a path share: the linear pieces before the first function that bends.

At ``base + t * displacement`` these make ``head(base) + t * head'(displacement)``, and what comes
back to them from all points is added up before they take it back to the input. So they run once
an example, where the rest of the network runs once a point.

That pays where they make less of an input than it was: of an image in a network of linear layers,
nearly all of the work. A first convolution makes more, and writing that out for every point costs
what computing it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.networks.path import Path
from attribound.networks.structured.layout import laid_out
from attribound.networks.structured.linear import LinearAt, LinearPiece
from attribound.networks.structured.network import (
    LinearisedGradient,
    StructuredNetwork,
    TracedStep,
    through,
)


@dataclass(frozen=True, eq=False)
class Stem:
    """A network in two: linear pieces one after another, and the rest.

    Attributes:
        head: the pieces.
        rest: takes their result.
    """

    head: Sequence[TracedStep]
    rest: StructuredNetwork

    def narrows(self, x: Tensor) -> bool:
        """Whether the head makes less of an input like ``x`` than it was."""
        with torch.no_grad():
            return through(self.head, x[:1])[0].numel() < x[:1].numel()

    def gradient(self, path: Path) -> tuple[Tensor, Tensor]:
        """The logits of all points, and the weighted sum of the gradients along each path."""
        with torch.no_grad():
            beam = Beam.of(self, path)
            logits, gradient = self.rest.gradient(beam.points(), path.labels)
            return logits, beam.gathered(gradient, path.weights)

    def linearise(self, path: Path) -> LinearisedPath:
        """The same, with what its derivative by the ends of the paths needs."""
        with torch.no_grad():
            beam = Beam.of(self, path)
            made = self.rest.linearise(beam.points(), path.labels)
            return LinearisedPath(beam, made, beam.gathered(made.gradient, path.weights))


@dataclass(frozen=True, eq=False)
class Beam:
    """The paths after the head.

    Attributes:
        path: before it.
        base: the head at the bases.
        displacement: what it makes of the displacements.
        linear: the linear map that it is but for a constant, piece by piece.
    """

    path: Path
    base: Tensor
    displacement: Tensor
    linear: Sequence[LinearAt]

    @classmethod
    def of(cls, stem: Stem, path: Path) -> Beam:
        """That of a network."""
        base, pieces = through(stem.head, path.base)
        linear = [piece for piece in pieces if isinstance(piece, LinearAt)]
        return cls(path, base, _pushed(linear, path.displacement), linear)

    def points(self) -> Tensor:
        """All points, example by example."""
        base, displacement = _plain(self.base).unsqueeze(1), _plain(self.displacement).unsqueeze(1)
        alpha = self.path.nodes.view(-1, *[1] * (base.dim() - 2))
        return _pictured(torch.addcmul(base, alpha, displacement).flatten(0, 1), self.base)

    def spread(self, v: Tensor) -> Tensor:
        """The tangent of each point, of one at each input; several rows for one example, too."""
        pushed = _plain(_pushed(self.linear, v)).unsqueeze(1)
        many = pushed.expand(-1, len(self.path.nodes), *pushed.shape[2:])
        return _pictured(many.flatten(0, 1), self.base)

    def gathered(self, g: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums over the nodes of what comes back to the head, back at the inputs."""
        plain = _plain(g)
        by_node = plain.reshape(-1, len(self.path.nodes), plain[0].numel())
        back = _pictured(torch.matmul(weights, by_node).view(-1, *plain.shape[1:]), self.base)
        for piece in reversed(self.linear):
            back = piece.pull(back)
        return back.contiguous()


@dataclass(frozen=True, eq=False)
class LinearisedPath:
    """The mean gradient along paths, and its derivative by their ends.

    Attributes:
        beam: the paths after the head.
        rest: the network after it, at all points.
        gradient: the weighted sum, ``(batch, *features)``.
    """

    beam: Beam
    rest: LinearisedGradient
    gradient: Tensor

    @property
    def logits(self) -> Tensor:
        """Of all points."""
        return self.rest.logits

    def product(self, v: Tensor) -> Tensor:
        """Weight times node times Hessian, summed over the nodes, times ``v``; in blocks, too."""
        path = self.beam.path
        with torch.no_grad():
            return self.beam.gathered(
                self.rest.product(self.beam.spread(v)), path.weights * path.nodes
            )


def stem_of(network: StructuredNetwork) -> Stem | None:
    """The network in two; None if no linear piece comes first, or nothing else."""
    steps = network.steps
    count = 0
    while count < len(steps) and _next(steps[count], count):
        count += 1
    rest = steps[count:]
    # What skips the end of the head leaves it earlier.
    while count and any(min(step.inputs) < count - 1 for step in steps[count:]):
        count -= 1
        rest = steps[count:]
    if not count or not any(not isinstance(step.piece, LinearPiece) for step in rest):
        return None
    moved = [
        replace(
            step,
            inputs=tuple(i - count for i in step.inputs),
            last=tuple(i - count for i in step.last),
        )
        for step in rest
    ]
    return Stem(steps[:count], replace(network, steps=moved, inner=True))


def _next(step: TracedStep, place: int) -> bool:
    return isinstance(step.piece, LinearPiece) and step.inputs == (place - 1,)


def _pushed(linear: Sequence[LinearAt], v: Tensor) -> Tensor:
    out = laid_out(v)
    for piece in linear:
        out = piece.push(out)
    return out


def _plain(x: Tensor) -> Tensor:
    """Numbers in the order in which they lie in memory: channels of images last."""
    return laid_out(x).permute(0, 2, 3, 1) if x.dim() == 4 else x.contiguous()


def _pictured(x: Tensor, like: Tensor) -> Tensor:
    """The channels back in their place, as they are in ``like``; nothing moves in memory."""
    return x.permute(0, 3, 1, 2) if like.dim() == 4 else x
