"""Training of networks whose predictions and attributions withstand attacks."""

from attribound.training.config import TrainingConfig, TrainingData
from attribound.training.finite import NotFiniteError
from attribound.training.objective import Losses, Passes, Step, TrainingObjective
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
from attribound.training.optimiser import SGD, Adam, Optimiser
from attribound.training.parts import load_parts
from attribound.training.schedule import Constant, Cosine, MultiStep, OneCycle, Schedule
from attribound.training.stopping import Stopped
from attribound.training.trainer import Hardware, TrainingResult, train

__all__ = [
    "ART",
    "AT",
    "CE",
    "IGR",
    "SGD",
    "TRADES",
    "ATWithIGR",
    "Adam",
    "AdvAAT",
    "Constant",
    "Cosine",
    "Hardware",
    "IGNorm",
    "IGSumNorm",
    "Losses",
    "MultiStep",
    "NotFiniteError",
    "OneCycle",
    "Optimiser",
    "Passes",
    "Schedule",
    "Step",
    "Stopped",
    "TRADESWithIGR",
    "TrainingConfig",
    "TrainingData",
    "TrainingObjective",
    "TrainingResult",
    "load_parts",
    "train",
]
