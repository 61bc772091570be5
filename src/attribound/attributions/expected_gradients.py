"""Expected gradients, Captum's GradientShap: integrated gradients over many baselines."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions.autograd import AutogradAttribution
from attribound.attributions.base import check_baseline
from attribound.attributions.noise import check_draws
from attribound.basics.errors import InputError
from attribound.values import register


@register("expected_gradients")
@dataclass(frozen=True, eq=False)  # compared by settings, of which one is a tensor
class ExpectedGradients(AutogradAttribution):
    """The mean of (x - baseline) times the gradient at a point between, over baselines and points.

    Which baseline and which point belong together is drawn once from the seed, the points evenly
    over the way, the baselines each about as often; so it is a deterministic, differentiable
    function of the input. It is the mean over all draws, and adds up to f(x) - mean f(baselines),
    only up to the error of ``samples`` draws.

    Attributes:
        baselines: a number, one baseline ``features``, or many ``(baselines, *features)``, e.g.
            some of the training data.
        samples: draws.
        sigma: standard deviation of noise on the input, in its units; 0 for none.
        seed: of the draws.
        multiply_by_inputs: False leaves the factor (x - baseline) out.
    """

    baselines: float | Tensor = 0.0
    samples: int = 20
    sigma: float = 0.0
    seed: int = 0
    multiply_by_inputs: bool = True

    def __post_init__(self) -> None:
        """Refuse draws that are none."""
        super().__post_init__()
        check_draws(self.samples, self.sigma, "use e.g. samples=20, sigma=0.0")
        object.__setattr__(self, "baselines", check_baseline("baselines", self.baselines))

    def draws(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Baselines and noise ``(samples, *features)``, places between ``(samples, 1, ...)``."""
        known = self._known_baselines(x)
        generator = torch.Generator().manual_seed(self.seed)
        count, features = self.samples, tuple(x.shape[1:])
        within = torch.rand(count, generator=generator, dtype=torch.float64)
        between = ((torch.arange(count) + within) / count).to(x)
        rounds = -(-count // len(known))
        which = [torch.randperm(len(known), generator=generator) for _ in range(rounds)]
        # In another order than the points: baselines must not lie at places of their own.
        chosen = torch.cat(which)[:count][torch.randperm(count, generator=generator)]
        noise = torch.randn((count, *features), generator=generator, dtype=torch.float64).to(x)
        return known[chosen.to(x.device)], noise, between.view(-1, *[1] * len(features))

    def map(self, x: Tensor, target: Tensor) -> Tensor:
        """The mean, with its graph."""
        baselines, noise, between = self.draws(x)
        away = x.unsqueeze(1) + self.sigma * noise - baselines
        points = (baselines + between * away).flatten(0, 1)
        labels = target.repeat_interleave(self.samples)
        gradient = self.classifier.gradient(points, labels, create_graph=True).view_as(away)
        return (away * gradient if self.multiply_by_inputs else gradient).mean(1)

    def _known_baselines(self, x: Tensor) -> Tensor:
        base = torch.as_tensor(self.baselines, dtype=x.dtype, device=x.device)
        features = x.shape[1:]
        if base.dim() == 0 or base.shape == features:
            base = base.expand(1, *features)
        if base.shape[1:] != features or not len(base) or not torch.isfinite(base).all():
            raise InputError(
                "baselines",
                expected=f"finite numbers: one, or of shape {('n', *features)}",
                got=f"shape {tuple(base.shape)}"
                if base.shape[1:] != features or not len(base)
                else "NaN or infinity",
                remedy="give e.g. some inputs of the training data, (n, *features)",
            )
        return base
