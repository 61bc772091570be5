"""The numbers of one cell of the paper's tables, from the rows of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attribound.auditing import Cell, cells
from reproduction.paper.statistics import (
    Numbers,
    Values,
    known,
    largest,
    least,
    mean,
    share,
    with_error,
)

UNDEFINED = 180.0
_CLOSE = 1e-9
#: Of a sample: how far and by which angle it was moved at most, and Kendall where it is furthest.
_FURTHEST = {"attack": "deviation", "attack_degrees": "degrees", "kendall": "kendall"}


def cell_of(table: pa.Table, attribution: str, norm: str, epsilon: float) -> Cell | None:
    """The rows of one kind of attribution (``ig``, whatever its settings) in one ball."""
    kinds = pc.list_element(pc.split_pattern(table["attribution"], ":"), 0)
    near = pc.less(pc.abs(pc.subtract(table["epsilon"], epsilon)), _CLOSE)
    wanted = pc.and_(pc.equal(kinds, attribution), pc.and_(pc.equal(table["ball"], norm), near))
    found = cells(table.filter(wanted))
    return found[0] if found else None


def measured(cell: Cell) -> Cell:
    """The samples of a cell that did not fail."""
    return replace(cell, rows=cell.rows.filter(pc.is_null(cell.rows["error"])))


def paper_numbers(cell: Cell, dense: Cell | None = None, *, label: bool) -> Numbers:
    """A cell under the paper's protocol: means over repeats, then over samples.

    Args:
        cell: of one attribution and ball.
        dense: the same with Theorem 2 itself, of fewer samples; see :func:`with_dense`.
        label: count only repeats that kept the label.

    ``n`` are samples with a bound, ``n_attack`` those that were attacked. ``exceeded`` are
    per cents of repeats beyond T_e, ``exceeded_samples`` of samples with such a repeat, and
    ``exceeded_adjusted`` of samples whose furthest repeat is beyond T'_e (with ``label``: if it
    kept the label). IFIA stays at the input where it finds nothing that keeps the label: such
    samples are ``still``, and in no number of the attack.
    """
    fine = measured(cell)
    if not len(fine):
        return {"n": 0.0, "errors": float(len(cell))}
    bound, adjusted = fine.bound("first_order"), fine.bound("adjusted")
    theorem = with_dense(fine, dense)
    bound = bound if theorem is None else theorem
    found: Numbers = {
        "errors": float(len(cell) - len(fine)),
        **_bounds(fine, bound, adjusted),
        **_certificate(fine, theorem),
    }
    attack = _made(fine)
    if attack is None:
        return {**found, "n_attack": 0.0}
    deviation = fine.attack(attack)
    still = deviation == 0
    every = _Trials(fine, attack, still)
    counted = every.kept() if label else every
    moved = counted.mean("deviation")
    exceeded = counted.beyond(bound)
    judged = np.where(np.isnan(bound), 0.0, counted.count)
    furthest = np.where(still, np.nan, deviation)
    if label:
        furthest = np.where(fine.attack(attack, "label_kept") > 0, furthest, np.nan)
    return {
        **found,
        "n_attack": float(len(known(deviation))),
        "attacks": float(every.count.sum()),
        **with_error("attack", moved),
        "still": float(still.sum()),
        **with_error("attack_degrees", _defined(counted.mean("degrees"))),
        **with_error("kendall", every.mean("kendall")),
        **share("exceeded", exceeded.sum(), judged.sum(), (judged > 0).sum()),
        **share("exceeded_samples", (exceeded > 0).sum(), (judged > 0).sum()),
        **_exceeded("exceeded_adjusted", furthest, adjusted),
        **_beyond_certificate(fine, theorem, furthest),
        "gap": least(bound - moved),
        "gap_adjusted": least(adjusted - moved),
        "labels_kept": share("", every.kept().count.sum(), every.count.sum())[""],
    }


def strong_numbers(
    cell: Cell, paper: Cell | None, dense: Cell | None = None, *, label: bool
) -> Numbers:
    """The same cell under all attacks, ours and the paper's: the furthest of each sample.

    Args:
        cell: of one attribution and ball, from runs with our attacks.
        paper: that with the paper's own bounds and attack for the same samples; where it has
            none, those of the run count.
        dense: with Theorem 2 itself; see :func:`with_dense`.
        label: count only what kept the label.
    """
    fine = measured(cell)
    if not len(fine):
        return {"n": 0.0, "errors": float(len(cell))}
    found = _label_kept(fine) if label else _any_label(fine)
    bound, adjusted = fine.bound("first_order"), fine.bound("adjusted")
    if paper is not None:
        own = _aligned(fine, paper)
        counts = (own["attack"] > 0) & ((own["label_kept"] > 0) | (not label))
        found = _further(found, {name: np.where(counts, own[name], np.nan) for name in _FURTHEST})
        bound = np.where(np.isnan(own["first_order"]), bound, own["first_order"])
        adjusted = np.where(np.isnan(own["adjusted"]), adjusted, own["adjusted"])
    certificate, theorem = bound, with_dense(fine, dense)
    bound = bound if theorem is None else theorem
    furthest = found["attack"]
    numbers: Numbers = {
        "errors": float(len(cell) - len(fine)),
        "n_attack": float(len(known(fine.strongest("deviation")))),
        "attacks": float(sum(len(t) for name in fine.attacks for t in fine.repeats(name))),
        **with_error("attack", furthest),
        **with_error("attack_degrees", _defined(found["attack_degrees"])),
        **with_error("kendall", found["kendall"]),
        **_exceeded("exceeded", furthest, bound),
        **_exceeded("exceeded_adjusted", furthest, adjusted),
        "worst_factor": largest(furthest / bound),
        "gap": least(bound - furthest),
        "gap_adjusted": least(adjusted - furthest),
        **_bounds(fine, bound, adjusted),
    }
    if theorem is not None:
        numbers |= with_error("certificate", certificate)
        numbers |= _exceeded("exceeded_certificate", furthest, certificate)
    if "mean_value" in fine.claims:
        value = fine.bound("mean_value")
        numbers |= with_error("mean_value", value)
        numbers |= _exceeded("exceeded_mean_value", furthest, value)
    return numbers


def with_dense(cell: Cell, dense: Cell | None) -> Values | None:
    """Theorem 2 for the samples of a cell that have it; None if none has.

    Elsewhere it is NaN: the certificate is below it, and a mean of both would be of nothing.
    """
    if dense is None or not len(fine := measured(dense)):
        return None
    place = dict(zip(fine.samples, fine.bound("first_order"), strict=True))
    values = np.array([place.get(sample, np.nan) for sample in cell.samples])
    return values if len(known(values)) else None


def _certificate(cell: Cell, theorem: Values | None) -> Numbers:
    """The dual certificate of all samples beside Theorem 2 of few, and their ratio."""
    if theorem is None:
        return {}
    own = cell.bound("first_order")
    return {
        **with_error("certificate", own),
        "n_certificate": float(len(known(own))),
        **with_error("theorem_by_certificate", theorem / own),
    }


def _beyond_certificate(cell: Cell, theorem: Values | None, furthest: Values) -> Numbers:
    if theorem is None:
        return {}
    return _exceeded("exceeded_certificate", furthest, cell.bound("first_order"))


def column(rows: pa.Table, name: str) -> Values:
    """A column as doubles, null as NaN."""
    values: Values = pc.cast(rows[name], pa.float64()).to_numpy().astype(np.float64)
    return values


class _Trials:
    """All repeats of an attack, sample by sample; none of samples where it stayed at the input."""

    def __init__(self, cell: Cell, attack: str, still: Values) -> None:
        repeats = cell.repeats(attack)
        self._own = [[] if out else own for own, out in zip(repeats, still, strict=True)]

    def kept(self) -> _Trials:
        """Those that kept the label."""
        found = object.__new__(_Trials)
        found._own = [[trial for trial in own if trial["label_kept"]] for own in self._own]
        return found

    @property
    def count(self) -> Values:
        return np.array([float(len(own)) for own in self._own])

    def mean(self, field: str) -> Values:
        """Over the repeats of each sample; NaN without any."""
        known = ([t[field] for t in own if t[field] is not None] for own in self._own)
        return np.array([float(np.mean(values)) if values else np.nan for values in known])

    def beyond(self, bound: Values) -> Values:
        """How many moved the sample further than its bound."""
        pairs = zip(self._own, bound, strict=True)
        return np.array([float(sum(t["deviation"] > most for t in own)) for own, most in pairs])


def _bounds(cell: Cell, bound: Values, adjusted: Values) -> Numbers:
    """What is known without attacks."""
    there = ~np.isnan(bound)
    bound, size = bound[there], cell.numbers("attribution_norm")[there]
    if not len(bound):
        return {"n": 0.0}
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = bound / size
    angles = np.where(ratio < 1, np.degrees(np.arcsin(np.minimum(ratio, 1))), UNDEFINED)
    whole = bound.mean() / size.mean() if size.mean() > 0 else math.inf
    return {
        "n": float(len(bound)),
        **with_error("bound", bound),
        **with_error("adjusted", adjusted),
        **with_error("bound_degrees", _defined(angles)),
        "undefined": float((angles >= UNDEFINED).sum()),
        # As the paper has it: the arc sine of one ratio of means.
        "aggregate_degrees": float(np.degrees(np.arcsin(whole))) if whole < 1 else UNDEFINED,
        **with_error("relative", ratio[np.isfinite(ratio)]),
        "attribution_norm": mean(size),
    }


def _made(cell: Cell) -> str | None:
    """The attack that was made in this ball, on what was bounded; None if there is none yet."""
    made = _on_bounded(cell)
    assert len(made) < 2, made  # the paper has one for each norm
    return made[0] if made else None


def _on_bounded(cell: Cell) -> list[str]:
    bounded = "copy" if cell.has_copy else "yours"
    return [name for name in cell.attacks if cell.attacked(name) in (bounded, None)]


def _any_label(cell: Cell) -> dict[str, Values]:
    return {name: cell.strongest(field) for name, field in _FURTHEST.items()}


def _label_kept(cell: Cell) -> dict[str, Values]:
    """The same by attacks that kept the label; NaN where none did.

    One that stayed at the input kept it, but found nothing.
    """
    found = {name: np.full(len(cell), np.nan) for name in _FURTHEST}
    for attack in _on_bounded(cell):
        counts = (cell.attack(attack, "label_kept") > 0) & (cell.attack(attack) > 0)
        own = {name: cell.attack(attack, field) for name, field in _FURTHEST.items()}
        found = _further(found, {n: np.where(counts, each, np.nan) for n, each in own.items()})
    return found


def _further(one: Mapping[str, Values], other: Mapping[str, Values]) -> dict[str, Values]:
    wins = np.isnan(one["attack"]) | (other["attack"] > one["attack"])
    return {
        "attack": np.fmax(one["attack"], other["attack"]),
        "attack_degrees": np.fmax(one["attack_degrees"], other["attack_degrees"]),
        "kendall": np.where(wins, other["kendall"], one["kendall"]),
    }


def _aligned(cell: Cell, other: Cell) -> Mapping[str, Values]:
    """Bounds and strongest attack of ``other`` for the samples of ``cell``; NaN without."""
    place = {sample: i for i, sample in enumerate(other.samples)}
    order = [place.get(sample, -1) for sample in cell.samples]
    own = {
        "first_order": other.bound("first_order"),
        "adjusted": other.bound("adjusted"),
        "label_kept": other.strongest("label_kept"),
        **_any_label(other),
    }
    return {name: np.append(values, np.nan)[order] for name, values in own.items()}


def _exceeded(name: str, furthest: Values, bound: Values) -> Numbers:
    """Per cent of the samples that have both."""
    both = ~np.isnan(furthest) & ~np.isnan(bound)
    return share(name, (furthest > bound)[both].sum(), both.sum())


def _defined(angles: Values) -> Values:
    return angles[angles < UNDEFINED]
