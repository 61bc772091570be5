"""Saliency: the gradient of the target's logit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions.base import Linearization, ModelAttribution
from attribound.attributions.hessian import (
    mean_gradient,
    mean_gradient_and_hessian,
    single_point,
)
from attribound.values import register


@register("saliency")
@dataclass(frozen=True)
class Saliency(ModelAttribution):
    """The gradient of the target's logit with respect to the input, with its sign.

    Its Jacobian is the Hessian of the logit, symmetric.
    """

    def revalue_and_predict(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None]:
        """From one pass: the gradient meets the logits on its way."""
        with torch.no_grad():
            logits: list[Tensor] = []
            maps = mean_gradient(self.classifier, single_point(x, target), logits)
            return maps.detach(), torch.cat(logits).argmax(1)

    def _value(self, x: Tensor, target: Tensor) -> Tensor:
        return mean_gradient(self.classifier, single_point(x, target))

    def _linearize(self, x: Tensor, target: Tensor) -> Linearization:
        gradient, hessian = mean_gradient_and_hessian(self.classifier, single_point(x, target))
        return Linearization(gradient, hessian, target)
