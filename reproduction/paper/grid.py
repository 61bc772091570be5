"""A table with numbers of ours and of the paper side by side, as Markdown, LaTeX and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attribound.basics import store_whole, storing
from reproduction.paper.statistics import ERROR, HIGH, LOW, Numbers

_NONE = "-"
#: How many samples numbers are of: those with a bound, and those that were attacked.
_SIZES = ("n", "n_attack", "n_certificate")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "∞": r"$\infty$",
    "ε": r"$\varepsilon$",
    "°": r"$^\circ$",
    "±": r"$\pm$",
    **{character: rf"\{character}" for character in "&%$#_{}"},
}


@dataclass(frozen=True)
class Column:
    """One column: what it shows, its heading, and how it is written.

    Attributes:
        key: of the number.
        text, latex: headings.
        digits: after the point.
        bracket: key of a per cent shown behind the number.
    """

    key: str
    text: str
    latex: str
    digits: int = 4
    bracket: str | None = None


@dataclass(frozen=True)
class Columns:
    """Columns under one heading."""

    title: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Line:
    """A model, or whatever a row is of: for each group our numbers and the paper's.

    Attributes:
        reason: why there are none of ours; empty if there are.
    """

    title: str
    ours: tuple[Numbers, ...]
    paper: tuple[Mapping[str, float], ...]
    reason: str = ""


@dataclass(frozen=True)
class Section:
    """Rows under one heading."""

    title: str
    groups: tuple[Columns, ...]
    rows: tuple[Line, ...]


@dataclass(frozen=True)
class Grid:
    """A table.

    Attributes:
        name: of its files.
        title: what it shows.
        blocks: below each other.
        notes: what a reader must know.
    """

    name: str
    title: str
    blocks: tuple[Section, ...]
    notes: tuple[str, ...] = field(default=())

    def markdown(self) -> str:
        """Every block as a table; the paper's numbers in parentheses."""
        lines = [f"**{self.title}**", ""]
        for block in self.blocks:
            head = [
                f"{group.title} {column.text}".strip()
                for group in block.groups
                for column in group.columns
            ]
            lines += [
                f"| {' | '.join([block.title, 'n', *head])} |",
                f"|{'---|' * (len(head) + 2)}",
                *(f"| {' | '.join(_cells(block, row))} |" for row in block.rows),
                "",
            ]
        lines += [f"- {note}" for note in self.notes]
        return "\n".join(lines).rstrip()

    def latex(self) -> str:
        """For booktabs, laid out as the paper has it; its numbers small behind ours."""
        width = 1 + max(sum(len(g.columns) for g in block.groups) for block in self.blocks)
        groups = max(self.blocks, key=lambda block: len(block.groups)).groups
        form = "|".join("c" * len(group.columns) for group in groups)
        lines = [r"% \usepackage{booktabs}", rf"\begin{{tabular}}{{l{form}}}", r"\toprule"]
        for i, block in enumerate(self.blocks):
            lines += _heading(block, i == 0, width)
            for row in block.rows:
                title = escape_latex(row.title)
                if row.reason and not any(row.paper) and not any(row.ours):
                    reason = rf"\multicolumn{{{width - 1}}}{{c}}{{{escape_latex(row.reason)}}}"
                    lines.append(rf"{title} & {reason} \\")
                else:
                    cells = (_latex_cell(*each) for each in _numbers(block, row))
                    lines.append(" & ".join([title, *cells]) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
        return "\n".join(lines)

    def record(self) -> dict[str, Any]:
        """All numbers, also those that are not shown, as plain values."""
        return {
            "name": self.name,
            "title": self.title,
            "notes": list(self.notes),
            "blocks": [
                {
                    "title": block.title,
                    "groups": [
                        {"title": g.title, "columns": [vars(c) for c in g.columns]}
                        for g in block.groups
                    ],
                    "rows": [
                        {
                            "title": row.title,
                            "reason": row.reason,
                            "ours": [dict(each) for each in row.ours],
                            "paper": [dict(each) for each in row.paper],
                        }
                        for row in block.rows
                    ],
                }
                for block in self.blocks
            ],
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Grid:
        """What :meth:`record` describes."""
        blocks = tuple(
            Section(
                block["title"],
                tuple(
                    Columns(g["title"], tuple(Column(**c) for c in g["columns"]))
                    for g in block["groups"]
                ),
                tuple(
                    Line(row["title"], tuple(row["ours"]), tuple(row["paper"]), row["reason"])
                    for row in block["rows"]
                ),
            )
            for block in record["blocks"]
        )
        return cls(record["name"], record["title"], blocks, tuple(record["notes"]))

    def write(self, folder: Path) -> list[Path]:
        """``NAME.md``, ``NAME.tex`` and ``NAME.json``."""
        return write_all(
            folder,
            {
                f"{self.name}.md": self.markdown(),
                f"{self.name}.tex": self.latex(),
                f"{self.name}.json": json.dumps(self.record(), indent=1, allow_nan=False),
            },
        )


def escape_latex(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> escape_latex("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return "".join(_LATEX.get(character, character) for character in text)


def write_all(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Texts as files in a folder, each whole or not at all."""
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        store_whole(folder / name, f"{text}\n".encode())
    return [folder / name for name in files]


def _numbers(
    block: Section, row: Line
) -> Iterator[tuple[Column, Mapping[str, float | None], Mapping[str, float]]]:
    for group, ours, paper in zip(block.groups, row.ours, row.paper, strict=True):
        for column in group.columns:
            yield column, ours, paper


def _cells(block: Section, row: Line) -> list[str]:
    sizes = sorted({int(each[n] or 0) for each in row.ours for n in _SIZES if n in each})
    size = "/".join(map(str, sizes)) or _NONE
    texts = []
    for column, ours, paper in _numbers(block, row):
        own, theirs = _written(column, ours), _written(column, paper)
        texts.append(f"{own} ({theirs})" if theirs != _NONE else own)
    if row.reason:
        return [f"{row.title} ({row.reason})", size, *texts]
    return [row.title, size, *texts]


def _heading(block: Section, first: bool, width: int) -> list[str]:
    """What stands above the rows of a block, as the paper has it."""
    title = escape_latex(block.title)
    names = [column.latex for group in block.groups for column in group.columns]
    if not any(group.title for group in block.groups):  # columns once, then titles of blocks
        head = [" & ".join(["Model", *names]) + r" \\"] if first else []
        over = rf"\multicolumn{{{width}}}{{c}}{{{title}}} \\"
        return [*head, r"\midrule", over, r"\midrule"]
    groups = (
        rf"\multicolumn{{{len(g.columns)}}}{{c}}{{{escape_latex(g.title)}}}" for g in block.groups
    )
    return [
        *([] if first else [r"\midrule", r"\midrule"]),
        " & ".join(["", *groups]) + r" \\",
        *_rules(block),
        " & ".join([title, *names]) + r" \\",
        r"\midrule",
    ]


def _latex_cell(
    column: Column, ours: Mapping[str, float | None], paper: Mapping[str, float]
) -> str:
    own, theirs = (
        _written(column, each).replace("%", r"\%").replace("±", r"$\pm$") for each in (ours, paper)
    )
    return own if theirs == _NONE else rf"{own} {{\scriptsize({theirs})}}"


def _written(column: Column, numbers: Mapping[str, float | None]) -> str:
    value = numbers.get(column.key)
    if value is None:
        return _NONE
    error = numbers.get(column.key + ERROR)
    around = "" if error is None else f" ± {error:.{column.digits}f}"
    return f"{value:.{column.digits}f}{around}{_behind(column, numbers)}"


def _behind(column: Column, numbers: Mapping[str, float | None]) -> str:
    """A share in brackets, with its interval if it has one."""
    share = numbers.get(column.bracket) if column.bracket else None
    if share is None:
        return ""
    low, high = (numbers.get(f"{column.bracket}{end}") for end in (LOW, HIGH))
    if low is None or high is None:
        return f" [{share:.2f}%]"
    return f" [{share:.1f}%, {low:.0f}-{high:.0f}]"


def _rules(block: Section) -> list[str]:
    rules, first = [], 2
    for group in block.groups:
        last = first + len(group.columns) - 1
        rules.append(rf"\cmidrule(r){{{first}-{last}}}")
        first = last + 1
    return ["".join(rules)]
