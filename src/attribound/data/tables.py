"""Tables of named columns as examples: numbers as they are, categories one feature each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from attribound.basics.errors import InputError
from attribound.basics.limits import refuse_inflation
from attribound.data.columns import Columns
from attribound.data.examples import UNKNOWN, InMemory, numbered_classes
from attribound.data.values import label_numbers

#: What a column of labels is called unless it is named.
LABELS = ("label", "labels", "target", "y", "class")
NONE = "none"
#: How a value that is not there is written.
MISSING = frozenset({"", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "?"})
_MOST_CATEGORIES = 100
#: Of a table.
MOST_COLUMNS = 2**16
_DIGITS = 18
_EMPTY = repr("")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(\.\d{3})*,\d+")
_WITH_UNIT = re.compile(r"[+-]?([$€£¥] ?[+-]?\d[\d.,]*|\d[\d.,]* ?[%$€£¥])")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([,.' \u00a0\u202f]\d{3})+([.,]\d+)?")


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are what.

    Attributes:
        label: the class; None for the first of ``label``, ``labels``, ``target``, ``y``, ``class``;
            ``none`` if it is not known.
        id: names the examples; no feature.
        drop: columns that are no features.
        categories: the values of a column, in the order its features shall have: as in training,
            for a file may lack some. Of the label: the classes. Numbers that are categories are
            named here, too. A name that is no column joins the columns that it lists, which have 0
            and 1 already.
    """

    label: str | None = None
    id: str | None = None
    drop: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


#: A column as it was read: numbers, or texts; None where there is nothing.
Cells = np.ndarray[Any, Any] | Sequence[str | None]


def table_examples(name: str, table: Mapping[str, Cells], layout: Layout) -> InMemory:
    """The rows of a table as examples, in the units of its columns.

    Raises:
        InputError: a column is not there, a value is missing or no number, or a category unknown.
    """
    _check_names(name, table, layout)
    if len(table) > MOST_COLUMNS:
        raise InputError(
            name,
            expected=f"at most {MOST_COLUMNS:,} columns",
            got=f"{len(table):,}",
            remedy="save what has more values as arrays, in .npz",
        )
    if not any(map(len, table.values())):
        raise InputError(
            name,
            expected="rows below the names of the columns",
            got="none",
            remedy="check how the table was written",
        )
    label = label_column(name, list(table), layout)
    features: list[np.ndarray[Any, Any]] = []
    names: dict[str, int] = {}
    groups: list[int] = []
    called: list[str] = []
    categories: dict[str, tuple[str, ...]] = {}
    owners = {part: joint for joint, parts in layout.categories.items() for part in parts}
    for column, cells in table.items():
        if column in (label, layout.id, *layout.drop):
            continue
        joint = owners.get(column) if owners.get(column) not in table else None
        values, found = _column(name, column, cells, layout.categories.get(column))
        group = joint or column
        number = names.setdefault(group, len(names))
        if found is not None:
            categories[column] = found
        elif joint is not None:
            categories[joint] = layout.categories[joint]
        features.append(values)
        groups += [number] * values.shape[1]
        refuse_inflation(
            name,
            2 * values.itemsize * len(groups) * len(values),  # in pieces and together
            2 * len(table) * len(values),  # a cell has a character and a separator
            "join rare values of its categories, or audit fewer rows at a time",
        )
        called += [column] if found is None else [f"{column}={value}" for value in found]
    if not features:
        raise InputError(
            name,
            expected="at least one column of features",
            got=f"only {', '.join(table)}",
            remedy="check --label, --id and --drop",
        )
    # A joint category may have its columns apart: columns in the order of the features they have.
    x = np.concatenate(features, axis=1)
    rows = len(x)
    labels, classes = _labels(name, table, label, layout, rows)
    made = InMemory(name, torch.from_numpy(x), labels, classes)
    made.columns = Columns(tuple(names), tuple(groups), tuple(called), categories)
    if layout.id is not None:
        made.ids = _ids(name, layout.id, table[layout.id])
    return made


def label_column(name: str, columns: Sequence[str], layout: Layout) -> str | None:
    """The column of the labels; None if they are said not to be known.

    Raises:
        InputError: there is none.
    """
    if layout.label == NONE and NONE not in columns:
        return None
    wanted = LABELS if layout.label is None else (layout.label,)
    found = next((column for column in wanted if column in columns), None)
    if found is None:
        raise InputError(
            name,
            expected=f"a column of labels ({', '.join(wanted)})",
            got=", ".join(columns),
            remedy="name the column that has the class (--label NAME), or say that there is none "
            "(--label none)",
        )
    return found


def _check_names(name: str, table: Mapping[str, Cells], layout: Layout) -> None:
    asked = [each for each in (layout.id, *layout.drop) if each is not None]
    for column, values in layout.categories.items():
        if column not in table and column not in asked:  # one-hot already, or not there at all
            asked += values if any(each in table for each in values) else [column]
    for column in asked:
        if column not in table:
            raise InputError(
                name,
                expected=f"a column {column!r}",
                got=", ".join(table),
                remedy="check the spelling",
            )


