"""A run by its reader's questions: can I trust it, of which network, how sure, what changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attribound.auditing import Cell, Run, cells
from attribound.auditing.rows import YOURS
from attribound.auditing.summary import OPEN
from attribound.report.groups import Group, Numbers, groups, records
from attribound.report.reasons import SettingLists, called, lists
from attribound.report.subjects import copy_of, network
from attribound.report.verdict import BAD, GOOD, NEUTRAL, Verdict, verdict
from attribound.results import Claim

#: How far a statement goes, from the worst.
CONTRADICTED, NOT_PROVED, IN_PART, PROVED = range(4)
WORDS = ("Contradicted", "Not proved", "Proved in part", "Proved")


@dataclass(frozen=True)
class Finding:
    """What is known of one setting.

    Attributes:
        where: attribution, ball and radius.
        lead: the same at the beginning of a sentence; empty if ``said`` has it.
        level: how far it goes, one of the four above.
        said: the rest of the sentence.
        tone: good, bad or neutral; good only if every sample behind it is.
        weight: to find the weakest setting: share of samples limited, then the angle.
    """

    where: str
    lead: str
    level: int
    said: str
    tone: str
    weight: tuple[float, float]

    @property
    def text(self) -> str:
        """The line of this setting."""
        return f"{self.where}: {WORDS[self.level].lower()}: {self.said}."


@dataclass(frozen=True)
class Answers:
    """Everything a reader asks, the answer first.

    Attributes:
        headline: one sentence: of the weakest setting, as no verdict is better than its worst row.
        tone: of it.
        settings: can I trust these explanations within epsilon: a line a setting.
        which: of which network.
        verdict: how sure is that: every claim against the attacks.
        changes: what would change them.
    """

    headline: str
    tone: str
    settings: tuple[Finding, ...]
    which: tuple[str, ...]
    verdict: Verdict
    changes: tuple[str, ...]

    @property
    def sure(self) -> list[str]:
        """How sure is that, in short: what attacks left of each claim."""
        found = [
            f"{f'{part.title}: ' if part.title else ''}"
            + "; ".join(f"{claim.title}: {claim.short}" for claim in part.claims)
            for part in self.verdict.parts
            if part.claims
        ]
        return found or ["there are no bounds, and attacks alone prove nothing"]


def answers(run: Run) -> Answers:
    """What a reader of ``run`` wants to know; nothing of it is better than the worst row behind."""
    manifest = run.manifest
    copy = copy_of(manifest.settings)
    missing = manifest.samples - run.measured
    rows = run.rows()
    grouped = groups(rows)
    said = verdict(grouped, missing, copy)
    listed = lists(run)
    found = [finding(cell, copy, missing) for cell in cells(rows)]
    if listed:  # what was asked is whether lists stay; a proof that failed is told in any case
        asked = {each.title: _of_lists(each, called(run), missing) for each in listed}
        found = [
            each if each.level == CONTRADICTED else asked.get(each.where, each) for each in found
        ]
    headline, tone = _headline(found)
    changes = [text for part in said.parts for text in part.paragraphs]
    changes += _replaced(listed, called(run))
    changes += _reach(grouped, {each.where: each for each in found})
    which = said.paragraphs or (_which(run),)
    return Answers(headline, tone, tuple(found), which, said, tuple(changes))


def one_line(run: Run) -> str:
    """A run on one line, for the log of a machine: the word, then counts.

    Bounds are counted over all settings; ``exceeded`` by attacks on what they speak of or on the
    user's network, ``open`` where nothing limits the angle.
    """
    found = cells(run.rows())
    made = answers(run)
    parts = [
        f"{run.path}: {made.headline.partition(':')[0].lower()}",
        f"{run.manifest.samples} samples",
        f"{len(found)} settings",
    ]
    errors = sum(error is not None for cell in found for error in cell.errors)
    missing = run.manifest.samples - run.measured
    parts += [f"{missing} missing"] if missing else []
    parts += [f"{errors} errors"] if errors else []
    for each in lists(run):
        one = each.answer
        parts.append(f"{each.title}: {one.sure}/{one.n} lists sure, {one.attacked} changed")
    for claim in records(name for cell in found for name in cell.claims):
        own = [cell for cell in found if claim.name in cell.claims]
        values = np.concatenate([cell.bound(claim.name) for cell in own])
        n = int((~np.isnan(values)).sum())
        over = sum(_over(cell, claim) for cell in own)
        angles = np.concatenate([cell.bound(claim.name, "degrees") for cell in own])
        open_ = int((angles >= OPEN).sum())
        parts.append(f"{claim.name} {over}/{n} exceeded" + (f" {open_} open" if open_ else ""))
    turned = [each for each in map(_reached, found) if np.isfinite(each)]
    parts += [f"attacks to {max(turned):.1f} degrees"] if turned else []
    return "; ".join(" ".join(part.split()) for part in parts)


def _headline(found: Sequence[Finding]) -> tuple[str, str]:
    if not found:
        return "Not known: no sample was measured.", NEUTRAL
    worst = min(found, key=lambda each: (each.level, each.weight))
    several = f"in the weakest of {len(found)} settings, " if len(found) > 1 else ""
    tones = {each.tone for each in found}
    tone = BAD if BAD in tones else GOOD if tones == {GOOD} else NEUTRAL
    return f"{WORDS[worst.level]}: {several}{worst.lead}{worst.said}.", tone


def finding(cell: Cell, copy: str, missing: int = 0) -> Finding:
    """What is known of the angles of one setting; samples that failed are limited by nothing."""
    where = cell.setting.title
    lead = f"for {cell.attribution} within {cell.setting.within}, "
    if all(error is not None for error in cell.errors):
        said = f"nothing was measured: all {len(cell)} samples failed"
        return Finding(where, lead, NOT_PROVED, said, BAD, (0.0, -np.inf))
    n, attacked = len(cell) + missing, _attacked(cell)
    own = _own(cell)
    proofs = [claim for claim in own if claim.proves and _limited(cell, claim).size]
    best = chosen_claim(cell)
    if not proofs or best is None:
        said = f"{attacked}, and nothing here proves that it can't be more"
        said += _evidence(cell, own, copy)
        wrong = own and _over(cell, own[-1]) and not own[-1].expected
        reached = _reached(cell)
        weight = (0.0, -reached if np.isfinite(reached) else 0.0)
        return Finding(where, lead, NOT_PROVED, said, BAD if wrong else NEUTRAL, weight)
    angles = _limited(cell, best)
    most, weight = f"{angles.max():.1f}°", (angles.size / n, -float(angles.max()))
    wrong = [claim for claim in proofs if _over(cell, claim)]
    if wrong:
        said = (
            f"an attack exceeded what is called a proof for {_over(cell, wrong[0])} of {n} samples "
            f"({wrong[0].title}), which must not happen; {attacked}"
        )
        return Finding(where, lead, CONTRADICTED, said, BAD, weight)
    if angles.size < n:
        said = (
            f"no perturbation turns {angles.size} of the {n} explanations by more than {most} "
            f"({best.title}), nothing limits the others; {attacked}"
        )
        return Finding(where, lead, IN_PART, said, NEUTRAL, weight)
    said = f"no perturbation turns any of the {n} explanations by more than {most} ({best.title}); "
    # A proof that nobody attacked is one; but nothing was held against it.
    tone = GOOD if np.isfinite(_reached(cell)) else NEUTRAL
    return Finding(where, lead, PROVED, said + attacked, tone, weight)


def chosen_claim(cell: Cell) -> Claim | None:
    """The strongest claim about the user's own network: the proof that limits most, if one does."""
    own = _own(cell)
    proofs = [claim for claim in own if claim.proves and _limited(cell, claim).size]

    def reach(claim: Claim) -> tuple[int, float]:
        return _limited(cell, claim).size, -float(_limited(cell, claim).max())

    return max(proofs, key=reach) if proofs else own[-1] if own else None


