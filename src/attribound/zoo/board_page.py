"""The leaderboard as one page that needs nothing else: tables that sort, how to add a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from attribound.zoo.leaderboard import HEADER, by_data, cells, hows, rows
from attribound.zoo.record import Card

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 88rem; margin: 2rem auto; padding: 0 1rem; }
.wide {
  overflow-x: auto; --back: light-dark(#fff, #121212);
  background:
    linear-gradient(to right, var(--back) 40%, transparent) left / 2.5rem 100% no-repeat local,
    linear-gradient(to left, var(--back) 40%, transparent) right / 2.5rem 100% no-repeat local,
    linear-gradient(to right, #8888, transparent) left / .7rem 100% no-repeat scroll,
    linear-gradient(to left, #8888, transparent) right / .7rem 100% no-repeat scroll;
}
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #8884; }
th, td { text-align: right; white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid; }
th[aria-sort=ascending] button::after { content: " ▲"; }
th[aria-sort=descending] button::after { content: " ▼"; }
"""

_SCRIPT = """
const sort = button => {
  const head = button.parentElement, table = head.closest("table"), body = table.tBodies[0];
  const down = head.getAttribute("aria-sort") !== "descending";
  for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const at = row => row.cells[head.cellIndex].textContent;
  const value = row => {
    const n = parseFloat(at(row));
    return Number.isNaN(n) ? -Infinity : n;
  };
  const text = head.cellIndex < 2;
  const order = (a, b) => text ? at(b).localeCompare(at(a)) : value(b) - value(a);
  body.append(...[...body.rows].sort((a, b) => down ? order(a, b) : order(b, a)));
};
for (const button of document.querySelectorAll("th button"))
  button.addEventListener("click", () => sort(button));
"""

_CODE, _AS_CODE = re.compile("`([^`]*)`"), r"<code>\1</code>"

_ADDING = """<h2>Add a model</h2>
<p>Put <code>DATA/METHOD.json</code>, its card, and <code>DATA/METHOD.safetensors</code> into a
folder, name the folder in <code>ATTRIBOUND_ZOO</code> and run <code>attribound leaderboard</code>
again. <code>attribound zoo show NAME</code> prints a card to begin with. Every number of the zoo is
read from a card; a card says how it was measured and has the checksum of the weights.</p>
<p>Or audit a network of yours on the same samples,
<code>attribound audit --model MODULE:FUNCTION --data DATA --out runs/mine</code>, and write
<code>attribound leaderboard --runs runs</code>: every run in the folder becomes a row, beside runs
on the same samples with the same attribution, ball and radius.</p>"""


@dataclass(frozen=True)
class BoardTable:
    """A table of the page: a heading, what stands under it, and rows of texts that sort."""

    title: str
    notes: tuple[str, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def html(self) -> str:
        """As HTML; all texts are shown as texts."""
        head = "".join(
            f"<th scope=col><button>{escape(name)}</button></th>" for name in self.header
        )
        body = "\n".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
        notes = [f"<p>{_CODE.sub(_AS_CODE, escape(text))}</p>" for text in self.notes]
        title = f"<h2>{escape(self.title)}</h2>"
        return "\n".join([title, *notes, f"<div class=wide>{table}</div>"])


def board_page(
    cards: Iterable[Card], sort: str = "kendall", more: Sequence[BoardTable] = ()
) -> str:
    """The page, as HTML: ``more`` tables, then one for each data set of the cards.

    Raises:
        InputError: it cannot be sorted by that.
    """
    own = {card.name: card for card in cards}
    parts = [table.html() for table in more]
    for data, group in by_data(rows(own.values(), sort)):
        notes = tuple(hows([own[row.name] for row in group]))
        table = BoardTable(data, notes, HEADER, tuple(tuple(cells(row)) for row in group))
        parts.append(table.html())
    about = (
        f"{len(own)} networks, each with what its explanations are worth under attack: top-k is "
        "the share of the most important features that stay so, the others say how alike maps are "
        "before and after; 1 is the same. A click on a heading sorts."
    )
    view = '<meta name=viewport content="width=device-width, initial-scale=1">'
    title = "<title>attribound: leaderboard</title>"
    return "\n".join(
        [
            "<!doctype html>",
            f"<html lang=en><head><meta charset=utf-8>{view}{title}",
            f"<style>{_STYLE}</style></head><body><h1>Attributions under attack</h1>",
            f"<p>{about}</p>",
            *(parts or ["<p>No models.</p>"]),
            _ADDING,
            f"<script>{_SCRIPT}</script></body></html>",
            "",
        ]
    )
