"""What an audit says of lists of reasons: in a sentence, by claim, sample by sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from attribound.auditing import Cell, Run, cells
from attribound.auditing.rows import YOURS
from attribound.report.groups import claim_record
from attribound.report.subjects import copy_of, network

_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
#: Samples that a page shows at most, over all settings.
SHOWN = 4000
_PAIRS = 12  # of features that are replaced
_DIGITS = 5


@dataclass(frozen=True)
class ListSummary:
    """What is known of the lists of one setting under one claim.

    Attributes:
        attribution: its name.
        where: ball and radius.
        claim: its title.
        whose: the network or map that the lists are of.
        k: reasons on a list.
        n: samples of which something is known.
        sure: of how many the whole list stays.
        kept: mean number of reasons that surely stay.
        attacked: of how many an attack changed at least one reason.
        left: mean number that attacks left.
        exceeded: of how many an attack left fewer than surely stay.
        proves: whether what is sure is so by a proof about the user's network.
    """

    attribution: str
    where: str
    claim: str
    whose: str
    k: int
    n: int
    sure: int
    kept: float
    attacked: int
    left: float
    exceeded: int
    proves: bool

    def sentence(self, called: str) -> str:
        """The answer, in words."""
        said = (
            f"For {self.sure} of {self.n} {called} the {worded(self.k)} "
            f"reason{'s' if self.k > 1 else ''} can't change within {self.where} (claim: "
            f"{self.claim}; {self.attribution} of {self.whose}); for {self.attacked} an attack "
            "changed at least one."
        )
        if self.exceeded:
            said += f" For {self.exceeded} it left fewer than the claim says."
        return said


@dataclass(frozen=True)
class Replaced:
    """How often attacks put one score in place of another."""

    gone: str
    came: str
    count: int


@dataclass(frozen=True)
class SettingLists:
    """The lists of one setting.

    Attributes:
        title: attribution, ball and radius.
        claims: one summary a claim, the weakest promise first.
        answer: the summary that answers the question: of the user's network if there is one, by
            the strongest promise.
        replaced: which scores attacks put in place of which, most often first.
        data: what the script of the page draws.
    """

    title: str
    claims: tuple[ListSummary, ...]
    answer: ListSummary
    replaced: tuple[Replaced, ...]
    data: dict[str, Any]

    def most_often(self, called: str) -> str:
        """Which reason gave way to which most often, of ``called``; or that others did as often."""
        first = self.replaced[0]
        said = f"attacks put {first.came} in place of {first.gone}"
        many = f"for {first.count} of {self.answer.n} {called}"
        others = sum(pair.count == first.count for pair in self.replaced) - 1
        if not others:
            return f"{said} most often ({many})."
        return f"{said} ({many}), and {others} other pair{'s' if others > 1 else ''} as often."


def worded(number: int) -> str:
    """Small numbers as words.

    >>> worded(4), worded(12)
    ('four', '12')
    """
    return _WORDS[number] if number < len(_WORDS) else str(number)


def called(run: Run) -> str:
    """What samples are called."""
    return str(run.manifest.settings.get("called") or "samples")


def lists(run: Run) -> list[SettingLists]:
    """The lists of every setting of a run; none if it was not asked for them."""
    if run.manifest.settings.get("keep") is None:
        return []
    every = cells(run.rows())
    most = max(1, SHOWN // max(1, len(every)))
    copy = copy_of(run.manifest.settings)
    found = (_lists(cell, copy, run.manifest.score_names, most) for cell in every)
    return [each for each in found if each is not None]


def sentences(run: Run) -> list[str]:
    """The answer of each setting."""
    return [each.answer.sentence(called(run)) for each in lists(run)]


def by_claim(run: Run) -> list[str]:
    """A line a setting: how many lists are sure under each claim, and how many were changed."""
    lines = []
    for each in lists(run):
        said = [
            f"{one.claim} {one.sure} of {one.n} (mean {one.kept:.1f} of {one.k}"
            + (f", exceeded for {one.exceeded})" if one.exceeded else ")")
            for one in each.claims
        ]
        lines.append(f"lists that can't change, {each.title}: {'; '.join(said)}")
    return lines


def _lists(
    cell: Cell, copy: str, names: Callable[[int], Sequence[str]], most: int
) -> SettingLists | None:
    records: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for at, row in enumerate(cell.reasons):
        for record in row:
            if record["kept"] is not None:
                records.setdefault(record["claim"], []).append((at, record))
    if not records:
        return None
    known = names(max(int(each or 0) for each in cell.rows["scores"].to_pylist()))

    def name(place: int) -> str:
        return known[place] if place < len(known) else f"score {place}"

    ordered = sorted(records, key=lambda claim: (claim_record(claim).order, claim))
    made = {claim: _summary(claim, records[claim], cell, copy) for claim in ordered}
    best = max(ordered, key=lambda claim: (_subject(records[claim]) == YOURS, ordered.index(claim)))
    return SettingLists(
        cell.setting.title,
        tuple(made.values()),
        made[best],
        _replaced([record for _, record in records[best]], name),
        _data(cell, {claim: records[claim] for claim in ordered}, best, name, copy, most),
    )


def _subject(records: Sequence[tuple[int, dict[str, Any]]]) -> str:
    """Of the user's network only if all are."""
    found = {record["subject"] for _, record in records}
    return YOURS if found == {YOURS} else next(iter(found - {YOURS}))


