"""Input x gradient."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attribound.attributions.base import Linearization, ModelAttribution
from attribound.attributions.hessian import (
    mean_gradient,
    mean_gradient_and_hessian,
    single_point,
)
from attribound.attributions.scaled import ScaledGradientJacobian
from attribound.values import register


@register("input_x_gradient")
@dataclass(frozen=True)
class InputXGradient(ModelAttribution):
    """The input times the gradient of the target's logit, feature by feature.

    Its Jacobian is diag(gradient) + diag(x) Hessian.
    """

    def _value(self, x: Tensor, target: Tensor) -> Tensor:
        return x * mean_gradient(self.classifier, single_point(x, target))

    def _linearize(self, x: Tensor, target: Tensor) -> Linearization:
        gradient, hessian = mean_gradient_and_hessian(self.classifier, single_point(x, target))
        jacobian = ScaledGradientJacobian(gradient, x, hessian)
        return Linearization(x * gradient, jacobian, target)
