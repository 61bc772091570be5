"""What limits the evidence of a run, and what stands beside certificates of averaged maps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attribound.auditing import Cell
from attribound.bounding.smoothed import ALIKE
from attribound.report.groups import Numbers
from attribound.results import Claim

#: A field of the strongest attacks on one of the subjects.
Read = Callable[[Cell, str], Numbers]


def notes(cells: Sequence[Cell], missing: int, reads: Mapping[str, Read]) -> list[str]:
    """What was not measured, or has no angle, or was wrong to begin with."""
    found = []
    if missing:
        found.append(f"The run is not finished; samples missing: {missing}.")
    found += failures(cells)
    for whose, read in reads.items():
        vanished = sum(int((read(cell, "degrees") >= 180).sum()) for cell in cells)
        if vanished:
            found.append(
                f"Attacked maps{whose} without a direction to compare with (180°), because the map "
                f"or the attacked map is zero: {vanished}. They are left out of the angles above."
            )
    wrong = {
        sample
        for cell in cells
        for sample, correct in zip(cell.samples, cell.numbers("correct"), strict=True)
        if correct == 0
    }
    if wrong:
        found.append(f"Samples that are misclassified to begin with: {len(wrong)}.")
    return found


def failures(cells: Sequence[Cell]) -> list[str]:
    """How many samples could not be measured, and why; nothing if all could."""
    errors = Counter(error for cell in cells for error in cell.errors if error)
    if not errors:
        return []
    most, _ = errors.most_common(1)[0]
    failed = {
        sample
        for cell in cells
        for sample, error in zip(cell.samples, cell.errors, strict=True)
        if error
    }
    listed = ", ".join(str(sample) for sample in sorted(failed)[:10])
    more = ", ..." if len(failed) > 10 else ""
    text = f"Samples that could not be measured and count nowhere else: {len(failed)}"
    return [f"{text} ({listed}{more}); most often because of {most}"]


def likeness(averaged: Mapping[Claim, Sequence[Cell]]) -> list[str]:
    """How alike averaged and plain maps are: a certificate of another explanation says little."""
    found = [
        cell.bound(claim.name, "similarity") for claim, own in averaged.items() for cell in own
    ]
    cosines = np.concatenate(found)
    cosines = cosines[np.isfinite(cosines)]
    if not len(cosines):
        return []
    other = int((cosines < ALIKE).sum())
    text = f"Its cosine with the plain map is {float(np.median(cosines)):.2f} (median)"
    if other:
        return [f"{text}; {of(other, len(cosines))} are of another explanation (below {ALIKE:g})."]
    return [f"{text}, and nowhere below {ALIKE:g}."]


def of(count: int, n: int) -> str:
    """So many of these bounds."""
    return f"{count} of {n} bounds ({count / n:.1%})"
