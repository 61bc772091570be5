"""The table of a run on a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from attribound.auditing import Run, cells, summarise
from attribound.report.answers import Answers, answers
from attribound.report.conditions import conditions
from attribound.report.reasons import by_claim
from attribound.report.subjects import copy_of
from attribound.report.summary_table import (
    ON_YOURS,
    OWN,
    WORST_ON_YOURS,
    SummaryTable,
    summary_table,
)
from attribound.report.verdict_notes import failures

#: What fits a terminal of 80 characters; the page has the rest.
_COLUMNS = {
    "deviation": "moved\nmean",
    "worst": "by\nworst",
    "angle °": "angle °\nmedian",
    "worst °": "\nworst",
    "open": "\nopen",
    "exceeded": "exceeded",
    "Kendall": "Kendall",
}
#: The same with a smooth copy, where both networks must have their counts.
_OF_BOTH = {
    "deviation": "moved\nmean",
    "angle °": "angle °\nmedian",
    "open": "\nopen",
    OWN: "exceeded on\nits subject",
    ON_YOURS: "exceeded on\nyour network",
    WORST_ON_YOURS: "at worst\nthere",
}


def console(run: Run) -> Table:
    """The answer in one sentence, then one table: attacks and every claim of each setting.

    Below it stand the other questions of a reader: of which network, how sure, what changes it.

    With a smooth copy every row names its network, bounds are held against attacks on both,
    and lines below the table say how far the copy is from the network.

    Names are shown as they are: nothing in them is read as markup.
    """
    found = summary_table(summarise(run.rows()), copy_of(run.manifest.settings))
    said = answers(run)
    columns = _OF_BOTH if ON_YOURS in found.header else _COLUMNS
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title=Text(f"{said.headline}\n\n{_title(run)}"),
        title_justify="left",
        caption=Text("\n".join(_notes(run, found, said))),
        caption_justify="left",
    )
    table.add_column(Text(found.header[0]), overflow="fold")
    for title in columns.values():
        table.add_column(Text(title), justify="right", no_wrap=True)
    places = [found.header.index(name) for name in columns]
    for block in found.blocks:
        table.add_row(Text(block.title, style="bold"))
        for row in block.rows:
            table.add_row(Text(f" {row[0]}"), *[Text(row[place]) for place in places])
        table.add_section()
    return table


def _title(run: Run) -> str:
    manifest = run.manifest
    model, data = manifest.model.get("name", "model"), manifest.data.get("name", "data")
    return f"{run.path}: {model} on {manifest.samples} samples of {data}"


def _notes(run: Run, found: SummaryTable, said: Answers) -> list[str]:
    notes = [
        "open: nothing limits the angle; such samples count as the worst",
        "Kendall: rank correlation of scores with those under the strongest attack",
        f"Of which network? {said.which[0]}",
        f"How sure is that? {' '.join(f'{text}.' for text in said.sure)}",
        f"What would change them? {' '.join(said.changes)}",
        *conditions(run.manifest),
        *by_claim(run),
        *failures(cells(run.rows())),
    ]
    notes += [f"{block.title}: {block.note}" for block in found.blocks if block.note]
    if not run.finished:
        missing = len(run.missing())
        notes.append(f"not finished: {missing} of {run.manifest.batches} batches are missing")
    return notes
