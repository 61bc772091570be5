"""Runs of a user as tables of the leaderboard: models side by side where all else is the same."""

from __future__ import annotations

from collections.abc import Sequence

from attribound.auditing import Cell, Run, cells, summarise
from attribound.auditing.cells import Setting
from attribound.auditing.summary import OPEN
from attribound.auditing.summary_records import Summary
from attribound.report.answers import WORDS, answers, chosen_claim
from attribound.report.reasons import lists
from attribound.report.summary_table import LEGEND, number
from attribound.zoo.board_page import BoardTable

HEADER = (
    "model",
    "verdict",
    "samples",
    "accuracy",
    "turned °",
    "allowed °",
    "open",
    "claim",
    "lists kept",
    "Kendall",
    "top-k",
    "run",
)
_HOW = (
    "Turned and allowed: median angle of explanations under the strongest attack, and under the "
    "strongest claim about the network itself; 180 (open) where nothing limits it. Medians and "
    "means are over all samples of a run, open is their number. The verdict is that of the run's "
    "own page."
)
_MEANINGS = {
    "lists kept": "share of the lists of reasons that surely stay",
    "Kendall": LEGEND["Kendall"],
    "top-k": LEGEND["top-k"],
}
_Key = tuple[str, str, Setting]


def run_tables(runs: Sequence[Run]) -> list[BoardTable]:
    """A table for each data, attribution, ball and radius; in each what turns least comes first.

    Runs are only set beside each other on the same samples (by fingerprint).
    """
    tables: dict[_Key, list[tuple[float, list[str]]]] = {}
    for run in runs:
        data = run.manifest.data
        rows = run.rows()
        kept = {each.title: each.answer.sure / each.answer.n for each in lists(run)}
        levels = {each.where: WORDS[each.level] for each in answers(run).settings}
        for cell, summary in zip(cells(rows), summarise(rows), strict=True):
            key = (str(data.get("name")), str(data["fingerprint"]), cell.setting)
            row = _row(run, cell, summary, levels[cell.setting.title], kept)
            tables.setdefault(key, []).append(row)
    meanings = "; ".join(f"{name}: {text}" for name, text in _MEANINGS.items())
    about = (_HOW, f"{meanings[0].upper()}{meanings[1:]}.")
    names = sorted(tables)
    return [
        BoardTable(
            setting.title,
            (),
            HEADER,
            tuple(tuple(row) for _, row in sorted(tables[name, fingerprint, setting])),
            data=f"{name}, samples {fingerprint[:23]}",
            about=about if (name, fingerprint) == names[0][:2] else (),
        )
        for name, fingerprint, setting in names
    ]


def _row(
    run: Run, cell: Cell, summary: Summary, level: str, kept: dict[str, float]
) -> tuple[float, list[str]]:
    """By what it is sorted, and its cells."""
    missing = run.manifest.samples - run.measured
    claim = chosen_claim(cell)
    allowed = None if claim is None else summary.claims[claim.name]
    attack = summary.yours or summary.best
    turned = None if attack is None else attack.degrees
    fine = summary.n - summary.errors
    list_share = kept.get(cell.setting.title)
    row = [
        str(run.manifest.model.get("name", "a model")),
        level,
        f"{summary.n} of {run.manifest.samples}" if missing else str(summary.n),
        f"{1 - summary.misclassified / fine:.1%}" if fine else "-",
        _angle(turned),
        _angle(None if allowed is None else allowed.degrees),
        "-" if allowed is None else str(allowed.open),
        "-" if claim is None else claim.title,
        "-" if list_share is None else f"{list_share:.1%}",
        number(None if attack is None else attack.kendall),
        number(None if attack is None else attack.topk),
        str(run.path),
    ]
    return (OPEN if turned is None else turned), row


def _angle(value: float | None) -> str:
    """With its number, by which columns are sorted."""
    if value is None:
        return "-"
    return "180 (open)" if value >= OPEN else f"{value:.1f}"
