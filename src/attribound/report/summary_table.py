"""The one table of a run, for the console, the page and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attribound.auditing.rows import AVERAGED, COPY, YOURS
from attribound.auditing.summary import OPEN
from attribound.auditing.summary_records import (
    AttackSummary,
    ClaimSummary,
    CopySummary,
    ExceededShare,
    Summary,
)
from attribound.basics.errors import InputError
from attribound.basics.tables import cell
from attribound.report.groups import records
from attribound.report.subjects import A_COPY, aside, network

#: What the columns mean, by their names.
LEGEND = {
    "setting": "the strongest attack of each sample, then what each claim allows",
    "samples": "how many have a value in this row",
    "deviation": "Euclidean length by which the map moved, or may move: mean over samples",
    "worst": "the largest of these",
    "angle °": "by which the map turned, or may turn: median over all samples; those that are "
    "open count as the worst, and the cell is “open” where half of them are",
    "worst °": "the largest of these",
    "open": "samples whose angle nothing limits: the bound reaches the length of the map itself, "
    "there is no bound, or a map is zero and has no direction",
    "exceeded": "bounds below the strongest attack",
    "at worst": "the largest attack / bound: above 1 where a bound was exceeded",
    "bound / attack": "mean over samples: 1 is tight",
    "Kendall": "rank correlation of the scores before and after the strongest attack: 1 is the "
    "same order, 0 none in common",
    "top-k": "share of the k largest scores that are still among the k largest after it; unless "
    "set, k is 100, or 1000 above 1,024 scores, and at most a third of them",
}
HEADER = tuple(LEGEND)
CAPTION = "Open samples count as the worst of their column, so that rows are of the same samples."
_OF_BOTH = (
    " Every row names the network it is about. “Exceeded on its subject” holds a bound against "
    "the attacks on that network, “exceeded on your network” against those on yours, of which "
    "bounds of the copy promise nothing."
)
#: With a smooth copy.
OWN = "exceeded on its subject"
ON_YOURS, WORST_ON_YOURS = "exceeded on your network", "at worst on your network"
_LEGEND_OF_BOTH = {
    OWN: "bounds below the strongest attack on the network they are of",
    ON_YOURS: "bounds below the strongest attack on your own network, whatever they are of",
    WORST_ON_YOURS: "the largest attack on your network / bound",
}
#: What the numbers of two runs mean, by their names or the ends of them.
LEGEND_OF_TWO = {
    "accuracy": "share of samples that are classified correctly",
    "|g|": "Euclidean length of the map: mean over samples",
    "attack": "how far the strongest attack moved the map: mean of Euclidean lengths",
    "Kendall": LEGEND["Kendall"],
    "top-k": LEGEND["top-k"],
    "claim": "how far the map can move under it: mean of its bounds that are finite",
    "... °": "the angle, in degrees: mean, 180 where nothing limits it",
    "... open": "share of samples whose angle nothing limits",
    "... exceeded": "share of bounds below the strongest attack",
}
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

    @property
    def legend(self) -> dict[str, str]:
        """What each column means, in order."""
        known = {**LEGEND, **_LEGEND_OF_BOTH}
        return {name: known[name] for name in self.header}

    def only(self, columns: Sequence[str]) -> SummaryTable:
        """The same with these columns alone, after the first, which names the rows.

        Raises:
            InputError: a column that the table has not.
        """
        unknown = [name for name in columns if name not in self.header[1:]]
        if unknown:
            raise InputError(
                "columns",
                expected=f"some of {', '.join(self.header[1:])}",
                got=repr(unknown[0]),
                remedy="separate them by commas, as in 'angle °,open,exceeded'",
            )
        places = [0, *(self.header.index(name) for name in columns)]
        blocks = tuple(
            replace(block, rows=tuple(tuple(row[at] for at in places) for row in block.rows))
            for block in self.blocks
        )
        return SummaryTable(self.caption, tuple(self.header[at] for at in places), blocks)


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
        measured = summary.n - summary.errors
        if 0 < claim.n < measured:
            title += f" ({claim.n} of {measured} samples)"
        rows.append(_claim(title, claim, both))
    failed = f" ({summary.errors} of {summary.n} samples failed)" if summary.errors else ""
    title = f"{summary.setting.title}{failed}"
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
        str(attack.open),
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
        number(claim.largest),
        angle(claim.degrees),
        angle(claim.worst_degrees),
        str(claim.open),
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
    """One decimal; a dash for nothing.

    >>> angle(12.34), angle(180.0), angle(None)
    ('12.3', 'open', '-')
    """
    if value is None:
        return _NONE
    return "open" if value >= OPEN else f"{value:.1f}"
