"""The numbers of a model at one place of the paper's tables, from the runs that have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reproduction.paper.items import DENSE, METHODS, RunSpec
from reproduction.paper.numbers import cell_of, paper_numbers, strong_numbers
from reproduction.paper.plan import Plan
from reproduction.paper.runs import Runs
from reproduction.paper.statistics import Numbers
from reproduction.paper.values import radius

Protocol = Literal["paper", "strong"]


@dataclass(frozen=True)
class Place:
    """Where in the tables: data, norm, radius as printed, attribution."""

    data: str
    norm: str
    epsilon: str
    attribution: str = "ig"

    @property
    def key(self) -> str:
        """As ``paper_values.json`` has it."""
        return f"{self.data}/{self.norm}/{self.epsilon}/{self.attribution}"

    def spec(self, model: str, protocol: Protocol) -> RunSpec:
        """The run that has it."""
        if self.attribution == "ig":
            return RunSpec(self.data, model, protocol)
        return RunSpec(self.data, model, "methods" if protocol == "paper" else "methods-strong")


def numbers(
    runs: Runs, place: Place, model: str, protocol: Protocol, *, label: bool = True
) -> tuple[Numbers, str]:
    """Our numbers, and the reason if there are none."""
    spec = place.spec(model, protocol)
    table = runs.table(spec)
    if table is None:
        return {}, runs.why(spec)
    ball = (place.attribution, place.norm, radius(place.epsilon))
    cell = cell_of(table, *ball)
    if cell is None:
        return {}, no_radius(place.epsilon)
    dense = None if place.attribution != "ig" else runs.table(RunSpec(place.data, model, DENSE))
    theorem = None if dense is None else cell_of(dense, *ball)
    if protocol == "paper":
        return paper_numbers(cell, theorem, label=label), ""
    theirs = runs.table(place.spec(model, "paper"))
    own = None if theirs is None else cell_of(theirs, *ball)
    return strong_numbers(cell, own, theorem, label=label), ""


def no_radius(epsilon: str) -> str:
    """Why a run that is there has no numbers of a ball."""
    return f"no radius {epsilon} in its run"


def models_of(plan: Plan, data: str) -> tuple[str, ...]:
    """All models that the paper or the plan has for some data, in the order of the tables."""
    planned = plan.data[data].models if data in plan.data else {}
    return (*METHODS, *(model for model in planned if model not in METHODS))


def title_of(model: str) -> str:
    """What the paper calls a model; those it does not have by their key."""
    return METHODS.get(model, model.upper())
