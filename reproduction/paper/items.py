"""What the paper shows, and which runs each of it is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reproduction.paper.runs import Runs

#: What the bound in l2 costs, without attacks.
COST = "cost"
#: Theorem 2 itself, which takes the dense Jacobian: fewer samples than the certificate has.
DENSE = "dense"
#: Attacks that climb the attribution itself, and a cheaper rule in its place with more steps.
CHEAPER = "cheaper"
#: Bounds that need neither linearity nor a search.
CERTIFIED = "certified"
#: A proof by noise, of the averaged map.
SMOOTHED = "smoothed"
#: Audits by the paper's attacks and by ours, of integrated gradients; the same of the other
#: attributions of Table 2; and small measurements of rules, Jacobians and remainders.
AUDITS = (
    "paper",
    "strong",
    "methods",
    "methods-strong",
    COST,
    DENSE,
    CHEAPER,
    CERTIFIED,
    SMOOTHED,
)
QUADRATURE = "quadrature"
RECORDS = ("jacobian", "eta", QUADRATURE)
#: What the paper calls the models, in the order of its tables; the first is in none but one.
METHODS = {
    "ce": "CE",
    "at": "AT",
    "ig-norm": "IG-NORM",
    "advaat": "AdvAAT",
    "art": "ART",
    "trades": "TRADES",
    "trades-igr": "TRADES+IGR",
}
#: Those, and the full network of standard training that others publish.
MODELS = (*METHODS, "ce-full")
#: What the paper calls the data sets of its main tables.
DATA = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}


@dataclass(frozen=True)
class RunSpec:
    """What is measured of which model on which data.

    Attributes:
        data: key of the data in the plan, e.g. ``fashion-mnist``.
        model: key of the model in the plan, e.g. ``trades-igr``; :data:`METHODS` has the
            paper's names.
        part: one of ``AUDITS`` or ``RECORDS``; one or several kinds of the plan make it.
    """

    data: str
    model: str
    part: str

    @property
    def name(self) -> str:
        """For messages, e.g. ``fashion-mnist/trades-igr/paper``."""
        return f"{self.data}/{self.model}/{self.part}"


@dataclass(frozen=True)
class Item:
    """One table or figure.

    Attributes:
        name: on the command line, e.g. ``table3``.
        title: what it shows.
        needs: the runs it is made from; one that is missing leaves a gap, not a failure.
        make: writes its files into a folder and returns them.
    """

    name: str
    title: str
    needs: tuple[RunSpec, ...]
    make: Callable[[Runs, Path], list[Path]]
