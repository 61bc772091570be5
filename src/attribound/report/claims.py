"""How the report speaks of claims: titles, what a radius between measured ones does to them."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from attribound.results import Claim

#: Columns of a run that hold bounds, weakest promise first.
CLAIMS: dict[str, Claim] = {
    "first_order": Claim.FIRST_ORDER,
    "adjusted": Claim.ADJUSTED,
    "calibrated": Claim.CALIBRATED,
    "mean_value": Claim.MEAN_VALUE,
    "certified": Claim.CERTIFIED,
}


class Moves(str, enum.Enum):
    """What is known of a bound at a radius that was not measured.

    ``SCALED``: a number times the radius, so known everywhere. ``NESTED``: what holds in a
    ball holds in every smaller one. ``MEASURED``: nothing.
    """

    SCALED = "scaled"
    NESTED = "nested"
    MEASURED = "measured"


#: First-order bounds are linear in the radius; proofs and searches over a ball cover what is
#: inside it; deviations seen at two points and factors calibrated at one radius stay there.
MOVES: dict[str, Moves] = {
    "first_order": Moves.SCALED,
    "adjusted": Moves.MEASURED,
    "calibrated": Moves.MEASURED,
    "mean_value": Moves.NESTED,
    "certified": Moves.NESTED,
}


def present(columns: Iterable[str]) -> tuple[str, ...]:
    """The claims among the names of columns, weakest promise first."""
    have = set(columns)
    return tuple(name for name in CLAIMS if name in have)
