"""What an attack found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from attribound.basics.errors import InputError
from attribound.basics.tables import columns, render
from attribound.results.claims import ATTAINED, Claim
from attribound.results.subject import YOURS


@dataclass(frozen=True, eq=False)
class Attacked:
    """The perturbations an attack found, and how far they move the attribution.

    Attributes:
        delta: perturbation of each example, inside the ball, shape ``(batch, *features)``.
        deviation: Euclidean distance of the two attributions.
        cosine, degrees: their cosine distance and angle; 2 and 180 where undefined.
        label_kept: the prediction at ``x + delta`` is that at ``x``; None without a classifier.
        misclassified: the prediction at ``x`` is not the target, so that the label the
            attack explains was never there; None without a classifier.
        evaluations: gradients of the model computed for each example.
        trials: the single attacks, if several were made; the fields above are then those
            of the trial that moved an example furthest.
        subject: on which network it was judged.
        target: the labels that were explained; None of attacks that keep none.
        attacked_map: the attribution at ``x + delta``, from which the numbers above are; None
            of attacks that keep none.
    """

    delta: Tensor
    deviation: Tensor
    cosine: Tensor
    degrees: Tensor
    label_kept: Tensor | None
    misclassified: Tensor | None
    evaluations: int
    trials: tuple[Attacked, ...] = ()
    claim: Claim = ATTAINED
    subject: str = YOURS
    attacked_map: Tensor | None = None
    target: Tensor | None = None

    def __len__(self) -> int:
        return len(self.deviation)

    def __repr__(self) -> str:
        kept, wrong = (
            ["?"] * len(self) if flags is None else flags.tolist()
            for flags in (self.label_kept, self.misclassified)
        )
        numbers = columns(self.deviation, self.cosine, self.degrees)
        rows = list(zip(*numbers, kept, wrong, strict=True))
        trials = f"best of {len(self.trials)} trials, " if self.trials else ""
        effort = f"{trials}{self.evaluations} gradients each"
        title = f"Attacked {self.subject}, {effort}, claim: {self.claim}"
        header = ["deviation", "cosine", "degrees", "label kept", "misclassified"]
        return render(title, header, rows)


def check_attacked(attacked: Iterable[object]) -> None:
    """Refuse what no attack gave."""
    for each in attacked:
        if not isinstance(each, Attacked):
            raise InputError(
                "attacked",
                expected="results of attacks",
                got=type(each).__name__,
                remedy="use e.g. attribound.attacks.AttributionAscent()(attribution, x, ball)",
            )
