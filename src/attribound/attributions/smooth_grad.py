"""SmoothGrad: the gradient averaged over fixed noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions.autograd import AutogradAttribution
from attribound.attributions.noise import check_draws
from attribound.values import register


@register("smooth_grad")
@dataclass(frozen=True)
class SmoothGrad(AutogradAttribution):
    """The mean gradient of the target's logit over noisy copies of the input.

    The noise is drawn once from the seed and is the same for every example, so
    that the attribution is a deterministic, differentiable function of the input.

    Attributes:
        samples: noisy copies per example.
        sigma: standard deviation of the noise, in the units of the input.
        seed: of the noise.
    """

    samples: int = 16
    sigma: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse noise that is none."""
        super().__post_init__()
        check_draws(self.samples, self.sigma, "use e.g. samples=16, sigma=0.1")

    def map(self, x: Tensor, target: Tensor) -> Tensor:
        """The mean gradient, with its graph."""
        generator = torch.Generator().manual_seed(self.seed)
        shape = (self.samples, *x.shape[1:])
        noise = torch.randn(shape, generator=generator, dtype=torch.float64).to(x)
        points = (x.unsqueeze(1) + self.sigma * noise).flatten(0, 1)
        labels = target.repeat_interleave(self.samples)
        gradient = self.classifier.gradient(points, labels, create_graph=True)
        return gradient.view(len(x), self.samples, *x.shape[1:]).mean(1)
