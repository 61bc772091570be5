"""Training methods, one a file."""

from attribound.training.objectives.advaat import AdvAAT
from attribound.training.objectives.art import ART
from attribound.training.objectives.at import AT
from attribound.training.objectives.ce import CE
from attribound.training.objectives.ig_norm import IGNorm
from attribound.training.objectives.ig_sum_norm import IGSumNorm
from attribound.training.objectives.igr import IGR, ATWithIGR, TRADESWithIGR
from attribound.training.objectives.trades import TRADES

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
