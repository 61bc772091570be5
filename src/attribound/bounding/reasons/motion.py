"""How far the map of one example can move: as a whole, feature by feature, pair by pair."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attribound.bounding.certified.relu.region import Region
from attribound.operators import LinearOperator

_AT_ONCE = 1024  # directions
_POINTS = 64  # evaluations of the model in one block of products

Ends = tuple[Tensor, Tensor]


class Motion(ABC):
    """What a claim says of g(x + delta) - g(x) for every perturbation; flat, in float64.

    Attributes:
        whole: upper value of its Euclidean norm.
        size: number of scores.
    """

    whole: float
    size: int

    @abstractmethod
    def features(self, places: Tensor) -> Ends:
        """The least and the most change of these scores."""

    @abstractmethod
    def differences(self, place: int, sign: float, others: Tensor, other: float) -> Tensor:
        """The least ``sign * change[place] - other * change[others]``, one for each of others."""


@dataclass(frozen=True, eq=False)
class WholeMap(Motion):
    """Nothing but the bound on the whole map is known."""

    whole: float
    size: int

    def features(self, places: Tensor) -> Ends:
        """A score moves by no more than the map."""
        most = torch.full((len(places),), self.whole, dtype=torch.float64)
        return -most, most

    def differences(self, place: int, sign: float, others: Tensor, other: float) -> Tensor:  # noqa: ARG002
        """Two scores in opposite directions by the root of two times that."""
        return torch.full((len(others),), -math.sqrt(2) * self.whole, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Directed(Motion):
    """From ends along any directions ``(n, size)``.

    Attributes:
        ends: the least and the most of each direction times the change.
    """

    whole: float
    size: int
    ends: Callable[[Tensor], Ends]

    def features(self, places: Tensor) -> Ends:
        """Along unit vectors."""
        found = [self.ends(self._units(some, 1.0)) for some in torch.split(places, _AT_ONCE)]
        return torch.cat([low for low, _ in found]), torch.cat([high for _, high in found])

    def differences(self, place: int, sign: float, others: Tensor, other: float) -> Tensor:
        """Along differences of two of them."""
        found = []
        for some in torch.split(others, _AT_ONCE):
            directions = self._units(some, -other)
            directions[:, place] += sign
            found.append(self.ends(directions)[0])
        return torch.cat(found)

    def _units(self, places: Tensor, value: float) -> Tensor:
        made = torch.zeros(len(places), self.size, dtype=torch.float64)
        made[torch.arange(len(places)), places] = value
        return made


@dataclass(eq=False)
class Rows:
    """Rows of the Jacobian of one example, each computed when first asked for."""

    operator: LinearOperator
    example: int
    _known: dict[int, Tensor] = field(default_factory=dict)

    def __call__(self, places: Tensor) -> Tensor:
        """The rows of these scores, ``(n, features)``, in float64."""
        wanted = [place for place in places.tolist() if place not in self._known]
        at_once = max(1, _POINTS // self.operator.points)
        for start in range(0, len(wanted), at_once):
            some = wanted[start : start + at_once]
            index = torch.full((len(some),), self.example, device=self.operator.domain.device)
            repeated = self.operator.select(index)
            basis = torch.zeros_like(repeated.range).flatten(1)
            basis[torch.arange(len(some)), some] = 1
            with torch.no_grad():
                rows = repeated.rmatvec(basis.view_as(repeated.range))
            found = rows.flatten(1).to("cpu", torch.float64)
            self._known.update(zip(some, found, strict=True))
        return torch.stack([self._known[place] for place in places.tolist()])


@dataclass(frozen=True, eq=False)
class RowMotion(Motion):
    """From rows of Jacobians: ``a . change`` is a mean of ``(J^T a) . delta`` on the way.

    With one Jacobian, that at x, it is what holds if the map is linear in the ball. With more, in
    shells, the mean over the shells of the largest in each and those inside it.

    Attributes:
        shells: Jacobians at points of each shell, the innermost first.
        region: of the perturbations.
        seen: changes ``(n, size)`` that were seen: what is said is not below them.
    """

    whole: float
    size: int
    shells: Sequence[Sequence[Rows]]
    region: Region
    seen: Tensor

    def features(self, places: Tensor) -> Ends:
        """Rows times the worst perturbations."""
        most = self._most(lambda rows: rows(places))
        least = -self._most(lambda rows: -rows(places))
        seen = self.seen[:, places]
        return torch.minimum(least, seen.amin(0)), torch.maximum(most, seen.amax(0))

    def differences(self, place: int, sign: float, others: Tensor, other: float) -> Tensor:
        """Differences of rows, with signs: opposite ones add up."""
        own = torch.tensor([place])
        least = -self._most(lambda rows: other * rows(others) - sign * rows(own))
        seen = sign * self.seen[:, own] - other * self.seen[:, others]
        return torch.minimum(least, seen.amin(0))

    def _most(self, directions: Callable[[Rows], Tensor]) -> Tensor:
        total: Tensor | None = None
        largest: Tensor | None = None
        for shell in self.shells:
            for rows in shell:
                here = self.region.support(directions(rows))
                largest = here if largest is None else torch.maximum(largest, here)
            assert largest is not None
            total = largest if total is None else total + largest
        assert total is not None
        return total / len(self.shells)