def _own(cell: Cell) -> list[Claim]:
    """The claims that speak of the user's own network, the weakest promise first."""
    return [claim for claim in records(cell.claims) if cell.subjects(claim.name) == {YOURS}]


def _evidence(cell: Cell, own: Sequence[Claim], copy: str) -> str:
    """What the strongest claim without a proof says, or of what else the bounds speak."""
    if not own:
        subjects = sorted({each for name in cell.claims for each in cell.subjects(name)})
        whose = " and ".join(network(each, copy) for each in subjects)
        return f" (bounds are of {whose})" if whose else ""
    best = own[-1]
    angles, over = _limited(cell, best), _over(cell, best)
    if not angles.size:
        return f" ({best.title} leaves every direction open)"
    some = "" if angles.size == len(cell) else f" for {angles.size} of {len(cell)}"
    exceeded = f", which attacks exceeded for {over}" if over else ""
    return f" ({best.title} says at most {angles.max():.1f}°{some}{exceeded})"


def _limited(cell: Cell, claim: Claim) -> Numbers:
    """The angles under a claim that something limits."""
    angles = cell.bound(claim.name, "degrees")
    return angles[angles < OPEN]


def _over(cell: Cell, claim: Claim) -> int:
    """How many bounds an attack exceeded, on what they speak of or on the user's network."""
    return int(cell.either_exceeded(claim.name).sum())


