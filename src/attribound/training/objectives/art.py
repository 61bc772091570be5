"""Attributional robustness training of Singh et al. (2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus

from attribound.attacks.objectives import Objective as Climbed
from attribound.basics.numbers import check_count, check_positive
from attribound.networks import smooth
from attribound.networks.fast_derivatives import differentiate
from attribound.networks.kinks import find_kinks
from attribound.networks.modes import eval_mode
from attribound.training.groups import GroupedScore, mean_over_examples
from attribound.training.inner import Adversarial
from attribound.training.maps import cosine, smooth_logits, target_logit
from attribound.training.objective import Passes, Step
from attribound.values import register


@register("art")
@dataclass(frozen=True)
class ART(Adversarial):
    """CE(x') + weight log(1 + exp(d(z, g_y) - d(z, g_other))), averaged over z in {x, x'}.

    g_y is the gradient of the label's logit, g_other that of the largest other one, d one
    minus the cosine: an image shall look like the gradient of its label. Of the gradients at
    x and at x' the worst pair counts: the largest d(z, g_y), the smallest d(z, g_other). The
    attack climbs the same term at x' alone (z and both gradients there), on the k entries
    where g_y was largest at its start.

    The authors take gradients from a copy of their ReLU network with softplus; so does this
    if the network has kinks, and takes the network itself if it has none. They compare with
    normalised images, this with images as the network takes them.

    Attributes:
        weight: of the attribution term; 0.5 in the authors' code.
        steps: of the attack; 3 there.
        step_size: 5/255 there, for epsilon 8/255; default here 2.5 epsilon / steps.
        k: entries the attack looks at, or all if there are fewer; 1000 there, for CIFAR-10.
        beta: of the softplus that replaces ReLU; 50 there.
    """

    terms: ClassVar[tuple[str, ...]] = ("ce_attacked", "attribution")
    loss_passes: ClassVar[Passes] = Passes(first=1, second=4)
    steps: int = 3
    weight: float = 0.5
    k: int = 1000
    beta: float = 50.0

    def __post_init__(self) -> None:
        """Refuse settings that are none."""
        super().__post_init__()
        check_positive("weight", self.weight, "use weight=0.5, or the objective 'at' for none")
        check_positive("beta", self.beta, "use beta=50")
        check_count("k", self.k, "use e.g. k=100")

    def climbed(self, step: Step) -> Climbed:
        """The attribution term on the largest entries."""
        model = self._smooth(step)
        largest: dict[int, Tensor] = {}  # by the first row of the group

        def score(moved: Tensor, rows: slice) -> Tensor:
            own, other = (g.flatten(1) for g in _gradients(model, moved, step.y[rows]))
            if rows.start not in largest:  # the first iterate: the start
                count = min(self.k, own.shape[1])
                largest[rows.start] = own.detach().abs().topk(count, 1).indices
            at = largest[rows.start]
            z, own, other = (v.gather(1, at) for v in (moved.flatten(1), own, other))
            return softplus(cosine(z, other) - cosine(z, own))

        return GroupedScore(score, 2)

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        """Both terms."""
        with eval_mode(step.model):
            model = self._smooth(step)

            def term(rows: slice) -> Tensor:
                pair = (step.x[rows], attacked[rows])
                own, other = zip(*(_gradients(model, z, step.y[rows]) for z in pair), strict=True)
                return torch.stack([_worst(z, own, other) for z in pair]).mean(0)

            alignment = mean_over_examples(step.model, attacked, 4, term)
        return {
            "ce_attacked": cross_entropy(step.model(attacked), step.y),
            "attribution": self.weight * alignment,
        }

    def _smooth(self, step: Step) -> nn.Module:
        """The model, or a smooth copy with the same parameters; the model is in eval mode."""
        if not find_kinks(step.model, step.x[:1]):
            return step.model
        return smooth(step.model, self.beta, share_weights=True)

    @property
    def attack_passes(self) -> Passes:
        """The gradients of two logits at every step; they share a forward."""
        return Passes(second=2 * self.steps)


def _gradients(model: nn.Module, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the label's logit and of the largest other one, with their graphs."""
    with torch.enable_grad():
        z = z if z.requires_grad else z.detach().requires_grad_()
        logits = smooth_logits(model, z)
        others = logits.scatter(1, y.unsqueeze(1), -torch.inf).amax(1)
        own = differentiate(target_logit(logits, y).sum(), z, create_graph=True)
        return own, differentiate(others.sum(), z, create_graph=True)


def _worst(z: Tensor, own: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> Tensor:
    """The term at z, with the least alike of its label's gradients and the most alike other."""
    near = torch.stack([cosine(z, g) for g in own]).amin(0)
    far = torch.stack([cosine(z, g) for g in other]).amax(0)
    return softplus(far - near)
