"""Training methods."""

from attribound.training.objectives.advaat import AdvAAT
from attribound.training.objectives.art import ART
from attribound.training.objectives.ig_norm import IGNorm, IGSumNorm
from attribound.training.objectives.igr import IGR, ATWithIGR, TRADESWithIGR
from attribound.training.objectives.predictions import AT, CE, TRADES

__all__ = [
    "ART",
    "AT",
    "CE",
    "IGR",
    "TRADES",
    "ATWithIGR",
    "AdvAAT",
    "IGNorm",
    "IGSumNorm",
    "TRADESWithIGR",
]