def _angles(cell: Cell) -> Numbers:
    """What attacks on the user's own network attained."""
    found = (cell.yours if cell.has_copy else cell.strongest)("degrees")
    return found[~np.isnan(found)]


def _reached(cell: Cell) -> float:
    """The largest angle that attacks attained; NaN if there is none."""
    return float(max(_angles(cell)[_angles(cell) < OPEN], default=np.nan))


def _attacked(cell: Cell) -> str:
    angles = _angles(cell)
    if not angles.size:
        return "no attack was made"
    gone = int((angles >= OPEN).sum())
    none = f" and left {gone} of {angles.size} without a direction" if gone else ""
    reached = _reached(cell)
    return (
        f"attacks turned one by {reached:.1f}°{none}"
        if np.isfinite(reached)
        else f"attacks{none[4:]}"
    )


def _of_lists(each: SettingLists, what: str, missing: int) -> Finding:
    """What is known of the lists of one setting."""
    one = each.answer
    total = each.data["total"] + missing
    said = one.sentence(what).removesuffix(".")
    level = NOT_PROVED
    if one.proves and one.sure:
        level = PROVED if one.sure == total else IN_PART
    if one.proves and one.exceeded:
        level = CONTRADICTED
    tone = BAD if one.exceeded else GOOD if level == PROVED else NEUTRAL
    return Finding(
        each.title, "", level, f"{said[0].lower()}{said[1:]}", tone, (one.sure / total, one.kept)
    )


def _replaced(found: Sequence[SettingLists], what: str) -> list[str]:
    """Which reason gave way to which most often, in each setting."""
    return [f"{each.title}: {each.most_often(what)}" for each in found if each.replaced]


def _reach(found: Sequence[Group], known: Mapping[str, Finding]) -> list[str]:
    """How far proofs reach among the radii that were measured."""
    said = []
    for group in found:
        levels = {
            cell.epsilon: known[cell.setting.title].level
            for cell in group.cells
            if cell.setting.title in known
        }
        proved = [radius for radius, level in levels.items() if level == PROVED]
        if proved and len(levels) > 1:
            beyond = [radius for radius in levels if radius > max(proved)]
            then = f"; at {min(beyond):g} not for all" if beyond else ""
            said.append(f"{group.title}: proved for all samples up to ε = {max(proved):g}{then}.")
    return said


def _which(run: Run) -> str:
    """Of which network, in which arithmetic."""
    name, dtype = run.manifest.model.get("name", "a model"), run.manifest.settings.get("dtype")
    said = f"Of your network itself, as it was given: {name}"
    return f"{said}, evaluated in {dtype}." if dtype else f"{said}."
