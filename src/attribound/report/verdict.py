"""What a reader may conclude from a run, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attribound.auditing import Cell
from attribound.auditing.rows import AVERAGED, COPY, YOURS
from attribound.auditing.summary import fidelity_of, opposing
from attribound.auditing.summary_records import CopySummary
from attribound.report.groups import Group, Numbers, records
from attribound.report.subjects import A_COPY, aside, headed, network
from attribound.report.verdict_notes import Read, likeness, notes, of
from attribound.results import Claim, claims

Flags = NDArray[np.bool_]
GOOD, BAD, NEUTRAL = "good", "bad", "neutral"


@dataclass(frozen=True)
class ClaimVerdict:
    """One claim against all attacks, in full and in ``short``.

    ``tone`` is good, bad or neutral. Good is a proof alone, and only if every sample has a bound
    that limits something and no attack exceeded one.
    """

    title: str
    text: str
    tone: str
    short: str


@dataclass(frozen=True)
class Part:
    """What is said of one network: how far attacks came on it, and what they say of each claim.

    ``title`` names the network; it is empty where there is only one.
    """

    title: str
    paragraphs: tuple[str, ...]
    claims: tuple[ClaimVerdict, ...]


@dataclass(frozen=True)
class Verdict:
    """What is said of all, of each network in a part of its own, and what limits the evidence."""

    paragraphs: tuple[str, ...]
    parts: tuple[Part, ...]
    notes: tuple[str, ...]


def verdict(groups: Sequence[Group], missing: int = 0, copy: str = A_COPY) -> Verdict:
    """The verdict on the rows of ``groups``; ``missing`` samples were not audited yet.

    With a smooth copy, which is called ``copy``, there is a part about the user's network and
    one about the copy. Nothing in the first is drawn from the copy: its bounds are worth there
    what attacks on the network leave of them, and are never called good.
    """
    cells = [cell for group in groups for cell in group.cells]
    made = records(claim.name for group in groups for claim in group.claims)
    by_claim = {claim: [cell for cell in cells if claim.name in cell.claims] for claim in made}
    averaged = {claim: own for claim, own in by_claim.items() if _speaks(claim, own, AVERAGED)}
    by_claim = {claim: own for claim, own in by_claim.items() if claim not in averaged}
    of_average = _of_average(averaged)
    fidelity = fidelity_of(cells)
    if fidelity is None:
        claims = tuple(_claim(claim, chosen) for claim, chosen in by_claim.items())
        title = headed(network(YOURS, copy)) if of_average else ""
        part = Part(title, tuple(_attack(cells, _on_bounded, "the explanation")), claims)
        said = tuple(notes(cells, missing, {"": _on_bounded}))
        return Verdict((), of_average if of_average and not by_claim else (part, *of_average), said)
    yours, copied = network(YOURS, copy), network(COPY, copy)
    parts = (
        Part(
            headed(yours),
            tuple(_attack(cells, _on_yours, f"the explanation by {yours}")),
            tuple(
                said
                for claim, chosen in by_claim.items()
                for said in _of_yours(claim, chosen, copied)
            ),
        ),
        Part(
            headed(copied),
            tuple(_attack(cells, _on_bounded, f"the explanation by {aside(copied)}")),
            tuple(
                _claim(claim, chosen, COPY)
                for claim, chosen in by_claim.items()
                if _speaks(claim, chosen, COPY) or not _speaks(claim, chosen, YOURS)
            ),
        ),
    )
    reads = {f" by {yours}": _on_yours, f" by {copied}": _on_bounded}
    return Verdict(
        (_stands(copied), _apart(cells, fidelity)),
        (*parts, *of_average),
        tuple(notes(cells, missing, reads)),
    )


def _of_average(averaged: Mapping[Claim, Sequence[Cell]]) -> tuple[Part, ...]:
    """What is said of the averaged map: by its own bounds and the attacks on it alone."""
    if not averaged:
        return ()
    cells = [*{id(cell): cell for chosen in averaged.values() for cell in chosen}.values()]
    title = network(AVERAGED, "")
    claims = tuple(_claim(claim, chosen, AVERAGED) for claim, chosen in averaged.items())
    said = [*_attack(cells, _on_averaged, title), *likeness(averaged)]
    return (Part(headed(title), tuple(said), claims),)


def _on_averaged(cell: Cell, field: str) -> Numbers:
    return cell.averaged(field)


def _on_bounded(cell: Cell, field: str) -> Numbers:
    return cell.strongest(field)


def _on_yours(cell: Cell, field: str) -> Numbers:
    return cell.yours(field)


def _stands(copy: str) -> str:
    return (
        f"Bounds need a smooth network: they are of {aside(copy)} except where they are said to be "
        "of your network. Both were attacked."
    )


def _apart(cells: Sequence[Cell], found: CopySummary) -> str:
    """How far the copy is from the network, beside how far attacks turned either."""
    text = (
        f"The copy's maps are {found.degrees:.1f}° from your network's at the samples (median; at "
        f"worst {found.worst_degrees:.1f}°) and {found.ball_degrees:.1f}° at random points of the "
        f"balls (at worst {found.worst_ball_degrees:.1f}°); the label is the same in "
        f"{found.labels} of {found.n} comparisons."
    )
    turned = {}
    for whose, read in {"your network's maps": _on_yours, "the copy's": _on_bounded}.items():
        angles = np.concatenate([_defined(cell, read) for cell in cells])
        angles = angles[np.isfinite(angles)]
        if len(angles):
            turned[whose] = float(np.median(angles)), float(angles.max())
    if not turned:
        return text
    said = " and ".join(
        f"{whose} by {middle:.1f}° (at worst {most:.1f}°)"
        for whose, (middle, most) in turned.items()
    )
    text += f" Attacks turned {said}."
    if all(found.degrees > middle for middle, _ in turned.values()):
        text += " So the copy is further from your network than attacks turned either."
    return text


def _attack(cells: Sequence[Cell], read: Read, what: str) -> list[str]:
    angles = [(cell, _defined(cell, read)) for cell in cells]
    attacked = [each for each in angles if np.isfinite(each[1]).any()]
    if not any(error is None for cell in cells for error in cell.errors):
        return ["Nothing was measured."]
    if not attacked:
        return ["No attack was made, so that nothing was held against the bounds."]
    cell, turned = max(attacked, key=lambda each: float(np.nanmax(each[1])))
    at = int(np.nanargmax(turned))
    text = (
        f"The strongest attack turned {what} of sample {cell.samples[at]} by "
        f"{turned[at]:.1f}° ({_where(cell)}); half of the samples were turned by "
        f"{float(np.nanmedian(turned)):.1f}° or more there."
    )
    kept = np.concatenate([read(cell, "label_kept") for cell, _ in attacked])
    kept = kept[np.isfinite(kept)]
    if len(kept):
        text += (
            f" Over all settings, {kept.mean():.0%} of the perturbations that moved explanations "
            "furthest kept the prediction."
        )
    return [text]


def _speaks(claim: Claim, cells: Sequence[Cell], subject: str) -> bool:
    return any(subject in cell.subjects(claim.name) for cell in cells)


def _of_yours(claim: Claim, cells: Sequence[Cell], copy: str) -> list[ClaimVerdict]:
    """What a claim says of the user's network: by its own bounds, and what the copy's are worth."""
    found = []
    own, other = (_speaks(claim, cells, subject) for subject in (YOURS, COPY))
    if own or not other:
        found.append(_claim(claim, cells, YOURS))
    if other:
        found.append(_worth(claim, cells, copy))
    return found


def _worth(claim: Claim, cells: Sequence[Cell], copy: str) -> ClaimVerdict:
    """What bounds of the copy are worth for the user's network: never anything good."""
    whose = f"these are bounds of {aside(copy)} and promise nothing about your network."
    of_copy = _spoken(claim, cells, COPY)
    bounds = np.concatenate([cell.bound(claim.name) for cell in cells])
    flags = np.concatenate([cell.bound(claim.name, "yours_exceeded") for cell in cells])
    attacks = np.concatenate([cell.yours("deviation") for cell in cells])
    both = of_copy & ~np.isnan(flags)
    if not both.any():
        text = f"{whose} No attack was made on it."
        return ClaimVerdict(claim.title, text, NEUTRAL, "of the copy, not attacked here")
    exceeded = both & (flags == 1)
    count, n = int(exceeded.sum()), int(both.sum())
    if not count:
        text = f"{whose} No attack on it exceeded them ({n} bounds)."
        short = f"of the copy, exceeded here 0 of {n}"
        return ClaimVerdict(claim.title, text, NEUTRAL, short)
    factor = _factor(attacks, bounds, exceeded)
    text = (
        f"{whose} An attack on it exceeded {of(count, n)}, at worst {factor:.3g} times over: do "
        "not use them for it."
    )
    return ClaimVerdict(claim.title, text, BAD, f"of the copy, exceeded here {count} of {n}")


