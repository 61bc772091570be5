"""MLP: a fully connected network small enough for the certified bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import nn

from attribound.basics.errors import InputError
from attribound.basics.numbers import is_count
from attribound.models.settings import SOFTPLUS


class MLP(nn.Sequential):
    """Logits ``(batch, classes)`` of inputs ``(batch, *features)`` of any shape, flattened.

    Linear layers with an activation between them; a plain ``nn.Sequential`` in all
    else, so that what walks through layers walks through it.

    Args:
        features: numbers in one input, 784 for 28x28 grey images.
        hidden: widths of the hidden layers; none makes it linear.
        classes: number of logits.
        activation: makes one activation module; softplus by default, because the
            bounds need second derivatives.
    """

    def __init__(
        self,
        features: int = 784,
        hidden: Sequence[int] = (100, 100),
        classes: int = 10,
        activation: Callable[[], nn.Module] = SOFTPLUS,
    ) -> None:
        widths = [features, *hidden, classes]
        if not all(map(is_count, widths)):
            raise InputError(
                "widths",
                expected="1 or more in every layer",
                got=repr(widths),
                remedy="e.g. MLP(features=784, hidden=(100, 100), classes=10)",
            )
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), activation()]
        super().__init__(*layers[:-1])
