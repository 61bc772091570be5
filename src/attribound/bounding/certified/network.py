"""A network as affine stages and activations in turn, in float64: smooth, or of ReLUs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attribound.basics.errors import ModelError
from attribound.basics.rounding import LONGEST
from attribound.bounding.certified.activation import SmoothActivation
from attribound.bounding.certified.rectified import Rectified, Rectifier
from attribound.networks.affine import Scale, Stage
from attribound.networks.smooth import SoftReLU
from attribound.networks.unroll import AFFINE, Activations, UnusableError, unrolled

#: Roundings: of an input in its units, of the product with them.
_OF_UNITS = 4


@dataclass(frozen=True, eq=False)
class Network:
    """``stages[0], activations[0], stages[1], ..., stages[-1]``: logits of one example."""

    stages: tuple[Stage, ...]
    activations: tuple[SmoothActivation, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons of every activation."""
        return tuple(stage.sizes[-1] for stage in self.stages[:-1])

    def logits(self, x: Tensor) -> Tensor:
        """Of a float64 batch, with softplus linear above its threshold: as the module has them."""
        for stage, activation in zip(self.stages[:-1], self.activations, strict=True):
            z = stage.value(x)
            linear = activation.rate * z > activation.threshold
            x = torch.where(linear, z, activation.derivative(0, z))
        return self.stages[-1].value(x)

    def in_units(self, units: Tensor) -> Network:
        """The same network of inputs that are counted in ``units (1, d)``."""
        first, *others = self.stages
        shape = first.shapes[0]
        factor = Scale(units.reshape(1, *shape), terms=_OF_UNITS)
        stage = Stage((factor, *first.maps), (shape, *first.shapes))
        return Network((stage, *others), self.activations)


def unroll(model: object, shape: tuple[int, ...]) -> Network | Rectified:
    """The network behind ``model`` for inputs of one example of ``shape``.

    The weights are taken as the exact numbers they are, whatever their dtype. Only the exact
    classes of PyTorch are known, without methods of an instance's own and without hooks.
    """
    stages, activations = unrolled(model, shape, _KNOWN)
    _check_length(stages)
    smooth = tuple(each for each in activations if isinstance(each, SmoothActivation))
    kinked = tuple(each.slope for each in activations if isinstance(each, Rectifier))
    if smooth and kinked:
        raise _KNOWN.refused("the model", "smooth activations and ReLUs in one network")
    return Rectified(stages, kinked) if kinked else Network(stages, smooth)


def _softplus(module: nn.Softplus) -> SmoothActivation:
    if not module.beta > 0:
        raise UnusableError(f"with beta={module.beta!r}")
    return SmoothActivation.softplus(float(module.beta), float(module.threshold))


def _leaky(module: nn.LeakyReLU) -> Rectifier:
    if not 0 <= module.negative_slope <= 1:
        raise UnusableError(f"with negative_slope={module.negative_slope!r}")
    return Rectifier(float(module.negative_slope))


_KNOWN: Activations[SmoothActivation | Rectifier] = Activations(
    {
        nn.ReLU: lambda module: Rectifier(0.0),  # noqa: ARG005
        nn.LeakyReLU: _leaky,
        nn.Softplus: _softplus,
        SoftReLU: _softplus,
        nn.Tanh: lambda module: SmoothActivation.tanh(),  # noqa: ARG005
        nn.Sigmoid: lambda module: SmoothActivation.sigmoid(),  # noqa: ARG005
    },
    supported=f"{AFFINE}, and either Softplus, Tanh and Sigmoid or ReLU and LeakyReLU",
    remedy="certify such a network, or use another bound",
    smoothed=lambda beta: SmoothActivation.softplus(beta, 20.0),
)


def _check_length(stages: tuple[Stage, ...]) -> None:
    longest = max(max(*stage.sizes, sum(part.terms for part in stage.maps)) for stage in stages)
    if longest > LONGEST:
        raise ModelError(
            "the model",
            expected=f"sums of at most {LONGEST} terms, which the margin for rounding covers",
            got=f"{longest}",
            remedy="certify a narrower network",
        )
