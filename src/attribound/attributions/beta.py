"""How sharp a smooth copy must be to explain as its network does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from attribound.attributions.base import Attribution
from attribound.attributions.fidelity import fidelity
from attribound.attributions.saliency import Saliency
from attribound.basics.errors import InputError
from attribound.basics.numbers import refuse_other
from attribound.basics.tables import render
from attribound.networks.smooth import smooth

#: The betas that are tried, and the median angle that is close enough.
LADDER = (20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)
CLOSE = 5.0


@dataclass(frozen=True)
class ChosenBeta:
    """The smallest beta of a ladder whose copy is close to its network on a pilot.

    Attributes:
        beta: the one chosen; the largest tried if none was close enough.
        close: whether it is.
        tried: of each beta the share of labels that agree and the median angle in degrees, of
            the attribution that is furthest off.
        pilot: examples it was measured on.
    """

    beta: float
    close: bool
    tried: dict[float, tuple[float, float]]
    pilot: int

    def __repr__(self) -> str:
        rows = [[beta, agree, angle] for beta, (agree, angle) in self.tried.items()]
        word = "is" if self.close else "was tried last, and is not"
        title = (
            f"beta = {self.beta:g} {word} close: labels agree and the median angle is below "
            f"{CLOSE:g} degrees ({self.pilot} examples)"
        )
        return render(title, ["beta", "same label", "median angle"], rows)


def choose_beta(
    model: nn.Module, x: Tensor, attributions: Sequence[Attribution] = (Saliency(),)
) -> ChosenBeta:
    """The smallest beta at which labels agree and the median angle of maps is below 5 degrees.

    A small beta is another network, a large one has curvature that no bound follows far: what
    is said of a copy is worth as much as the copy resembles the network.

    Args:
        model: a network with kinks.
        x: a pilot of the data, ``(batch, *features)``.
        attributions: recipes that must all be close.
    """
    if not attributions:
        raise InputError(
            "attributions",
            expected="at least one",
            got="none",
            remedy="use e.g. [attribound.Saliency()]",
        )
    for each in attributions:
        refuse_other("attributions", each, Attribution, "use e.g. [attribound.Saliency()]")
    tried: dict[float, tuple[float, float]] = {}
    for beta in LADDER:
        copy = smooth(model, beta, share_weights=True)
        every = [fidelity(model, copy, x, recipe.of) for recipe in attributions]
        agree = min(each.agreement for each in every)
        angle = max(each.degrees.double().median().item() for each in every)
        tried[beta] = (agree, angle)
        if agree == 1 and angle < CLOSE:
            return ChosenBeta(beta, True, tried, len(x))
    return ChosenBeta(LADDER[-1], False, tried, len(x))