def _summary(
    claim: str, numbered: Sequence[tuple[int, dict[str, Any]]], cell: Cell, copy: str
) -> ListSummary:
    records = [record for _, record in numbered]
    k, n = len(records[0]["features"]), len(records)
    return ListSummary(
        attribution=cell.attribution,
        where=cell.setting.within,
        claim=claim_record(claim).title,
        whose=network(_subject(numbered), copy),
        k=k,
        n=n,
        sure=sum(record["kept"] == k for record in records),
        kept=sum(record["kept"] for record in records) / n,
        attacked=sum(record["attacked_kept"] < k for record in records),
        left=sum(record["attacked_kept"] for record in records) / n,
        exceeded=sum(bool(record["exceeded"]) for record in records),
        proves=claim_record(claim).proves and _subject(numbered) == YOURS,
    )


def _replaced(
    records: Sequence[dict[str, Any]], name: Callable[[int], str]
) -> tuple[Replaced, ...]:
    """Those that left, in their order, beside those that came, in theirs."""
    counted: Counter[tuple[int, int]] = Counter()
    for record in records:
        before, after = record["features"], record["attacked_features"]
        gone = [place for place in before if place not in after]
        counted.update(zip(gone, (each for each in after if each not in before), strict=True))
    return tuple(
        Replaced(name(gone), name(came), count)
        for (gone, came), count in counted.most_common(_PAIRS)
    )


def _data(
    cell: Cell,
    records: dict[str, list[tuple[int, dict[str, Any]]]],
    best: str,
    name: Callable[[int], str],
    copy: str,
    most: int,
) -> dict[str, Any]:
    """Every sample by its id, with its list under each claim; ends that are infinite are None."""
    step = -(-len(cell) // most)
    shown = {*range(0, len(cell), step)}
    ids = cell.rows["id"].to_pylist()
    samples = {at: ids[at] or f"{cell.samples[at]}" for at in sorted(shown)}
    places = {
        place
        for numbered in records.values()
        for at, record in numbered
        if at in shown
        for place in (*record["features"], *record["attacked_features"])
    }
    return {
        "title": cell.setting.title,
        "total": len(cell),
        "samples": [*samples.values()],
        "names": {place: name(place) for place in sorted(places)},
        "best": best,
        "claims": {
            claim: {
                "title": claim_record(claim).title,
                "colour": claim_record(claim).colour,
                "whose": network(_subject(numbered), copy),
                "rows": _aligned(numbered, sorted(shown)),
            }
            for claim, numbered in records.items()
        },
    }


def _aligned(
    numbered: Sequence[tuple[int, dict[str, Any]]], shown: Sequence[int]
) -> list[dict[str, Any] | None]:
    by_place = dict(numbered)
    return [_short(by_place[at]) if at in by_place else None for at in shown]


def _short(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "features": record["features"],
        "stays": [int(each) for each in record["stays"]],
        "kept": record["kept"],
        "left": record["attacked_kept"],
        "there": record["attacked_features"],
        **{
            short: [_rounded(each) for each in record[name]]
            for short, name in {
                "values": "values",
                "low": "low",
                "high": "high",
                "attacked": "attacked_values",
            }.items()
        },
    }


def _rounded(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if abs(value) < float("inf") else None
