"""The one table of a run, for the console, the page and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribound.auditing.summary import AttackSummary, BrokenShare, ClaimSummary, Summary
from attribound.basics.tables import cell
from attribound.report.claims import CLAIMS, present

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
class Block:
    """One setting: a row for its attacks and one for each claim."""

    title: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class SummaryTable:
    """Everything as text."""

    caption: str
    header: tuple[str, ...]
    blocks: tuple[Block, ...]


def summary_table(summaries: Sequence[Summary]) -> SummaryTable:
    """A block for each attribution, norm and radius."""
    return SummaryTable(CAPTION, HEADER, tuple(_block(summary) for summary in summaries))


def _block(summary: Summary) -> Block:
    rows = [] if summary.best is None else [_attack(summary, summary.best)]
    rows += [_claim(name, summary.claims[name]) for name in present(summary.claims)]
    failed = f" ({summary.errors} of {summary.n} samples failed)" if summary.errors else ""
    title = f"{summary.attribution}, {summary.norm} ε = {summary.epsilon:g}{failed}"
    return Block(title, tuple(rows))


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


def _claim(name: str, claim: ClaimSummary) -> tuple[str, ...]:
    return (
        str(CLAIMS[name]),
        str(claim.n),
        number(claim.mean),
        _NONE,
        angle(claim.degrees),
        _NONE,
        str(claim.undefined),
        _exceeded(claim.broken),
        _NONE if claim.worst is None else f"{claim.worst:.3g}x",
        number(claim.slack),
        _NONE,
        _NONE,
    )


def _exceeded(broken: BrokenShare | None) -> str:
    return _NONE if broken is None else f"{broken.count} ({broken.share:.1%})"


def number(value: float | None) -> str:
    """Four digits; a dash for nothing.

    >>> number(0.123456), number(float("inf")), number(None)
    ('0.1235', '∞', '-')
    """
    return _NONE if value is None else cell(value).replace("inf", "∞")


def angle(value: float | None) -> str:
    """One decimal; a dash for nothing."""
    return _NONE if value is None else f"{value:.1f}"
