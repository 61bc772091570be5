"""What attacks found on some samples in one ball: each, and the best of each sample."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound import metrics
from attribound.attacks import Attack
from attribound.attributions import Attribution
from attribound.auditing.claimed import Row, unstacked
from attribound.balls import LpBall
from attribound.basics.tensors import per_example
from attribound.results import Attacked


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
    prey: Prey, ball: LpBall, attacks: dict[str, Attack], bound: Tensor
) -> tuple[list[Row], Best | None]:
    """The columns of every attack and of the best, a row a sample; none without attacks.

    Repeats beyond ``bound``, one value a sample, are counted.
    """
    rows: list[Row] = [{} for _ in prey.x]
    best: Best | None = None
    for name, attack in attacks.items():
        start = time.perf_counter()
        found = attack(prey.attribution, prey.x, ball, prey.target)
        seconds = (time.perf_counter() - start) / len(prey.x)
        after = prey.attribution(prey.x + found.delta, prey.target)
        assert found.label_kept is not None  # attributions of an audit know their classifier
        similarity = _similarity(prey, after)
        own = {
            "": found.deviation,
            "_label_kept": found.label_kept,
            **{f"_{key}": value for key, value in similarity.items()},
            **_repeated(prey, found, bound, similarity["kendall"]),
        }
        here = Best(found.delta, after, found.deviation, own["_degrees"])
        wins = [True] * len(rows) if best is None else (here.deviation > best.deviation).tolist()
        best = here if best is None else _better(best, here)
        kept_none = (own["_kept"] == 0).tolist()
        for i, (row, columns, won) in enumerate(zip(rows, unstacked(own), wins, strict=True)):
            if kept_none[i]:
                columns["_kept_mean"] = columns["_kept_mean_degrees"] = None
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


def _repeated(prey: Prey, found: Attacked, bound: Tensor, kendall: Tensor) -> dict[str, Tensor]:
    """Over all repeats of an attack, and over those that kept the label."""
    trials = found.trials or (found,)
    deviations, degrees = (
        torch.stack([getattr(trial, field) for trial in trials])
        for field in ("deviation", "degrees")
    )
    kept = torch.stack([trial.label_kept for trial in trials if trial.label_kept is not None])
    outside = deviations > bound
    count = kept.sum(0)
    if len(trials) > 1:
        kendall = torch.stack([_kendall(prey, trial.delta) for trial in trials]).mean(0)
    return {
        "_mean": deviations.mean(0),
        "_degrees": degrees.amax(0),
        "_mean_degrees": degrees.mean(0),
        "_mean_kendall": kendall,
        "_repeats": torch.full_like(count, len(trials)),
        "_outside": outside.sum(0),
        "_kept": count,
        "_kept_outside": (outside & kept).sum(0),
        "_kept_mean": (deviations * kept).sum(0) / count.clamp(min=1),
        "_kept_mean_degrees": (degrees * kept).sum(0) / count.clamp(min=1),
    }


def _kendall(prey: Prey, delta: Tensor) -> Tensor:
    after = prey.attribution(prey.x + delta, prey.target)
    return metrics.kendall(prey.clean.abs(), after.abs())


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