def _spoken(claim: Claim, cells: Sequence[Cell], subject: str) -> Flags:
    """Where the bounds under a claim speak of ``subject``."""
    return np.array(
        [each == subject for cell in cells for each in cell.bound_texts(claim.name, "subject")],
        dtype=bool,
    )


def _claim(claim: Claim, cells: Sequence[Cell], subject: str | None = None) -> ClaimVerdict:
    """A claim against the attacks on what it speaks of, where that is ``subject``; None: all."""
    name, title = claim.name, claim.title
    bounds = np.concatenate([cell.bound(name) for cell in cells])
    attacks = np.concatenate([opposing(cell, name) for cell in cells])
    exceeded = np.concatenate([cell.exceeded(name) for cell in cells])
    angles = np.concatenate([cell.bound(name, "degrees") for cell in cells])
    fine = np.array([error is None for cell in cells for error in cell.errors])
    have = ~np.isnan(bounds)
    absent = int((fine & ~have).sum())
    if subject is not None:
        have &= _spoken(claim, cells, subject)
    both = have & ~np.isnan(attacks)
    if not have.any():
        return ClaimVerdict(title, "no bound could be computed.", NEUTRAL, "no bound")
    tail = []
    bounded = int(have.sum())
    unlimited = int((angles[have] == 180).sum())
    open_ = f", {unlimited} open" if unlimited else ""
    if unlimited:
        tail.append(f"{of(unlimited, bounded)} leave the direction open (180°).")
    if absent:
        tail.append(f"{of(absent, int(fine.sum()))} could not be computed.")
    if not both.any():
        text = _sentences("not held against any attack.", *tail)
        return ClaimVerdict(title, text, NEUTRAL, f"not attacked ({bounded} bounds{open_})")
    count, n = int((exceeded & both).sum()), int(both.sum())
    # Nothing is good or bad that nobody here knows the meaning of.
    known = claim in claims()
    short = f"exceeded {count} of {n}{open_}"
    if not count:
        empty = f"it says nothing: all {bounded} bounds leave the direction open (180°)."
        text = _sentences(f"no attack exceeded it ({n} bounds).", claim.held, *tail)
        whole = fine.all() and not (unlimited or absent) and n == bounded
        tone = GOOD if known and claim.proves and whole else NEUTRAL
        return ClaimVerdict(title, empty if unlimited == bounded else text, tone, short)
    factor = _factor(attacks, bounds, exceeded & both)
    worst = f"an attack exceeded {of(count, n)}, at worst {factor:.3g} times over."
    text = _sentences(worst, claim.exceeded, *tail)
    return ClaimVerdict(title, text, BAD if known and not claim.expected else NEUTRAL, short)


def _factor(attacks: Numbers, bounds: Numbers, where: Flags) -> float:
    """The largest attack / bound."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nanmax((attacks / bounds)[where]))


def _defined(cell: Cell, read: Read) -> Numbers:
    """Angles attained, NaN where a map vanished and has none."""
    angles = read(cell, "degrees")
    return np.where(angles < 180, angles, np.nan)


def _where(cell: Cell) -> str:
    return f"{cell.attribution}, {cell.ball} ball of radius {cell.epsilon:g}"


def _sentences(*parts: str) -> str:
    return " ".join(part for part in parts if part)
