"""The one table of a run, for the console, the page and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribound.auditing.summary import AttackSummary, ClaimSummary, ExceededShare, Summary
from attribound.basics.tables import cell
from attribound.report.groups import records

CAPTION = (
    "Deviations and angles are means over samples, angles over those that are limited; "
    "“undefined” counts the others. “Exceeded” counts bounds below the strongest attack; “at "
    "worst” is the largest attack / bound. Kendall and top-k compare the maps before and after it."
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
_NONE = "-"


@dataclass(frozen=True)
class TableBlock:
    """One setting: a row for its attacks and one for each claim."""

    title: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class SummaryTable:
    """Everything as text."""

    caption: str
    header: tuple[str, ...]
    blocks: tuple[TableBlock, ...]


def summary_table(summaries: Sequence[Summary]) -> SummaryTable:
    """A block for each attribution, ball and radius."""
    return SummaryTable(CAPTION, HEADER, tuple(_block(summary) for summary in summaries))


def _block(summary: Summary) -> TableBlock:
    rows = [] if summary.best is None else [_attack(summary, summary.best)]
    rows += [_claim(each.title, summary.claims[each.name]) for each in records(summary.claims)]
    failed = f" ({summary.errors} of {summary.n} samples failed)" if summary.errors else ""
    title = f"{summary.attribution}, {summary.ball} ε = {summary.epsilon:g}{failed}"
    return TableBlock(title, tuple(rows))


def _attack(summary: Summary, attack: AttackSummary) -> tuple[str, ...]:
    return (
        "strongest attack",
        str(attack.n),
        number(attack.mean),
        number(attack.worst),
        angle(attack.degrees),
        angle(attack.worst_degrees),
        str(summary.undefined),
        _NONE,
        _NONE,
        _NONE,
        number(attack.kendall),
        number(attack.topk),
    )


def _claim(title: str, claim: ClaimSummary) -> tuple[str, ...]:
    return (
        title,
        str(claim.n),
        number(claim.mean),
        _NONE,
        angle(claim.degrees),
        _NONE,
        str(claim.undefined),
        _exceeded(claim.exceeded),
        _NONE if claim.worst is None else f"{claim.worst:.3g}x",
        number(claim.slack),
        _NONE,
        _NONE,
    )


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
