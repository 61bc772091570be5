"""What attacks found on some samples in one ball: each, and the best of each sample."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound import metrics
from attribound.attacks import Attack
from attribound.attributions import Attribution
from attribound.balls import LpBall
from attribound.evaluation.claimed import Row, unstacked
from attribound.tensors import per_example


@dataclass(frozen=True, eq=False)
class Best:
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


def attack_columns(
    prey: Prey, ball: LpBall, attacks: dict[str, Attack]
) -> tuple[list[Row], Best | None]:
    """The columns of every attack and of the best, a row a sample; none without attacks."""
    rows: list[Row] = [{} for _ in prey.x]
    best: Best | None = None
    for name, attack in attacks.items():
        start = time.perf_counter()
        found = attack(prey.attribution, prey.x, ball, prey.target)
        seconds = (time.perf_counter() - start) / len(prey.x)
        trials = found.trials or (found,)
        deviations, degrees = (
            torch.stack([getattr(trial, field) for trial in trials])
            for field in ("deviation", "degrees")
        )
        after = prey.attribution(prey.x + found.delta, prey.target)
        assert found.label_kept is not None  # attributions of an audit know their classifier
        own = {
            "": found.deviation,
            "_mean": deviations.mean(0),
            "_degrees": degrees.amax(0),
            "_mean_degrees": degrees.mean(0),
            "_label_kept": found.label_kept,
            **{f"_{key}": value for key, value in _similarity(prey, after).items()},
        }
        here = Best(found.delta, after, found.deviation, degrees.amax(0))
        wins = [True] * len(rows) if best is None else (here.deviation > best.deviation).tolist()
        best = here if best is None else _better(best, here)
        for row, columns, won in zip(rows, unstacked(own), wins, strict=True):
            row |= {f"attack_{name}{suffix}": value for suffix, value in columns.items()}
            row[f"attack_{name}_evaluations"] = found.evaluations
            row[f"attack_{name}_seconds"] = seconds
            if won:
                row |= {
                    "attack": columns[""],
                    "attack_by": name,
                    "attack_label_kept": columns["_label_kept"],
                    "kendall": columns["_kendall"],
                    "topk": columns["_topk"],
                }
    if best is not None:
        for row, angle in zip(rows, best.degrees.tolist(), strict=True):
            row["attack_degrees"] = angle
    return rows, best


def _similarity(prey: Prey, after: Tensor) -> dict[str, Tensor]:
    """Of sizes, as people look at maps."""
    before, now = (metrics.maps(g, absolute=True) for g in (prey.clean, after))
    return {
        "kendall": metrics.kendall(before, now),
        "topk": metrics.top_k_intersection(before, now, prey.k),
    }


def _better(one: Best, other: Best) -> Best:
    wins = other.deviation > one.deviation
    wide = per_example(wins, one.delta)
    return Best(
        delta=torch.where(wide, other.delta, one.delta),
        attacked_map=torch.where(wide, other.attacked_map, one.attacked_map),
        deviation=torch.maximum(one.deviation, other.deviation),
        degrees=torch.maximum(one.degrees, other.degrees),
    )
