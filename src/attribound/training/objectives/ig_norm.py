"""IG-NORM and IG-SUM-NORM of Chen et al. (2019): the attribution of the change of the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from attribound.attacks.objectives import Objective as Climbed
from attribound.attributions.quadrature import rule
from attribound.basics.numbers import check_positive
from attribound.basics.tensors import norm
from attribound.networks.modes import eval_mode
from attribound.networks.path import Path
from attribound.training.groups import GroupedScore, mean_over_examples
from attribound.training.inner import Adversarial
from attribound.training.maps import along, loss
from attribound.training.objective import Passes, Step
from attribound.values import register


@register("ig_norm")
@dataclass(frozen=True)
class IGNorm(Adversarial):
    """CE(x) + weight |IG of the loss from x to x'|_1, x' the end of ascent on that norm.

    By completeness the entries of that map sum to the change of the loss (up to the quadrature),
    so that the norm is at least the size of that change.

    Attributes:
        weight: of the norm; 1 in the authors' code.
        steps: of the attack; 20 there for Fashion-MNIST.
        ig_steps: quadrature nodes of the term trained on; 50 there.
        attack_ig_steps: quadrature nodes in the attack; 10 there.
        quadrature: as in :class:`~attribound.attributions.IntegratedGradients`.
    """

    terms: ClassVar[tuple[str, ...]] = ("ce", "ig_norm")
    steps: int = 20
    weight: float = 1.0
    ig_steps: int = 50
    attack_ig_steps: int = 10
    quadrature: str = "riemann_right"

    def __post_init__(self) -> None:
        """Refuse weights and rules that are none."""
        super().__post_init__()
        check_positive("weight", self.weight, "use e.g. weight=1")
        for steps in (self.ig_steps, self.attack_ig_steps):
            rule(self.quadrature, steps)

    def climbed(self, step: Step) -> Climbed:
        """The norm."""

        def score(moved: Tensor, rows: slice) -> Tensor:
            return self._norm(step, moved, rows, self.attack_ig_steps)

        return GroupedScore(score, self.attack_ig_steps)

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        """Both terms."""
        change = self._mean_norm(step, attacked)
        return {"ce": cross_entropy(step.model(step.x), step.y), "ig_norm": change}

    def _mean_norm(self, step: Step, attacked: Tensor) -> Tensor:
        def term(rows: slice) -> Tensor:
            return self._norm(step, attacked[rows], rows, self.ig_steps)

        with eval_mode(step.model):
            change = mean_over_examples(step.model, attacked, self.ig_steps, term)
        return self.weight * change

    def _norm(self, step: Step, moved: Tensor, rows: slice, steps: int) -> Tensor:
        """The 1-norm of the integrated gradients of the loss from x to x', per example."""
        x = step.x[rows]
        nodes, weights = rule(self.quadrature, steps)
        path = Path(x, moved - x, nodes.to(x), weights.to(x), step.y[rows])
        return norm(along(step.model, path, loss), 1)

    @property
    def attack_passes(self) -> Passes:
        """All nodes at every step."""
        return Passes(second=self.steps * self.attack_ig_steps)

    @property
    def loss_passes(self) -> Passes:
        """The clean prediction, and all nodes."""
        return Passes(first=1, second=self.ig_steps)


@register("ig_sum_norm")
@dataclass(frozen=True)
class IGSumNorm(IGNorm):
    """CE(x') + weight |IG of the loss from x to x'|_1, x' the end of ascent on all of that.

    Attributes:
        weight: of the norm; 0.1 in the authors' code.
    """

    terms: ClassVar[tuple[str, ...]] = ("ce_attacked", "ig_norm")
    weight: float = 0.1

    def climbed(self, step: Step) -> Climbed:
        """The whole objective."""

        def score(moved: Tensor, rows: slice) -> Tensor:
            change = self._norm(step, moved, rows, self.attack_ig_steps)
            return loss(step.model(moved), step.y[rows]) + self.weight * change

        return GroupedScore(score, self.attack_ig_steps)

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        """Both terms."""
        change = self._mean_norm(step, attacked)
        return {"ce_attacked": cross_entropy(step.model(attacked), step.y), "ig_norm": change}

    @property
    def attack_passes(self) -> Passes:
        """The loss at x' and all nodes at every step."""
        return super().attack_passes + Passes(first=self.steps)
