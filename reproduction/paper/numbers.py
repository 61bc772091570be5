"""The numbers of one cell of the paper's tables, from the rows of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribound.auditing.rows import attacks_in

Values = npt.NDArray[np.float64]
#: What a cell can say; None where there is nothing to say it from.
Numbers = dict[str, float | None]
UNDEFINED = 180.0
_CLOSE = 1e-9
#: Of a sample: how far and by which angle it was moved at most, and Kendall where it is furthest.
_FURTHEST = ("attack", "attack_degrees", "kendall")


def rows_of(table: pa.Table, attribution: str, norm: str, epsilon: float) -> pa.Table:
    """The rows of one kind of attribution (``ig``, whatever its settings) in one ball."""
    kinds = pc.list_element(pc.split_pattern(table["attribution"], ":"), 0)
    near = pc.less(pc.abs(pc.subtract(table["epsilon"], epsilon)), _CLOSE)
    wanted = pc.and_(pc.equal(kinds, attribution), pc.and_(pc.equal(table["norm"], norm), near))
    return table.filter(wanted).sort_by("sample")


def paper_numbers(rows: pa.Table, *, label: bool) -> Numbers:
    """A cell under the paper's protocol: means over repeats, then over samples.

    Args:
        rows: of one attribution and ball.
        label: count only repeats that kept the label.

    ``outside`` are per cents of repeats beyond T_e, ``outside_samples`` of samples with such a
    repeat, and ``outside_adjusted`` of samples whose furthest repeat is beyond T'_e (with
    ``label``: if it kept the label). IFIA stays at the input where it finds nothing that keeps
    the label: such samples are ``still``, and in no number of the attack.
    """
    fine = rows.filter(pc.is_null(rows["error"]))
    if not fine.num_rows:
        return {"n": 0.0, "errors": float(rows.num_rows)}
    attack = _made(fine)
    kept = "_kept" if label else ""
    still = column(fine, attack) == 0

    def of_attack(end: str) -> Values:
        return np.where(still, np.nan, column(fine, f"{attack}{end}"))

    mean = of_attack(f"{kept}_mean")
    repeats = of_attack("_kept" if label else "_repeats")
    outside = of_attack(f"{kept}_outside")
    furthest = of_attack("")
    if label:
        furthest = np.where(column(fine, f"{attack}_label_kept") > 0, furthest, np.nan)
    bound, adjusted = column(fine, "first_order"), column(fine, "adjusted")
    return {
        "errors": float(rows.num_rows - fine.num_rows),
        "attack": _mean(mean),
        "still": float(still.sum()),
        "attack_degrees": _mean(_defined(of_attack(f"{kept}_mean_degrees"))),
        "kendall": _mean(of_attack("_mean_kendall")),
        "outside": _percent(np.nansum(outside), np.nansum(repeats)),
        "outside_samples": _percent((outside > 0).sum(), (repeats > 0).sum()),
        "outside_adjusted": _percent((furthest > adjusted).sum(), _count(furthest)),
        "gap": _least(bound - mean),
        "gap_adjusted": _least(adjusted - mean),
        "labels_kept": _percent(np.nansum(of_attack("_kept")), np.nansum(of_attack("_repeats"))),
        **_bounds(fine, bound, adjusted),
    }


def strong_numbers(rows: pa.Table, paper: pa.Table | None, *, label: bool) -> Numbers:
    """The same cell under all attacks, ours and the paper's: the furthest of each sample.

    Args:
        rows: of one attribution and ball, from a run with the strong protocol.
        paper: the rows with the paper's own T_e and attack for the same samples; None to take
            the run's, where T_e in the cube is the tighter dual certificate.
        label: count only what kept the label.
    """
    fine = rows.filter(pc.is_null(rows["error"]))
    if not fine.num_rows:
        return {"n": 0.0, "errors": float(rows.num_rows)}
    found = _label_kept(fine) if label else _any_label(fine)
    bound, adjusted = column(fine, "first_order"), column(fine, "adjusted")
    if paper is not None:
        own = _aligned(fine, paper, ("first_order", "adjusted", "attack_label_kept", *_FURTHEST))
        counts = (own["attack"] > 0) & ((own["attack_label_kept"] > 0) | (not label))
        found = _further(found, {name: np.where(counts, own[name], np.nan) for name in _FURTHEST})
        bound = np.where(np.isnan(own["first_order"]), bound, own["first_order"])
        adjusted = np.where(np.isnan(own["adjusted"]), adjusted, own["adjusted"])
    furthest = found["attack"]
    cell: Numbers = {
        "errors": float(rows.num_rows - fine.num_rows),
        "attack": _mean(furthest),
        "attack_degrees": _mean(_defined(found["attack_degrees"])),
        "kendall": _mean(found["kendall"]),
        "outside": _percent((furthest > bound).sum(), _count(furthest)),
        "outside_adjusted": _percent((furthest > adjusted).sum(), _count(furthest)),
        "worst_factor": _largest(furthest / bound),
        "gap": _least(bound - furthest),
        "gap_adjusted": _least(adjusted - furthest),
        **_bounds(fine, bound, adjusted),
    }
    if "mean_value" in fine.column_names:
        value = column(fine, "mean_value")
        cell["mean_value"] = _mean(value)
        cell["outside_mean_value"] = _percent((furthest > value).sum(), _count(furthest))
    return cell


def column(rows: pa.Table, name: str) -> Values:
    """A column as doubles, null as NaN."""
    values: Values = pc.cast(rows[name], pa.float64()).to_numpy().astype(np.float64)
    return values


def _bounds(rows: pa.Table, bound: Values, adjusted: Values) -> Numbers:
    """What is known without attacks."""
    size = column(rows, "attribution_norm")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = bound / size
    angles = np.where(ratio < 1, np.degrees(np.arcsin(np.minimum(ratio, 1))), UNDEFINED)
    whole = bound.mean() / size.mean() if size.mean() > 0 else math.inf
    return {
        "n": float(rows.num_rows),
        "bound": _mean(bound),
        "adjusted": _mean(adjusted),
        "bound_degrees": _mean(_defined(angles)),
        "undefined": float((angles >= UNDEFINED).sum()),
        # As the paper has it: the arc sine of one ratio of means.
        "aggregate_degrees": float(np.degrees(np.arcsin(whole))) if whole < 1 else UNDEFINED,
        "relative": _mean(ratio[np.isfinite(ratio)]),
        "attribution_norm": _mean(size),
    }


def _made(rows: pa.Table) -> str:
    """The columns of the attack that was made in this ball."""
    made = [
        f"attack_{name}"
        for name in attacks_in(rows.column_names)
        if rows[f"attack_{name}"].null_count < rows.num_rows
    ]
    assert len(made) == 1, made  # the paper has one for each norm
    return made[0]


def _any_label(rows: pa.Table) -> dict[str, Values]:
    return {name: column(rows, name) for name in _FURTHEST}


def _label_kept(rows: pa.Table) -> dict[str, Values]:
    """The same by attacks that kept the label; NaN where none did.

    One that stayed at the input kept it, but found nothing.
    """
    found = {name: np.full(rows.num_rows, np.nan) for name in _FURTHEST}
    for attack in attacks_in(rows.column_names):
        stem = f"attack_{attack}"
        counts = (column(rows, f"{stem}_label_kept") > 0) & (column(rows, stem) > 0)
        names = zip(_FURTHEST, (stem, f"{stem}_degrees", f"{stem}_kendall"), strict=True)
        found = _further(
            found, {name: np.where(counts, column(rows, own), np.nan) for name, own in names}
        )
    return found


def _further(one: Mapping[str, Values], other: Mapping[str, Values]) -> dict[str, Values]:
    wins = np.isnan(one["attack"]) | (other["attack"] > one["attack"])
    return {
        "attack": np.fmax(one["attack"], other["attack"]),
        "attack_degrees": np.fmax(one["attack_degrees"], other["attack_degrees"]),
        "kendall": np.where(wins, other["kendall"], one["kendall"]),
    }


def _aligned(rows: pa.Table, other: pa.Table, names: tuple[str, ...]) -> Mapping[str, Values]:
    """Columns of ``other`` for the samples of ``rows``; NaN where it does not have them."""
    samples = other["sample"].to_pylist()
    place = {sample: i for i, sample in enumerate(samples)}
    order = [place.get(sample, -1) for sample in rows["sample"].to_pylist()]
    return {name: np.append(column(other, name), np.nan)[order] for name in names}


def _defined(angles: Values) -> Values:
    return angles[angles < UNDEFINED]


def _count(values: Values) -> int:
    return int((~np.isnan(values)).sum())


def _mean(values: Values) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _least(values: Values) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.min()) if len(known) else None


def _largest(values: Values) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else None


def _percent(part: float, whole: float) -> float | None:
    return 100.0 * float(part) / float(whole) if whole else None
