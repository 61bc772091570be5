"""An attribution of a user's own: Grad-CAM without upsampling, a map smaller than the input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import attribound as ab


@dataclass(frozen=True)
class GradCAM(ab.AutogradAttribution):
    """The layer's channels, weighted with the mean slope of the target's logit, summed.

    Attributes:
        layers: how many layers of a sequential network come before the map.
    """

    layers: int = 2

    def map(self, x: Tensor, target: Tensor) -> Tensor:
        """``(batch, height, width)`` of the layer."""
        network = self.classifier.model
        assert isinstance(network, nn.Sequential)
        features = network[: self.layers](x)
        score = network[self.layers :](features).gather(1, target.unsqueeze(1)).sum()
        (slope,) = torch.autograd.grad(score, features, create_graph=True)
        return (slope.mean((2, 3), keepdim=True) * features).sum(1)
