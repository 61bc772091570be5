"""The rows of one block: an audit with each copy of the network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar

import pyarrow as pa
import torch
from torch import Tensor

import attribound as ab
from attribound.attacks import Attack
from attribound.basics.tensors import norm
from attribound.results import Attacked
from claims.store import COPIED, MEASURED_BY
from relu.networks import chosen, model_of, recognised
from relu.plan import ATTRIBUTIONS, COPIES, Block, Effort, effort

_PILOT = 16  # examples on which a beta is chosen, as in audits


@dataclass(frozen=True)
class Once(Attack):
    """An attack on the network itself, which is the same whatever copy is bounded: made once.

    What was found is kept until :func:`forget`, for one network.
    """

    attack: Attack

    def seeded(self, seed: int) -> Attack:
        """The same with ``seed`` added to the attack's."""
        return Once(self.attack.seeded(seed))

    def applies(self, ball: ab.Ball) -> bool:
        """Where the attack is made."""
        return self.attack.applies(ball)

    def __call__(
        self, attribution: ab.Attribution, x: Tensor, ball: ab.Ball, target: Any = None
    ) -> Attacked:
        """What was found before for these, or now."""
        what = (self.attack, ball, attribution.recipe())
        asked = json.dumps([ab.to_spec(each, whole=True) for each in what], sort_keys=True)
        key = (asked, x.numpy().tobytes(), target.numpy().tobytes())
        if key not in _found:
            _found[key] = self.attack(attribution, x, ball, target)
        return _found[key]


_found: dict[tuple[str, bytes, bytes], Attacked] = {}


@dataclass(frozen=True)
class OfCopy(ab.Certified):
    """The certificate of the copy; that of the network itself has a table of its own."""

    of_kinked: ClassVar[bool] = False


def through_copy(method: Any) -> Any:
    """``method``, asked about the copy alone."""
    if type(method) is not ab.Certified:
        return method
    return OfCopy(**{each.name: getattr(method, each.name) for each in fields(method)})


@cache
def auto(network: str, attribution: str, seed: int) -> ab.ChosenBeta:
    """The beta that ``smooth="auto"`` stands for, on a pilot of the data."""
    pilot = chosen(network, seed).x[:_PILOT]
    return ab.choose_beta(model_of(network), pilot, [ATTRIBUTIONS[attribution]])


def beta_of(copy: str, block: Block, seed: int) -> float:
    """How sharp a copy is."""
    given = COPIES[copy]
    return auto(block.network, block.attribution, seed).beta if given is None else given


def places(block: Block) -> list[int]:
    """Places among the chosen examples: tests at even, calibration at odd ones, never both."""
    return [2 * i + (block.role == "calibration") for i in block.examples]


def described(block: Block, copy: str, seed: int) -> str:
    """Everything that the rows of a copy depend on, beside the examples."""
    made = effort(block.network, block.attribution, block.role)
    known = {
        "attribound": MEASURED_BY,
        "torch": torch.__version__,
        "network": recognised(block.network),
        "seed": seed,
        "smooth": copy,
    }
    return json.dumps(known | ab.to_spec(options(block, made), whole=True), sort_keys=True)


def options(block: Block, made: Effort) -> dict[str, Any]:
    """What an audit is told, beside the copy."""
    return {
        "attributions": [ATTRIBUTIONS[block.attribution]],
        "balls": [block.ball],
        "claims": [*made.claims],
        "attacks": {**made.attacks},
        "own_attacks": {**made.own_attacks},
    }


def measure(block: Block, seed: int) -> pa.Table:
    """The rows of one block; an example that failed is there with its error."""
    _found.clear()
    known: dict[float, list[dict[str, Any]]] = {}
    table = []
    for copy in block.copies:
        beta = beta_of(copy, block, seed)
        if beta not in known:
            known[beta] = _audited(block, beta, seed)
        own = {"settings": described(block, copy, seed), "smooth": copy, "beta": beta}
        if COPIES[copy] is None:
            own["tried"] = _tried(auto(block.network, block.attribution, seed))
        table += [{**row, **own} for row in known[beta]]
    return pa.Table.from_pylist(table, COPIED)


def _audited(block: Block, beta: float, seed: int) -> list[dict[str, Any]]:
    data, at = chosen(block.network, seed), places(block)
    x, labels, model = data.x[at], data.labels[at], model_of(block.network)
    told = options(block, effort(block.network, block.attribution, block.role))
    told["claims"] = [through_copy(method) for method in told["claims"]]
    told["own_attacks"] = {name: Once(attack) for name, attack in told["own_attacks"].items()}
    run = ab.audit(model, (x, labels), smooth=beta, batch=len(x), maps="none", **told)
    lengths = norm(ATTRIBUTIONS[block.attribution].of(model)(x, labels)).tolist()
    common = {"network": block.network, "role": block.role, "accuracy": data.accuracy}
    found: list[dict[str, Any]] = run.rows().to_pylist()  # in the order of the examples
    for row, place, index, length in zip(
        found, block.examples, data.index[at].tolist(), lengths, strict=True
    ):
        row |= {**common, "place": place, "sample": index, "own_norm": length}
    return found


def _tried(found: ab.ChosenBeta) -> str:
    figures: Mapping[str, Any] = {
        f"{beta:g}": {"labels": agree, "degrees": angle}
        for beta, (agree, angle) in found.tried.items()
    }
    return json.dumps({"close": found.close, "pilot": found.pilot, "tried": figures})
