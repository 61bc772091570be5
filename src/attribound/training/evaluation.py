"""What the network is worth on held-out examples, while it is trained."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from attribound.attacks import IFIA, PGD, TopK
from attribound.attributions import IntegratedGradients
from attribound.balls import Ball
from attribound.basics.errors import ModelError
from attribound.metrics import Similarity, attacked_accuracy, attribution_similarity, clean_accuracy
from attribound.networks import smooth
from attribound.networks.frozen import frozen
from attribound.training.config import HeldOut

_BETA = 20.0  # of the smooth copy through which networks with kinks are compared, as the paper does


@dataclass(frozen=True)
class Scores:
    """Accuracies and the similarity of attributions.

    Attributes:
        clean_accuracy: on all examples.
        adversarial_accuracy: on the first of them, under PGD, if asked for.
        similarity: of integrated gradients under IFIA, if asked for and to be had.
        unexplained: why there is none, although it was asked for.
    """

    clean_accuracy: float
    adversarial_accuracy: float | None
    similarity: Similarity | None
    unexplained: str | None


def evaluate(
    model: nn.Module, x: Tensor, y: Tensor, ball: Ball, settings: HeldOut, *, seed: int
) -> Scores:
    """Measure ``model`` on the held-out ``x`` and ``y``; the model is left as it was.

    Attacks are drawn from ``seed``. The attribution of a network with ReLU or max-pooling
    has no gradient to attack with: there its smooth copy (beta 20) is attacked and compared.
    A network whose attributions cannot be attacked, say because it became constant, is no
    error here: a training goes on.
    """
    with frozen(model):
        adversarial = similarity = unexplained = None
        rows = slice(settings.attacked)
        if settings.attacked:
            attack = PGD(steps=settings.attack_steps, seed=seed)
            adversarial = attacked_accuracy(model, x[rows], y[rows], ball, attack).value
        rows = slice(settings.explained)
        if settings.explained:
            k = settings.k or max(1, x[0].numel() // 10)
            ifia = IFIA(TopK(k), steps=settings.explain_steps, seed=seed)
            around = ball.at_radius(settings.explain_epsilon or ball.epsilon)
            explained = IntegratedGradients(_differentiable(model), steps=settings.ig_steps)
            try:
                similarity = attribution_similarity(explained, x[rows], y[rows], around, ifia, k)
                unexplained = "no example is classified correctly" if similarity is None else None
            except ModelError as error:
                unexplained = str(error)
        clean = clean_accuracy(model, x, y).value
        return Scores(clean, adversarial, similarity, unexplained)


def _differentiable(model: nn.Module) -> nn.Module:
    kinked = any(isinstance(module, (nn.ReLU, nn.MaxPool2d)) for module in model.modules())
    return smooth(model, _BETA, share_weights=True) if kinked else model
