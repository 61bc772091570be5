"""Training of networks whose predictions and attributions withstand attacks."""

from attribound.training.config import TrainingConfig
from attribound.training.finite import NotFiniteError
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
from attribound.training.stopping import Stopped
from attribound.training.trainer import Hardware, TrainingResult, train

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
    "Hardware",
    "IGNorm",
    "IGSumNorm",
    "Losses",
    "NotFiniteError",
    "Objective",
    "Passes",
    "Step",
    "Stopped",
    "TRADESWithIGR",
    "TrainingConfig",
    "TrainingResult",
    "objective",
    "train",
]
