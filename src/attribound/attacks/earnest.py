"""The attack to make on a network with kinks that a smooth copy stands for."""

from __future__ import annotations

from attribound.attacks.attack import Attack, BestOf
from attribound.attacks.attribution_ascent import AttributionAscent
from attribound.attacks.kink_steps import KinkSteps
from attribound.attacks.random_perturbation import RandomPerturbation

_SHARPER = (50.0, 200.0)  # nearer to the network than most copies that are bounded
_STARTS = 4
_DRAWS = 8


def earnest(beta: float) -> Attack:
    """Ascents through the copy and sharper ones, steps across the nearest kinks, random points.

    None of them asks the network itself for slopes, which it has not.

    Args:
        beta: sharpness of the copy that is bounded.
    """
    betas = dict.fromkeys((float(beta), *_SHARPER))
    return BestOf(
        AttributionAscent(random_starts=_STARTS).through(*betas),
        KinkSteps(),
        RandomPerturbation().repeat(_DRAWS),
    )