def _column(
    name: str, column: str, cells: Cells, given: Sequence[str] | None
) -> tuple[np.ndarray[Any, Any], tuple[str, ...] | None]:
    """One column as ``(rows, features)``, and its categories if it is one of texts."""
    if isinstance(cells, np.ndarray) and given is None:
        numbers = cells.astype(np.float64)
        with np.errstate(over="ignore"):
            fine = np.isfinite(numbers.astype(np.float32))
        _refuse_rows((name, column), ~fine, cells, "finite numbers", "remove or fill in such rows")
        return numbers[:, None].astype(np.float32), None
    texts = as_texts(cells)
    _refuse_missing(name, column, texts)
    if given is None:
        if all(map(_NUMBER.fullmatch, texts)):
            return _column(name, column, np.array(texts, np.float64), None)
        _refuse_numbers(name, column, texts)
    values = tuple(given) if given is not None else tuple(sorted({*texts}))
    if given is None and len(values) > _MOST_CATEGORIES:
        raise InputError(
            name,
            expected=f"a number, or at most {_MOST_CATEGORIES} categories, in column {column!r}",
            got=f"{len(values)} different texts, e.g. {texts[0]!r}",
            remedy=f"leave it out (--drop {column}), use it as names of examples "
            f"(--id {column}), or turn it into numbers",
        )
    places = {value: number for number, value in enumerate(values)}
    unknown = np.array([text not in places for text in texts], np.bool_)
    expected = f"one of {', '.join(values)}"
    _refuse_rows((name, column), unknown, texts, expected, "name all categories that there are")
    encoded = np.zeros((len(texts), len(values)), np.float32)
    encoded[np.arange(len(texts)), [places[text] for text in texts]] = 1.0
    return encoded, values


def as_texts(cells: Cells) -> list[str]:
    """Cells as texts, whole numbers without a point; empty where there is nothing."""
    if isinstance(cells, np.ndarray):
        return [str(int(cell)) if float(cell).is_integer() else repr(float(cell)) for cell in cells]
    return ["" if cell is None else cell.strip() for cell in cells]


def _refuse_missing(name: str, column: str, texts: Sequence[str]) -> None:
    gone = np.array([text in MISSING for text in texts], np.bool_)
    remedy = "remove or fill in these rows; nothing is filled in for you"
    _refuse_rows((name, column), gone, texts, "a value in every row", remedy)


def _refuse_numbers(name: str, column: str, texts: Sequence[str]) -> None:
    """Refuse numbers that are written in a way that can be read in two."""
    ways = (
        (_THOUSANDS, "numbers without separators of thousands", "write 1234567.8"),
        (_DECIMAL_COMMA, "numbers with a decimal point", "write 3.14, not 3,14"),
        (_WITH_UNIT, "numbers without a unit", "write the number alone, or name all categories"),
    )
    for pattern, expected, remedy in ways:
        odd = np.array([bool(pattern.fullmatch(t)) and not _NUMBER.fullmatch(t) for t in texts])
        _refuse_rows((name, column), odd, texts, expected, remedy)
    others = np.array([not _NUMBER.fullmatch(text) for text in texts], np.bool_)
    # A few texts among numbers are mistakes; a few numbers among texts are names.
    if 2 * others.sum() <= len(texts):
        remedy = "correct these cells, or name all categories if it is one"
        _refuse_rows((name, column), others, texts, "numbers", remedy)


def _refuse_rows(
    where: tuple[str, str], bad: np.ndarray[Any, Any], cells: Cells, expected: str, remedy: str
) -> None:
    """Refuse cells of a column, ``where`` is that of the data and of it; the first by its row."""
    if not bad.any():
        return
    name, column = where
    first, more = int(bad.argmax()), int(bad.sum()) - 1
    what = f"{cells[first]:g}" if isinstance(cells, np.ndarray) else repr(cells[first])
    rest = f", and {more} more in that column" if more else ""
    raise InputError(
        name,
        expected=f"{expected} in column {column!r}",
        got=f"{what if what != _EMPTY else 'nothing'} in row {first + 1}{rest}",
        remedy=remedy,
    )


def _labels(
    name: str, table: Mapping[str, Cells], label: str | None, layout: Layout, rows: int
) -> tuple[torch.Tensor, Sequence[str]]:
    """Numbers of the classes and their names; whole numbers from 0 are their own."""
    if label is None:
        return torch.full((rows,), UNKNOWN), layout.categories.get(NONE, ())
    cells, given = table[label], layout.categories.get(label)
    if isinstance(cells, np.ndarray) and given is None:
        numbers = label_numbers(name, cells)
        return numbers, numbered_classes(name, numbers)
    texts = as_texts(cells)
    _refuse_missing(name, label, texts)
    if given is None and all(map(str.isdecimal, texts)):
        # More digits than integers have are too large in any case, which is said next.
        numbers = torch.tensor([int(text.lstrip("0")[:_DIGITS] or 0) for text in texts])
        return numbers, numbered_classes(name, numbers)
    classes = tuple(given) if given is not None else tuple(_ordered({*texts}))
    places = {value: number for number, value in enumerate(classes)}
    unknown = np.array([text not in places for text in texts], np.bool_)
    _refuse_rows((name, label), unknown, texts, f"one of {', '.join(classes)}", "name all classes")
    return torch.tensor([places[text] for text in texts]), classes


def _ordered(texts: set[str]) -> Iterator[str]:
    numbers = all(map(_NUMBER.fullmatch, texts))
    yield from sorted(texts, key=float) if numbers else sorted(texts)


def _ids(name: str, column: str, cells: Cells) -> tuple[str, ...]:
    texts = as_texts(cells)
    _refuse_missing(name, column, texts)
    first = {text: row for row, text in reversed([*enumerate(texts)])}
    again = np.array([first[text] != row for row, text in enumerate(texts)], np.bool_)
    _refuse_rows(
        (name, column), again, texts, "every name once", "choose a column that tells apart"
    )
    return tuple(texts)
