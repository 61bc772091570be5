"""The leaderboard as one page that needs nothing else: tables that sort, how to add a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from attribound.basics.terminal import visible
from attribound.zoo.leaderboard import HEADER, by_data, cells, hows, rows
from attribound.zoo.record import Card

_STYLE = """
:root {
  color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif;
  --back: light-dark(#fff, #14171a); --text: light-dark(#1c2024, #e6e9ec);
  --soft: light-dark(#5c6570, #a0a9b3); --accent: light-dark(#1f5fbf, #8ab4ff);
}
body {
  max-width: 76rem; margin: 0 auto; padding: 1rem; background: var(--back); color: var(--text);
}
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1.05rem; margin: 1.2rem 0 .3rem; }
p { max-width: 60rem; overflow-wrap: anywhere; }
.soft { color: var(--soft); font-size: .9rem; margin: .3rem 0; }
.hint { display: none; color: var(--accent); font-size: .85rem; margin: .3rem 0; }
.wide {
  overflow-x: auto;
  background:
    linear-gradient(to right, var(--back) 40%, transparent) left / 2.5rem 100% no-repeat local,
    linear-gradient(to left, var(--back) 40%, transparent) right / 2.5rem 100% no-repeat local,
    linear-gradient(to right, #8888, transparent) left / .7rem 100% no-repeat scroll,
    linear-gradient(to left, #8888, transparent) right / .7rem 100% no-repeat scroll;
}
table {
  border-collapse: separate; border-spacing: 0; font-size: .9rem;
  font-variant-numeric: tabular-nums;
}
th, td { padding: .3rem .6rem; border-bottom: 1px solid #8884; text-align: right; }
th, td { white-space: nowrap; }
.words { text-align: left; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid; }
th[aria-sort=ascending] button::after { content: " ▲"; }
th[aria-sort=descending] button::after { content: " ▼"; }
@media (max-width: 54rem) { .hint { display: block; } }
@media (max-width: 40rem) {
  tr > :first-child {
    position: sticky; left: 0; background: var(--back); min-width: 8.5rem;
    white-space: normal; overflow-wrap: anywhere;
  }
}
@media print { .wide { overflow: visible; background: none; } .hint { display: none; }
  table { font-size: 7pt; } th, td { padding: .1rem .25rem; white-space: normal; } }
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
    return at(row).startsWith("<") ? 0 : Number.isNaN(n) ? -Infinity : n;
  };
  const text = head.classList.contains("words");
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
    """A table of the page: a heading, what stands under it, and rows of texts that sort.

    ``data`` and ``about`` stand above the first of several tables that share them.
    """

    title: str
    notes: tuple[str, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    data: str = ""
    about: tuple[str, ...] = ()

    def html(self) -> str:
        """As HTML; all texts are shown as texts. A column that has nothing in it is left out."""
        columns = [
            (name, column)
            for name, *column in zip(self.header, *self.rows, strict=True)
            if any(cell != _NONE for cell in column) or not column
        ]
        kinds = ["" if all(map(_is_number, column)) else " class=words" for _, column in columns]
        heads = zip(kinds, columns, strict=True)
        head = "".join(
            f"<th scope=col{kind}><button>{escape(name)}</button></th>" for kind, (name, _) in heads
        )
        rows = zip(*(column for _, column in columns), strict=True)
        lines = [zip(kinds, row, strict=True) for row in rows]
        body = "\n".join(
            f"<tr>{''.join(f'<td{kind}>{escape(cell)}</td>' for kind, cell in line)}</tr>"
            for line in lines
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
        level = 3 if self.data else 2
        title = f"<h{level}>{escape(self.title)}</h{level}>"
        return "\n".join([title, *_said(self.notes), _HINT, f"<div class=wide>{table}</div>"])

    def above(self) -> list[str]:
        """The heading of all tables on the same data."""
        return [f"<h2>{escape(self.data)}</h2>", *_said(self.about)] if self.data else []


_NONE = "-"
_HINT = "<p class=hint>Wider than the screen: move it sideways →</p>"


def _said(texts: Iterable[str]) -> list[str]:
    return [f"<p class=soft>{_CODE.sub(_AS_CODE, escape(text))}</p>" for text in texts]


def _is_number(text: str) -> bool:
    """Whether a cell is read as a number, by which rows are sorted.

    >>> _is_number("180 (open)"), _is_number("< 1"), _is_number("-"), _is_number("certified")
    (True, True, True, False)
    """
    return text == _NONE or text.lstrip("<- ")[:1].isdigit()


def board_page(
    cards: Iterable[Card], sort: str = "kendall", more: Sequence[BoardTable] = ()
) -> str:
    """The page, as HTML: ``more`` tables, then one for each data set of the cards.

    Raises:
        InputError: it cannot be sorted by that.
    """
    own = {card.name: card for card in cards}
    parts, before = [], ""
    for table in more:
        parts += [*(table.above() if table.data != before else ()), table.html()]
        before = table.data
    for data, group in by_data(rows(own.values(), sort)):
        notes = tuple(hows([own[row.name] for row in group]))
        table = BoardTable(data, notes, HEADER, tuple(tuple(cells(row)) for row in group))
        parts.append(table.html())
    about = (
        f"{len(own)} networks have cards, each with what its explanations are worth under attack: "
        "top-k is the share of the most important features that stay so, the others say how alike "
        "maps are before and after; 1 is the same. A click on a heading sorts."
    )
    view = '<meta name=viewport content="width=device-width, initial-scale=1">'
    title = "<title>attribound: leaderboard</title>"
    page = "\n".join(
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
    return visible(page)
