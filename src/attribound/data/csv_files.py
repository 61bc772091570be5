"""CSV files with a line of names: columns of texts, checked cell by cell when they are used."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attribound.basics.errors import InputError
from attribound.data.examples import InMemory
from attribound.data.splits import Split, whole
from attribound.data.tables import Layout, table_examples

_SEPARATORS = ",;\t"
_PARTS = {"train": ("train",), "test": ("test", "validation", "val")}


def read_csv(path: Path, layout: Layout) -> InMemory:
    """The rows of a CSV file; its first line names the columns.

    Separated by commas, or by semicolons or tabs where the first line has no comma. Encoded in
    UTF-8. Columns of numbers are features, columns of texts categories, with a feature a value.

    Raises:
        InputError: the file is no table, or a cell can't be used; row and column are named.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            separator = next((each for each in _SEPARATORS if each in first), ",")
            lines = [line for line in csv.reader(file, delimiter=separator, strict=True) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            str(path), expected="a CSV file in UTF-8", got=str(error), remedy="save it again so"
        ) from error
    names, rows = _named(path, lines)
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise InputError(
                path.name,
                expected=f"{len(names)} cells in every row, as the first line names",
                got=f"{len(row)} in row {number}",
                remedy="put texts that contain the separator in quotes; numbers have a decimal "
                "point and no separators of thousands",
            )
    table: dict[str, list[str | None]] = {
        name: [row[number] for row in rows] for number, name in enumerate(names)
    }
    return table_examples(path.stem, table, layout)


def csv_of_part(path: Path, split: Split | None) -> Path:
    """``path``, or the file ``train*.csv``, ``test*.csv`` (or ``val*.csv``) of that folder.

    Raises:
        InputError: there is no such part, or more than one file of it.
    """
    if path.is_file():
        if not path.name.startswith(_PARTS[split or "test"]):
            whole(str(path), split)
        return path
    files = sorted(path.glob("*.csv"))
    known = [file for file in files if file.name.startswith(sum(_PARTS.values(), ()))]
    if not known:
        whole(str(path), split)
    part = [file for file in known if file.name.startswith(_PARTS[split or "test"])] or files
    if len(part) != 1:
        raise InputError(
            str(path),
            expected=f"one file {split or 'test'}*.csv",
            got=", ".join(file.name for file in part),
            remedy="give the path of one file",
        )
    return part[0]


def _named(path: Path, lines: Sequence[list[str]]) -> tuple[list[str], Sequence[list[str]]]:
    names = [name.strip() for name in lines[0]] if lines else []
    again = [name for name, count in Counter(names).items() if count > 1]
    if not names or again or not all(names):
        raise InputError(
            path.name,
            expected="a first line that names every column once",
            got=f"{again[0]!r} twice" if again else "a column without a name" if names else "none",
            remedy="write names into the first line",
        )
    return names, lines[1:]
