"""How far the disturbance of one layer reaches in another: products with |dz_k / da_l|.

The derivative of layer k by layer l < k through the layers between is a product of
matrices; the absolute value of the product is far smaller than the product of
absolute values. Rows of it are built a few at a time and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.rounding import up
from attribound.bounding.certified.network import Network

_ROWS = 256


@dataclass(frozen=True, eq=False)
class Composites:
    """|dz_k / da_l| at the point of expansion, for layers of at most ``widest`` neurons.

    Wider layers, and layers next to each other, get by with absolute values of stages.
    """

    network: Network
    slopes: tuple[Tensor, ...]
    widest: int

    def forward(self, layer: int, sources: list[Tensor], crude: Tensor, chain: Tensor) -> Tensor:
        """Sum over l < layer of |dz_layer / da_l| sources[l], from above, ``(1, n)``.

        ``chain`` is the same through absolute values of every stage: the margin for
        the rounding of the composite is relative to it. ``crude``, any other upper
        value, is the answer if smaller.
        """
        if layer < 2 or self.network.widths[layer] > self.widest:
            return crude
        total = torch.zeros_like(crude)
        for rows, reach in self._rows(layer):
            for number, matrix in reach:
                total[0, rows] += matrix @ sources[number][0]
        return torch.minimum(crude, up(total + self._margin(0, layer) * chain))

    def backward(
        self, layer: int, sources: dict[int, Tensor], crude: Tensor, chain: Tensor
    ) -> Tensor:
        """Sum over k > layer of |dz_k / da_layer|^T sources[k], from above, ``(1, n)``."""
        distant = {k: source for k, source in sources.items() if k >= layer + 2}
        if not distant or any(self.network.widths[k] > self.widest for k in distant):
            return crude
        next_stage = self.network.stages[layer + 1].absolute()
        total = next_stage.adjoint(sources[layer + 1])
        for k, source in distant.items():
            for rows, reach in self._rows(k, layer):
                for number, matrix in reach:
                    if number == layer:
                        total[0] += source[0, rows] @ matrix
        return torch.minimum(crude, up(total + self._margin(layer, max(distant)) * chain))

    def _margin(self, first: int, last: int) -> float:
        # Every stage between, and the slopes: absolute values of stages bound the errors.
        return 2 * sum(stage.margin for stage in self.network.stages[first : last + 1])

    def _rows(
        self, layer: int, down_to: int = 0
    ) -> Iterator[tuple[slice, Iterator[tuple[int, Tensor]]]]:
        """Some rows at a time of the derivatives of ``layer`` by each layer from it downwards."""
        width = self.network.widths[layer]
        for start in range(0, width, _ROWS):
            rows = slice(start, min(start + _ROWS, width))
            yield rows, self._descend(layer, down_to, rows)

    def _descend(self, layer: int, down_to: int, rows: slice) -> Iterator[tuple[int, Tensor]]:
        count = rows.stop - rows.start
        matrix = torch.zeros(count, self.network.widths[layer], dtype=torch.float64)
        matrix[torch.arange(count), torch.arange(rows.start, rows.stop)] = 1.0
        for number in range(layer - 1, down_to - 1, -1):
            matrix = self.network.stages[number + 1].adjoint(matrix)
            yield number, matrix.abs()
            matrix = matrix * self.slopes[number]


class Direct(Composites):
    """Of these sums the part of the next layer alone: below them, to see what they could bring."""

    def forward(self, layer: int, sources: list[Tensor], crude: Tensor, chain: Tensor) -> Tensor:  # noqa: ARG002
        """From the layer before."""
        if layer < 2 or self.network.widths[layer] > self.widest:
            return crude
        return torch.minimum(crude, self.network.stages[layer].absolute().linear(sources[-1]))

    def backward(
        self,
        layer: int,
        sources: dict[int, Tensor],
        crude: Tensor,
        chain: Tensor,  # noqa: ARG002
    ) -> Tensor:
        """From the layer behind."""
        if layer + 1 not in sources:
            return crude
        next_stage = self.network.stages[layer + 1].absolute()
        return torch.minimum(crude, next_stage.adjoint(sources[layer + 1]))
