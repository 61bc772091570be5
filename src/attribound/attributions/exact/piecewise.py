"""A network that is linear between its kinks, unrolled: arguments of its neurons, gradients."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from attribound.networks.affine import Stage
from attribound.networks.unroll import AFFINE, Activations, unrolled

_HINGES: Activations[float] = Activations(
    {nn.ReLU: lambda module: 0.0, nn.LeakyReLU: lambda module: float(module.negative_slope)},  # noqa: ARG005
    supported=f"{AFFINE}, ReLU and LeakyReLU",
    remedy='exact integrals are those of such networks: use quadrature="gauss_legendre" or '
    '"midpoint" for others',
)


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """``stages[0], hinge, stages[1], ..., stages[-1]``: logits of a float64 batch, flat.

    Attributes:
        slopes: of each hinge below zero; 0 for ReLU. At zero that slope counts, as in PyTorch.
    """

    stages: tuple[Stage, ...]
    slopes: tuple[float, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons of every hinge."""
        return tuple(stage.sizes[-1] for stage in self.stages[:-1])

    @property
    def neurons(self) -> int:
        """All of them."""
        return sum(self.widths)

    @property
    def widest(self) -> int:
        """The most numbers that one point has in any layer."""
        return max(size for stage in self.stages for size in stage.sizes)

    @property
    def layers(self) -> list[slice]:
        """Where the neurons of each hinge stand among all."""
        ends = [*accumulate(self.widths, initial=0)]
        return [slice(a, b) for a, b in pairwise(ends)]

    def activate(self, layer: int, z: Tensor) -> Tensor:
        """The hinge of a layer."""
        return torch.where(z > 0, z, self.slopes[layer] * z)

    def logits(self, x: Tensor) -> Tensor:
        """Of points ``(n, d)``."""
        return self.arguments(x)[-1]

    def arguments(self, x: Tensor) -> list[Tensor]:
        """What every hinge is applied to at points ``(n, d)``, and the logits."""
        found = [self.stages[0].value(x)]
        for layer, stage in enumerate(self.stages[1:]):
            found.append(stage.value(self.activate(layer, found[-1])))
        return found

    def masks(self, x: Tensor) -> Tensor:
        """Which neurons are on, ``(n, neurons)``."""
        on = [z > 0 for z in self.arguments(x)[:-1]]
        return torch.cat(on, 1) if on else x.new_zeros((len(x), 0), dtype=torch.bool)

    def gradient(self, masks: Tensor, target: Tensor) -> Tensor:
        """Of the target's logit on the pieces that ``masks`` name, ``(n, d)``."""
        u = one_hot(target, self.stages[-1].sizes[-1]).double()
        u = self.stages[-1].adjoint(u)
        below = [*zip(self.stages[:-1], self.layers, self.slopes, strict=True)]
        for stage, part, slope in reversed(below):
            u = stage.adjoint(torch.where(masks[:, part], u, slope * u))
        return u

    def pushed(self, masks: Tensor, v: Tensor) -> list[Tensor]:
        """How fast the arguments of every hinge move along ``v`` on the pieces of ``masks``."""
        found: list[Tensor] = []
        for stage, part, slope in zip(self.stages[:-1], self.layers, self.slopes, strict=True):
            found.append(stage.linear(v))
            v = torch.where(masks[:, part], found[-1], slope * found[-1])
        return found


def piecewise(model: object, shape: tuple[int, ...]) -> PiecewiseLinear:
    """The network behind ``model`` for examples of ``shape``; others are refused by name.

    Its weights are taken as the exact numbers they are: what follows is about the function
    they define, which a network evaluated in float32 meets up to its own rounding.
    """
    return PiecewiseLinear(*unrolled(model, shape, _HINGES))
