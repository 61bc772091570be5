"""What attacks found on some samples in one ball: each, and the strongest of each sample."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attribound import metrics
from attribound.attacks import Attack, furthest
from attribound.attacks.judging import judge_all
from attribound.attributions import Attribution
from attribound.auditing.at_work import Say, silent
from attribound.auditing.bounded import Fields, unstacked
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.tensors import norm, per_example
from attribound.bounding.validation import evaluation_errors
from attribound.networks.inputs import Target
from attribound.results import Attacked

_TOLERANCE = 1e-4  # rounding, as for attribound.validate


@dataclass(frozen=True, eq=False)
class Furthest:
    """Of each sample the perturbation that moved its map furthest, and that map."""

    delta: Tensor
    attacked_map: Tensor
    deviation: Tensor
    degrees: Tensor


@dataclass(frozen=True, eq=False)
class Prey:
    """The samples under attack.

    Attributes:
        clean: their maps.
        k: of top-k.
    """

    attribution: Attribution
    x: Tensor
    target: Tensor
    clean: Tensor
    k: int


@dataclass(frozen=True, eq=False)
class Found:
    """What attacks found.

    Attributes:
        records: of every attack, for each sample.
        strongest: of each sample, None without attacks.
        best: the perturbations behind ``strongest``, None without attacks.
        deltas: the perturbations that each attack found.
        errors: what rounding may have added to the strongest deviation and, in degrees, to the
            largest angle of each sample.
    """

    records: list[list[Fields]]
    strongest: list[Fields | None]
    best: Furthest | None
    deltas: list[Tensor]
    errors: list[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Transferred(Attack):
    """Perturbations that were found elsewhere, judged here."""

    deltas: list[Tensor]

    def seeded(self, seed: int) -> Attack:  # noqa: ARG002
        """The same."""
        return self

    def __call__(
        self,
        attribution: Attribution,
        x: Tensor,
        ball: Ball,  # noqa: ARG002
        target: Target = None,
    ) -> Attacked:
        """Judge all of them."""
        labels = attribution.targets(x, target)
        judged = judge_all(attribution, x, self.deltas, labels, [0] * len(self.deltas))
        return judged[0] if len(judged) == 1 else furthest(judged)


def attack_all(
    prey: Prey, ball: Ball, attacks: Mapping[str, Attack], subject: str, say: Say = silent
) -> Found:
    """Make every attack; of each sample the one that moved its map furthest is the strongest.

    ``subject`` says whose maps these are.
    """
    deltas: list[Tensor] = []
    records: list[list[Fields]] = [[] for _ in prey.x]
    strongest: list[Fields | None] = [None for _ in prey.x]
    best: Furthest | None = None
    for name, attack in attacks.items():
        say(name)
        start = time.perf_counter()
        found = attack(prey.attribution, prey.x, ball, prey.target)
        seconds = (time.perf_counter() - start) / len(prey.x)
        _refuse_outside(name, prey, ball, found)
        after = _map_of(prey, found)
        repeats = _repeats(prey, found, after)
        largest = repeats["degrees"].amax(0)
        own = unstacked({**_furthest(prey, found, after), "degrees": largest})
        trials = [
            unstacked({key: value[:, i] for key, value in repeats.items()}) for i in range(len(own))
        ]
        deltas.append(found.delta)
        here = Furthest(found.delta, after, found.deviation, largest)
        wins = [True] * len(own) if best is None else (here.deviation > best.deviation).tolist()
        best = here if best is None else _better(best, here)
        for i, record in enumerate(own):
            records[i].append(
                {
                    "attack": name,
                    "subject": subject,
                    **record,
                    "evaluations": found.evaluations,
                    "seconds": seconds,
                    "repeats": trials[i],
                }
            )
            if wins[i]:
                strongest[i] = {"by": name, **record}
    errors = [(0.0, 0.0) for _ in prey.x]
    if best is not None:
        both = evaluation_errors(norm(prey.clean), best.deviation)
        errors = [(far, turned) for far, turned in torch.stack(both, 1).tolist()]
        for most, angle in zip(strongest, best.degrees.tolist(), strict=True):
            assert most is not None
            most["degrees"] = angle
    return Found(records, strongest, best, deltas, errors)


def _refuse_outside(name: str, prey: Prey, ball: Ball, found: Attacked) -> None:
    """Refuse perturbations that no bound speaks of: as :func:`validate` does."""
    for trial in found.trials or (found,):
        inside = ball.contains(trial.delta, prey.x, _TOLERANCE)
        if not inside.all():
            raise InputError(
                f"attack {name}",
                expected=f"perturbations in {ball}",
                got=f"{int((~inside).sum())} of {len(trial)} outside",
                remedy="let it project them: ball.project(delta, x)",
            )


def _furthest(prey: Prey, found: Attacked, after: Tensor) -> dict[str, Tensor]:
    """Of the repeat that moved furthest."""
    assert found.label_kept is not None  # attributions of an audit know their classifier
    before, now = (metrics.maps(g, absolute=True) for g in (prey.clean, after))
    return {
        "deviation": found.deviation,
        "label_kept": found.label_kept,
        "kendall": metrics.kendall(before, now),
        "topk": metrics.top_k_intersection(before, now, prey.k),
    }


def _repeats(prey: Prey, found: Attacked, after: Tensor) -> dict[str, Tensor]:
    """Of every repeat, ``(repeats, batch)``."""
    trials = found.trials or (found,)
    maps = [after] if len(trials) == 1 else [_map_of(prey, trial) for trial in trials]
    clean = prey.clean.abs()

    def stacked(field: str) -> Tensor:
        values: list[Any] = [getattr(trial, field) for trial in trials]
        return torch.stack(values)

    return {
        "deviation": stacked("deviation"),
        "degrees": stacked("degrees"),
        "kendall": torch.stack([metrics.kendall(clean, each.abs()) for each in maps]),
        "label_kept": stacked("label_kept"),
    }


def _map_of(prey: Prey, found: Attacked) -> Tensor:
    """The map that was judged; computed again only if the attack kept none."""
    if found.attacked_map is not None:
        return found.attacked_map
    return prey.attribution(prey.x + found.delta, prey.target)


def _better(one: Furthest, other: Furthest) -> Furthest:
    wins = other.deviation > one.deviation
    return Furthest(
        delta=torch.where(per_example(wins, one.delta), other.delta, one.delta),
        attacked_map=torch.where(
            per_example(wins, one.attacked_map), other.attacked_map, one.attacked_map
        ),
        deviation=torch.maximum(one.deviation, other.deviation),
        degrees=torch.maximum(one.degrees, other.degrees),
    )


def kept_maps(which: str, rows: list[Fields], prey: Prey, best: Furthest) -> list[Fields]:
    """Inputs and maps of ``all`` samples, or those that moved most, turned most, and typically."""
    if which == "none":
        return []
    chosen = list(range(len(rows)))
    if which == "some":
        order = best.deviation.argsort(stable=True).tolist()
        turned = int(best.degrees.argmax())
        chosen = sorted({order[-1], order[(len(order) - 1) // 2], turned})
    found: list[Fields] = []
    for i in chosen:
        tensors = {
            "input": prey.x[i],
            "clean_map": prey.clean[i],
            "delta": best.delta[i],
            "attacked_map": best.attacked_map[i],
        }
        row: Fields = {key: rows[i][key] for key in ("sample", "attribution", "ball", "epsilon")}
        row["shape"] = list(prey.x.shape[1:])
        row["map_shape"] = list(prey.clean.shape[1:])
        row |= {
            key: value.detach().cpu().float().flatten().tolist() for key, value in tensors.items()
        }
        found.append(row)
    return found
