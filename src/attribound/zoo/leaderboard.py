"""The leaderboard: all models side by side, from their cards only."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby

from attribound.basics.errors import InputError
from attribound.zoo.record import Card

#: By what it can be sorted, best first; ties by name.
SORTS = ("kendall", "top_k", "pearson", "cosine", "clean", "attacked", "name")


@dataclass(frozen=True)
class LeaderboardRow:
    """One model; shares and correlations as numbers, None where nothing could be compared."""

    name: str
    data: str
    method: str
    network: str
    clean: float
    attacked: float
    attack: str
    top_k: float | None
    kendall: float | None
    pearson: float | None
    cosine: float | None
    epochs: int
    cpu_minutes: float


def rows(cards: Iterable[Card], sort: str = "kendall") -> list[LeaderboardRow]:
    """A row for each card: data sets by name, in each the best first.

    Raises:
        InputError: it cannot be sorted by that.
    """
    if sort not in SORTS:
        raise InputError(
            "sort", expected=f"one of {', '.join(SORTS)}", got=repr(sort), remedy="choose one"
        )

    def order(row: LeaderboardRow) -> tuple[object, ...]:
        value = None if sort == "name" else getattr(row, sort)
        return (row.data, value is None, 0.0 if value is None else -value, row.name)

    return sorted(map(_row, cards), key=order)


def _row(card: Card) -> LeaderboardRow:
    measured = {name: number.value for name, number in card.measured.numbers.items()}
    predictions = card.measured.protocol.predictions
    return LeaderboardRow(
        name=card.name,
        data=card.data,
        method=card.method,
        network=str(card.network.get("architecture")),
        clean=measured["clean"],
        attacked=measured["attacked"],
        attack=f"{predictions.ball.name} {predictions.ball.epsilon:.3g}",
        top_k=measured.get("top_k"),
        kendall=measured.get("kendall"),
        pearson=measured.get("pearson"),
        cosine=measured.get("cosine"),
        epochs=card.epochs,
        cpu_minutes=card.cpu_seconds / 60,
    )


HEADER = (
    "model",
    "network",
    "clean",
    "under PGD",
    "top-k",
    "Kendall",
    "Pearson",
    "cosine",
    "epochs",
    "CPU min",
)


def cells(row: LeaderboardRow) -> list[str]:
    """A row as it is printed, under :data:`HEADER`."""
    alike = (row.top_k, row.kendall, row.pearson, row.cosine)
    return [
        row.name,
        row.network,
        f"{row.clean:.2%}",
        f"{row.attacked:.2%} ({row.attack})",
        *("-" if value is None else f"{value:.3f}" for value in alike),
        str(row.epochs),
        f"{row.cpu_minutes:.0f}" if row.cpu_minutes >= 1 else "< 1",
    ]


def by_data(found: Sequence[LeaderboardRow]) -> list[tuple[str, list[LeaderboardRow]]]:
    """Rows in groups of one data set."""
    return [(data, list(group)) for data, group in groupby(found, key=lambda row: row.data)]


def markdown(cards: Iterable[Card], sort: str = "kendall") -> str:
    """The leaderboard as Markdown: a table for each data set, with how it was measured."""
    parts = []
    own = {card.name: card for card in cards}
    for data, group in by_data(rows(own.values(), sort)):
        lines = [f"### {data}", ""]
        lines += [*hows([own[row.name] for row in group]), ""]
        lines += [f"| {' | '.join(HEADER)} |", f"|{'---|' * 2}{'---:|' * (len(HEADER) - 2)}"]
        lines += [f"| {' | '.join([f'`{row.name}`', *cells(row)[1:]])} |" for row in group]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def hows(cards: Sequence[Card]) -> list[str]:
    """How cards were measured: one sentence for all, or each with the models it is about.

    How many examples were classified correctly is not how: there may be some to some.
    """
    alike: dict[str, list[Card]] = {}
    for card in cards:
        alike.setdefault(how(card, "N"), []).append(card)
    said = []
    for own in alike.values():
        counts = [card.measured.similarity.n for card in own if card.measured.similarity]
        least, most = min(counts, default=0), max(counts, default=0)
        text = how(own[0], f"{least}" if least == most else f"{least} to {most}")
        names = ", ".join(card.name for card in own)
        said.append(text if len(alike) == 1 else f"{names}: {text}")
    return said


def how(card: Card, explained: str | None = None) -> str:
    """One sentence: how the numbers of a card were measured, ``explained`` examples if given."""
    measured, protocol = card.measured, card.measured.protocol
    one, other = protocol.predictions, protocol.attributions
    text = (
        f"Clean: {measured.clean.n:,} test examples. PGD-{one.attack.steps}, {one.ball.name} "
        f"{one.ball.epsilon:.3g}: {measured.attacked.n:,} of them."
    )
    if measured.similarity is None:
        return text
    return (
        f"{text} Attributions (`{other.attribution.name}`) under IFIA top-{other.k} with "
        f"{other.attack.steps} steps, {other.ball.name} {other.ball.epsilon:.3g}: the first "
        f"{explained or measured.similarity.n} examples classified correctly."
    )


def to_csv(cards: Iterable[Card], sort: str = "kendall") -> str:
    """The leaderboard as CSV, numbers in full."""
    out = io.StringIO()
    writer = csv.DictWriter(
        out, [field.name for field in fields(LeaderboardRow)], lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows(cards, sort))
    return out.getvalue()
