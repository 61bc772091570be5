"""Proposition 1: the half-space of perturbations that, to first order, keep the label.

The paper takes M from Jacobians of attributions and b from their sums. By
completeness M is the difference of two logit gradients, for every attribution,
and b is the difference of the logits themselves: no baseline enters.

On a ball that is symmetric one of plus and minus the linearised optimum satisfies
a single constraint with b > 0, so that the constraint never lowers the bound.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.attributions import Classifier
from attribound.basics.tensors import dot
from attribound.networks.fast_derivatives import differentiate
from attribound.results import LabelConstraint


def label_constraint(
    classifier: Classifier, x: Tensor, target: Tensor, delta: Tensor
) -> LabelConstraint:
    """The constraint ``M . delta < b`` against the runner-up, and whether +-delta satisfy it."""
    points = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        logits = classifier.logits(points)
        if logits.shape[1] > 1:
            others = logits.detach().scatter(1, target.unsqueeze(1), -torch.inf)
            runner_up = others.argmax(1)
        else:
            runner_up = target
        gap = (logits.gather(1, target.unsqueeze(1)) - logits.gather(1, runner_up.unsqueeze(1)))[
            :, 0
        ]
        slope = differentiate(gap.sum(), points)
    margin, normal = gap.detach(), -slope
    tilt = dot(normal, delta)
    return LabelConstraint(
        runner_up=runner_up,
        normal=normal,
        margin=margin,
        plus_feasible=tilt < margin,
        minus_feasible=-tilt < margin,
        misclassified=logits.detach().argmax(1) != target,
    )
