"""Training methods by name."""

from __future__ import annotations

from typing import Any

from attribound.basics.errors import InputError
from attribound.training.objective import Objective
from attribound.training.objectives import (
    ART,
    AT,
    CE,
    TRADES,
    AdvAAT,
    ATWithIGR,
    IGNorm,
    IGSumNorm,
    TRADESWithIGR,
)

_KINDS: tuple[type[Objective], ...] = (
    CE,
    AT,
    TRADES,
    IGNorm,
    IGSumNorm,
    AdvAAT,
    ART,
    ATWithIGR,
    TRADESWithIGR,
)

#: Every training method by the name it has in configs.
OBJECTIVES: dict[str, type[Objective]] = {kind.name: kind for kind in _KINDS}


def objective(name: str, **settings: Any) -> Objective:
    """The training method of that name, its settings as given or their defaults.

    >>> objective("trades", beta=3.0)
    TRADES(steps=10, step_size=None, beta=3.0)
    """
    if name not in OBJECTIVES:
        raise InputError(
            "objective",
            expected=f"one of {', '.join(OBJECTIVES)}",
            got=repr(name),
            remedy="'ce' is the usual training, 'at' the usual robust one",
        )
    return OBJECTIVES[name](**settings)
