"""Points of a segment of each example, with weights: where integrated gradients look."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Path:
    """The points ``base + nodes[k] * displacement`` of each example, with quadrature weights.

    Attributes:
        base, displacement: shape ``(batch, *features)``.
        nodes, weights: shape ``(k,)``.
        target: label of each example.
    """

    base: Tensor
    displacement: Tensor
    nodes: Tensor
    weights: Tensor
    target: Tensor

    def __getitem__(self, examples: Tensor | slice) -> Path:
        """The paths of some examples."""
        return Path(
            self.base[examples],
            self.displacement[examples],
            self.nodes,
            self.weights,
            self.target[examples],
        )

    def at(self, nodes: slice) -> Path:
        """The same paths at some of the nodes."""
        return Path(
            self.base, self.displacement, self.nodes[nodes], self.weights[nodes], self.target
        )

    @property
    def inputs(self) -> Tensor:
        """Where the paths end: at a base all pixels may be black, and slopes next to nothing."""
        return self.base + self.displacement

    @property
    def labels(self) -> Tensor:
        """Those of all points, example by example."""
        return self.target.repeat_interleave(len(self.nodes))

    def points(self) -> tuple[Tensor, Tensor]:
        """All points ``(batch * k, *features)``, example by example, and their labels."""
        alpha = self.nodes.view(-1, *[1] * (self.base.dim() - 1))
        points = self.base.unsqueeze(1) + alpha * self.displacement.unsqueeze(1)
        return points.flatten(0, 1), self.labels

    def average(self, values: Tensor, weights: Tensor) -> Tensor:
        """Sum over the nodes of ``weights * values`` for values ``(batch * k, *features)``."""
        by_node = values.reshape(-1, len(self.nodes), self.base[0].numel())
        return torch.matmul(weights, by_node).view(-1, *self.base.shape[1:])
