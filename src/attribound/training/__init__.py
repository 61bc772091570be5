"""Training of networks whose predictions and attributions withstand attacks."""

from attribound.training.gradients import IG
from attribound.training.objective import Losses, Objective
from attribound.training.objectives import (
    ART,
    AT,
    CE,
    IGR,
    TRADES,
    AdvAAT,
    ATWithIGR,
    IGNorm,
    IGSumNorm,
    TRADESWithIGR,
)
from attribound.training.passes import Passes
from attribound.training.registry import OBJECTIVES, objective
from attribound.training.step import Step

__all__ = [
    "ART",
    "AT",
    "CE",
    "IG",
    "IGR",
    "OBJECTIVES",
    "TRADES",
    "ATWithIGR",
    "AdvAAT",
    "IGNorm",
    "IGSumNorm",
    "Losses",
    "Objective",
    "Passes",
    "Step",
    "TRADESWithIGR",
    "objective",
]
