"""What disturbances of earlier layers do to a neuron, through derivatives with their signs.

The disturbance of every sum is carried to the next layer by absolute values of weights, which in
deep networks is a hundred times too much: signs cancel. For the neurons that matter the
derivatives by every earlier preactivation are computed, one pass backwards for each.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.basics.rounding import up
from attribound.bounding.certified.rectified import Rectified

_ROWS = 256  # passes at once


def through(
    network: Rectified, slopes: list[Tensor], fresh: list[Tensor], rows: Tensor, crude: Tensor
) -> Tensor:
    """Noise of some neurons of the layer after ``slopes``: sum of |dz / dz_k| times the fresh one.

    Args:
        network: at the point.
        slopes: of every ReLU below.
        fresh: what is disturbed in every layer up to this one, ``(1, width)`` each.
        rows: the neurons.
        crude: the noise of the layer through absolute values, ``(1, width)``: the answer if
            smaller, and what the rounding of the derivatives is relative to.
    """
    layer = len(slopes)
    width = network.widths[layer]
    margin = 2 * sum(stage.margin for stage in network.stages[: layer + 1])
    found = []
    for some in torch.split(rows, _ROWS):
        matrix = torch.zeros(len(some), width, dtype=torch.float64)
        matrix[torch.arange(len(some)), some] = 1.0
        total = fresh[layer][0, some]
        for number in range(layer, 0, -1):
            matrix = network.stages[number].adjoint(matrix) * slopes[number - 1]
            total = total + matrix.abs() @ fresh[number - 1][0]
        found.append(up(total + margin * crude[0, some]))
    return torch.minimum(torch.cat([*found, crude[0, :0]]), crude[0, rows])
