"""What a reader may conclude from a run, in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attribound.auditing import Cell
from attribound.report.groups import Group, Numbers, records
from attribound.results import Claim, claims


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


def verdict(groups: Sequence[Group], missing: int = 0) -> Verdict:
    """The verdict on the rows of ``groups``; ``missing`` samples were not audited yet."""
    cells = [cell for group in groups for cell in group.cells]
    made = records(claim.name for group in groups for claim in group.claims)
    return Verdict(
        paragraphs=tuple(_attack(cells)),
        claims=tuple(
            _claim(claim, [cell for cell in cells if claim.name in cell.claims]) for claim in made
        ),
        notes=tuple(_notes(cells, missing)),
    )


def _attack(cells: Sequence[Cell]) -> list[str]:
    angles = [(cell, _defined(cell)) for cell in cells]
    attacked = [each for each in angles if np.isfinite(each[1]).any()]
    if not attacked:
        return ["No attack was made, so that nothing was held against the bounds."]
    cell, turned = max(attacked, key=lambda each: float(np.nanmax(each[1])))
    at = int(np.nanargmax(turned))
    text = (
        f"The strongest attack turned the explanation of sample {cell.samples[at]} by "
        f"{turned[at]:.1f}° ({_where(cell)}); half of the samples were turned by "
        f"{float(np.nanmedian(turned)):.1f}° or more there."
    )
    kept = np.concatenate([cell.strongest("label_kept") for cell, _ in attacked])
    kept = kept[np.isfinite(kept)]
    if len(kept):
        text += (
            f" Over all settings, {kept.mean():.0%} of the perturbations that moved explanations "
            "furthest kept the prediction."
        )
    return [text]


def _claim(claim: Claim, cells: Sequence[Cell]) -> ClaimVerdict:
    name, title = claim.name, claim.title
    bounds = np.concatenate([cell.bound(name) for cell in cells])
    attacks = np.concatenate([cell.strongest("deviation") for cell in cells])
    exceeded = np.concatenate([cell.exceeded(name) for cell in cells])
    angles = np.concatenate([cell.bound(name, "degrees") for cell in cells])
    fine = np.array([error is None for cell in cells for error in cell.errors])
    have = ~np.isnan(bounds)
    both = have & ~np.isnan(attacks)
    if not have.any():
        return ClaimVerdict(title, "no bound could be computed.", "neutral")
    tail = []
    unlimited = int((angles[have] == 180).sum())
    if unlimited:
        tail.append(f"{_of(unlimited, int(have.sum()))} leave the direction open (180°).")
    absent = int((fine & ~have).sum())
    if absent:
        tail.append(f"{_of(absent, int(fine.sum()))} could not be computed.")
    if not both.any():
        return ClaimVerdict(title, _sentences("not held against any attack.", *tail), "neutral")
    count, n = int((exceeded & both).sum()), int(both.sum())
    # Nothing is good or bad that nobody here knows the meaning of.
    known = claim in claims()
    if not count:
        text = _sentences(f"no attack exceeded it ({n} bounds).", claim.held, *tail)
        return ClaimVerdict(title, text, "good" if known else "neutral")
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = float(np.nanmax((attacks / bounds)[exceeded & both]))
    worst = f"an attack exceeded {_of(count, n)}, at worst {factor:.3g} times over."
    text = _sentences(worst, claim.exceeded, *tail)
    return ClaimVerdict(title, text, "bad" if known and not claim.expected else "neutral")


def _notes(cells: Sequence[Cell], missing: int) -> list[str]:
    notes = []
    if missing:
        notes.append(f"The run is not finished; samples missing: {missing}.")
    errors = Counter(error for cell in cells for error in cell.errors if error)
    if errors:
        most, _ = errors.most_common(1)[0]
        failed = {
            sample
            for cell in cells
            for sample, error in zip(cell.samples, cell.errors, strict=True)
            if error
        }
        listed = ", ".join(str(sample) for sample in sorted(failed)[:10])
        more = ", ..." if len(failed) > 10 else ""
        notes.append(
            f"Samples that could not be measured and count nowhere else: {len(failed)} "
            f"({listed}{more}); most often because of {most}"
        )
    vanished = sum(int((cell.strongest("degrees") >= 180).sum()) for cell in cells)
    if vanished:
        notes.append(
            f"Attacked maps without a direction to compare with (180°), because the map or the "
            f"attacked map is zero: {vanished}. They are left out of the angles above."
        )
    wrong = {
        sample
        for cell in cells
        for sample, correct in zip(cell.samples, cell.numbers("correct"), strict=True)
        if correct == 0
    }
    if wrong:
        notes.append(f"Samples that are misclassified to begin with: {len(wrong)}.")
    return notes


def _defined(cell: Cell) -> Numbers:
    """Angles attained, NaN where a map vanished and has none."""
    angles = cell.strongest("degrees")
    return np.where(angles < 180, angles, np.nan)


def _where(cell: Cell) -> str:
    return f"{cell.attribution}, {cell.ball} ball of radius {cell.epsilon:g}"


def _of(count: int, n: int) -> str:
    return f"{count} of {n} bounds ({count / n:.1%})"


def _sentences(*parts: str) -> str:
    return " ".join(part for part in parts if part)
