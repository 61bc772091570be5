"""The one table of a run, for the console, the page and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribound.auditing.rows import AVERAGED, COPY, YOURS
from attribound.auditing.summary_records import (
    AttackSummary,
    ClaimSummary,
    CopySummary,
    ExceededShare,
    Summary,
)
from attribound.basics.tables import cell
from attribound.report.groups import records
from attribound.report.subjects import A_COPY, aside, network

CAPTION = (
    "Deviations and angles are means over samples, angles over those that are limited; "
    "“undefined” counts the others. “Exceeded” counts bounds below the strongest attack; “at "
    "worst” is the largest attack / bound. Kendall and top-k compare the maps before and after it."
)
_OF_BOTH = (
    " Every row names the network it is about. “Exceeded on its subject” holds a bound against "
    "the attacks on that network, “exceeded on your network” against those on yours, of which "
    "bounds of the copy promise nothing."
)
HEADER = (
    "setting",
    "samples",
    "deviation",
    "worst",
    "angle °",
    "worst °",
    "undefined",
    "exceeded",
    "at worst",
    "bound / attack",
    "Kendall",
    "top-k",
)
#: With a smooth copy.
OWN = "exceeded on its subject"
ON_YOURS, WORST_ON_YOURS = "exceeded on your network", "at worst on your network"
_NONE = "-"


@dataclass(frozen=True)
class TableBlock:
    """One setting: rows for its attacks and one for each claim.

    ``note`` says how far a smooth copy is from the network; empty without one.
    """

    title: str
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class SummaryTable:
    """Everything as text."""

    caption: str
    header: tuple[str, ...]
    blocks: tuple[TableBlock, ...]


def summary_table(summaries: Sequence[Summary], copy: str = A_COPY) -> SummaryTable:
    """A block for each attribution, ball and radius.

    With a smooth copy, which is called ``copy``, every row names its network, and there are two
    columns more: what attacks on the user's own network exceeded.
    """
    both = any(summary.fidelity is not None for summary in summaries)
    blocks = tuple(_block(summary, copy, both) for summary in summaries)
    if not both:
        return SummaryTable(CAPTION, HEADER, blocks)
    at = HEADER.index("bound / attack")
    named = [OWN if name == "exceeded" else name for name in HEADER[:at]]
    header = (*named, ON_YOURS, WORST_ON_YOURS, *HEADER[at:])
    return SummaryTable(CAPTION + _OF_BOTH, header, blocks)


def _block(summary: Summary, copy: str, both: bool) -> TableBlock:
    rows = []
    if both:
        for subject, attack in ((YOURS, summary.yours), (COPY, summary.best)):
            if attack is not None:
                title = f"strongest attack on {network(subject, copy)}"
                rows.append(_attack(title, attack, both))
    elif summary.best is not None:
        rows.append(_attack("strongest attack", summary.best, both))
    if summary.averaged is not None:
        title = f"strongest attack on {network(AVERAGED, copy)}"
        rows.append(_attack(title, summary.averaged, both))
    for each in records(summary.claims):
        claim = summary.claims[each.name]
        whose = "the copy" if claim.subject == COPY else network(claim.subject, copy)
        named = claim.subject == AVERAGED or (both and claim.subject)
        title = f"{each.title}, of {whose}" if named else each.title
        rows.append(_claim(title, claim, both))
    failed = f" ({summary.errors} of {summary.n} samples failed)" if summary.errors else ""
    title = f"{summary.attribution}, {summary.ball} ε = {summary.epsilon:g}{failed}"
    note = "" if summary.fidelity is None else apart(summary.fidelity, copy)
    return TableBlock(title, tuple(rows), note)


def apart(found: CopySummary, copy: str) -> str:
    """How far a smooth copy is from the network it stands for, in words."""
    return (
        f"maps of {aside(copy)} are {found.degrees:.1f}° from those of your network at x (median; "
        f"at worst {found.worst_degrees:.1f}°), {found.ball_degrees:.1f}° at random points of the "
        f"ball (at worst {found.worst_ball_degrees:.1f}°); same label for {found.labels} of "
        f"{found.n} samples"
    )


def _attack(title: str, attack: AttackSummary, both: bool) -> tuple[str, ...]:
    return (
        title,
        str(attack.n),
        number(attack.mean),
        number(attack.worst),
        angle(attack.degrees),
        angle(attack.worst_degrees),
        str(attack.undefined),
        _NONE,
        _NONE,
        *((_NONE, _NONE) if both else ()),
        _NONE,
        number(attack.kendall),
        number(attack.topk),
    )


def _claim(title: str, claim: ClaimSummary, both: bool) -> tuple[str, ...]:
    return (
        title,
        str(claim.n),
        number(claim.mean),
        _NONE,
        angle(claim.degrees),
        _NONE,
        str(claim.undefined),
        _exceeded(claim.exceeded),
        _times(claim.worst),
        *((_exceeded(claim.yours), _times(claim.yours_worst)) if both else ()),
        number(claim.slack),
        _NONE,
        _NONE,
    )


def _times(factor: float | None) -> str:
    return _NONE if factor is None else f"{factor:.3g}x"


def _exceeded(share: ExceededShare | None) -> str:
    return _NONE if share is None else f"{share.count} ({share.share:.1%})"


def number(value: float | None) -> str:
    """Four digits; a dash for nothing.

    >>> number(0.123456), number(float("inf")), number(None)
    ('0.1235', '∞', '-')
    """
    return _NONE if value is None else cell(value).replace("inf", "∞")


def angle(value: float | None) -> str:
    """One decimal; a dash for nothing."""
    return _NONE if value is None else f"{value:.1f}"
