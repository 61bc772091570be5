"""Attacks on attributions: what brackets a bound from below."""

from attribound.attacks.attack import (
    Attack,
    BestOf,
    Interrupted,
    OnlyIn,
    Repeated,
    SearchAttack,
)
from attribound.attacks.attribution_ascent import AttributionAscent
from attribound.attacks.averaged_ascent import AveragedAscent
from attribound.attacks.displace import Displace, Displaced, TowardsRivals
from attribound.attacks.earnest import earnest
from attribound.attacks.ifia import IFIA
from attribound.attacks.judging import furthest, judge
from attribound.attacks.kink_jumps import AtKinks, KinkJumps
from attribound.attacks.kink_steps import KinkSteps
from attribound.attacks.measures import Angle, Distance, MassCentre, Targeted, TopK, usual_k
from attribound.attacks.pgd import PGD
from attribound.attacks.random_perturbation import RandomPerturbation
from attribound.attacks.steps import Ascend, AtInput, InBall, Jump, LinearOptimum, Nearby
from attribound.attacks.through import Through

__all__ = [
    "IFIA",
    "PGD",
    "Angle",
    "Ascend",
    "AtInput",
    "AtKinks",
    "Attack",
    "AttributionAscent",
    "AveragedAscent",
    "BestOf",
    "Displace",
    "Displaced",
    "Distance",
    "InBall",
    "Interrupted",
    "Jump",
    "KinkJumps",
    "KinkSteps",
    "LinearOptimum",
    "MassCentre",
    "Nearby",
    "OnlyIn",
    "RandomPerturbation",
    "Repeated",
    "SearchAttack",
    "Targeted",
    "Through",
    "TopK",
    "TowardsRivals",
    "earnest",
    "furthest",
    "judge",
    "usual_k",
]
