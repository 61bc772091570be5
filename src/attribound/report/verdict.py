"""What a reader may conclude from a run, in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attribound.report.cells import Cell, Group
from attribound.report.claims import CLAIMS
from attribound.report.radius import Values
from attribound.results import Claim


@dataclass(frozen=True)
class ClaimVerdict:
    """One claim against all attacks; ``tone`` is good, bad or neutral."""

    title: str
    text: str
    tone: str


@dataclass(frozen=True)
class Verdict:
    """How far attacks came, what they say of each claim, and what limits the evidence."""

    paragraphs: tuple[str, ...]
    claims: tuple[ClaimVerdict, ...]
    notes: tuple[str, ...]


#: What follows from attacks that exceeded a claim, and from none.
_BROKEN = {
    Claim.FIRST_ORDER: "Here it is no guarantee: the attributions are not linear enough in these "
    "balls.",
    Claim.ADJUSTED: "Here it is no guarantee: two points of a ball do not show its worst.",
    Claim.CALIBRATED: "It may be exceeded on the share of samples it was calibrated for: compare "
    "the two.",
    Claim.MEAN_VALUE: "On these samples the search inside it missed the worst point: "
    "search longer.",
    Claim.CERTIFIED: "That must not happen: either the run was changed or attribound has an error; "
    "please report it.",
}
_HELD = {
    Claim.FIRST_ORDER: "That is evidence, no proof: it holds only where attributions are linear.",
    Claim.ADJUSTED: "That is evidence, no proof.",
    Claim.CALIBRATED: "It is promised for new samples like those it was calibrated on, and for the "
    "attack it was calibrated with.",
    Claim.MEAN_VALUE: "The theorem behind it is exact; that its search found the worst point is "
    "supported by these attacks, not proved.",
    Claim.CERTIFIED: "It is proved for every perturbation; the attacks agree.",
}


def verdict(groups: Sequence[Group], missing: int = 0) -> Verdict:
    """The verdict on the rows of ``groups``; ``missing`` samples were not audited yet."""
    names = dict.fromkeys(claim for group in groups for claim in group.claims)
    cells = [(group, cell) for group in groups for cell in group.cells]
    return Verdict(
        paragraphs=tuple(_attack(cells)),
        claims=tuple(
            _claim(name, [cell for group, cell in cells if name in group.claims]) for name in names
        ),
        notes=tuple(_notes([cell for _, cell in cells], missing)),
    )


def _attack(cells: Sequence[tuple[Group, Cell]]) -> list[str]:
    angles = [(group, cell, _defined(cell)) for group, cell in cells]
    attacked = [each for each in angles if np.isfinite(each[2]).any()]
    if not attacked:
        return ["No attack was made, so that nothing was held against the bounds."]
    group, cell, turned = max(attacked, key=lambda each: float(np.nanmax(each[2])))
    at = int(np.nanargmax(turned))
    text = (
        f"The strongest attack turned the explanation of sample {_samples(cell)[at]} by "
        f"{turned[at]:.1f}° ({_where(group, cell)}); half of the samples were turned by "
        f"{float(np.nanmedian(turned)):.1f}° or more there."
    )
    kept = np.concatenate([cell.numbers("attack_label_kept") for _, cell, _ in attacked])
    kept = kept[np.isfinite(kept)]
    if len(kept):
        text += (
            f" Over all settings, {kept.mean():.0%} of the perturbations that moved explanations "
            "furthest kept the prediction."
        )
    return [text]


def _claim(name: str, cells: Sequence[Cell]) -> ClaimVerdict:
    claim = CLAIMS[name]
    bounds = np.concatenate([cell.numbers(name) for cell in cells])
    attacks = np.concatenate([cell.numbers("attack") for cell in cells])
    broken = np.concatenate([cell.broken(name) for cell in cells])
    angles = np.concatenate([cell.numbers(f"{name}_degrees") for cell in cells])
    fine = np.array([error is None for cell in cells for error in cell.texts("error")])
    have = ~np.isnan(bounds)
    both = have & ~np.isnan(attacks)
    title = str(claim)
    if not have.any():
        return ClaimVerdict(title, "no bound could be computed.", "neutral")
    unlimited = int((angles[have] == 180).sum())
    tail = (
        f" {_of(unlimited, int(have.sum()))} leave the direction open (180°)." if unlimited else ""
    )
    absent = int((fine & ~have).sum())
    if absent:
        tail += f" {_of(absent, int(fine.sum()))} could not be computed."
    if not both.any():
        return ClaimVerdict(title, f"not held against any attack.{tail}", "neutral")
    count, n = int((broken & both).sum()), int(both.sum())
    if not count:
        return ClaimVerdict(
            title, f"no attack exceeded it ({n} bounds). {_HELD[claim]}{tail}", "good"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = float(np.nanmax((attacks / bounds)[broken & both]))
    text = (
        f"an attack exceeded {_of(count, n)}, at worst {factor:.3g} times over. "
        f"{_BROKEN[claim]}{tail}"
    )
    return ClaimVerdict(title, text, "neutral" if claim is Claim.CALIBRATED else "bad")


def _notes(cells: Sequence[Cell], missing: int) -> list[str]:
    notes = []
    if missing:
        notes.append(f"The run is not finished; samples missing: {missing}.")
    errors = Counter(error for cell in cells for error in cell.texts("error") if error)
    if errors:
        most, _ = errors.most_common(1)[0]
        failed = {
            sample
            for cell in cells
            for sample, error in zip(_samples(cell), cell.texts("error"), strict=True)
            if error
        }
        listed = ", ".join(str(sample) for sample in sorted(failed)[:10])
        more = ", ..." if len(failed) > 10 else ""
        notes.append(
            f"Samples that could not be measured and count nowhere else: {len(failed)} "
            f"({listed}{more}); most often because of {most}"
        )
    vanished = sum(int((cell.numbers("attack_degrees") >= 180).sum()) for cell in cells)
    if vanished:
        notes.append(
            f"Attacked maps without a direction to compare with (180°), because the map or the "
            f"attacked map is zero: {vanished}. They are left out of the angles above."
        )
    wrong = {
        sample
        for cell in cells
        for sample, correct in zip(_samples(cell), cell.numbers("correct"), strict=True)
        if correct == 0
    }
    if wrong:
        notes.append(f"Samples that are misclassified to begin with: {len(wrong)}.")
    return notes


def _defined(cell: Cell) -> Values:
    """Angles attained, NaN where a map vanished and has none."""
    angles = cell.numbers("attack_degrees")
    return np.where(angles < 180, angles, np.nan)


def _samples(cell: Cell) -> list[int]:
    found: list[int] = cell.rows["sample"].to_pylist()
    return found


def _where(group: Group, cell: Cell) -> str:
    return f"{group.attribution}, {group.norm} ball of radius {cell.epsilon:g}"


def _of(count: int, n: int) -> str:
    return f"{count} of {n} bounds ({count / n:.1%})"
