"""How a smooth copy differs from the original."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attribound.basics.tables import render


@dataclass(frozen=True, eq=False)
class Fidelity:
    """How a smoothed model differs from the original on some inputs, per example.

    Attributes:
        labels_agree: both predict the same class.
        logits: largest absolute difference of the logits.
        attribution: Euclidean distance of the attributions, relative to the original's norm.
        degrees: angle between the attributions.
    """

    labels_agree: Tensor
    logits: Tensor
    attribution: Tensor
    degrees: Tensor

    @property
    def agreement(self) -> float:
        """Share of examples with the same predicted class."""
        return self.labels_agree.double().mean().item()

    def __repr__(self) -> str:
        rows = [
            [name, value.double().mean().item(), value.double().max().item()]
            for name, value in [
                ("largest logit difference", self.logits),
                ("relative attribution difference", self.attribution),
                ("attribution angle (degrees)", self.degrees),
            ]
        ]
        agree, count = int(self.labels_agree.sum()), len(self.labels_agree)
        title = f"Fidelity of the smoothed model: same label for {agree} of {count}"
        return render(title, ["", "mean", "max"], rows)
