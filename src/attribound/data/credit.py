"""Two tables of people who asked for credit: known from many studies, from UCI, CC BY 4.0."""

from __future__ import annotations

import csv
from importlib import resources
from pathlib import Path

from attribound.basics.errors import InputError
from attribound.data.examples import InMemory
from attribound.data.parquet import read_parquet
from attribound.data.splits import Split, hold_out
from attribound.data.tables import Layout, table_examples

GERMAN, TAIWAN = "credit-german", "credit-taiwan"
CREDIT = (GERMAN, TAIWAN)
_TEST = 0.2  # of every class; there are no official parts
_EDUCATION = ("0", "graduate school", "university", "high school", "others", "5", "6")
_MARRIAGE = ("0", "married", "single", "others")
_SEX = ("male", "female")
_ROWS = 30_000
_OUTCOME = ("default-payment-next-month", "default payment next month")


def credit_german(split: Split | None) -> InMemory:
    """1,000 customers of a German bank, 20 columns, good or bad; whole, in the package.

    Statlog (German Credit Data), H. Hofmann, 1994, https://doi.org/10.24432/C5NC77, CC BY 4.0. A
    fixed fifth of each class is the test part. Categories have the names of a copy in wide use,
    which takes one code of ``personal_status_and_sex`` for another.
    """
    place = resources.files("attribound.data") / "samples" / "credit-german.parquet"
    with resources.as_file(place) as file:
        whole = read_parquet(GERMAN, [file], None, Layout(label="creditability"))
    assert isinstance(whole, InMemory)
    return hold_out(whole, split, _TEST)


def credit_taiwan(folder: Path, split: Split | None) -> InMemory:
    """30,000 clients of a bank in Taiwan, 23 columns; class 1 did not pay in the month after.

    Default of Credit Card Clients, I.-C. Yeh, 2009, https://doi.org/10.24432/C55S3H, CC BY 4.0,
    from ``taiwan.csv``: the official sheet saved as CSV, or a copy with one-hot categories.

    Raises:
        InputError: the file is not there, or another.
    """
    path = next(
        (
            f
            for f in (folder / "taiwan.csv", folder.parent / "credit" / "taiwan.csv")
            if f.is_file()
        ),
        None,
    )
    if path is None:
        raise InputError(
            TAIWAN,
            expected=f"taiwan.csv in {folder}",
            got="no such file",
            remedy="fetch https://archive.ics.uci.edu/dataset/350, save the sheet as CSV in UTF-8, "
            f"its second line (ID, LIMIT_BAL, ...) first, and put it at {folder / 'taiwan.csv'}",
        )
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [*csv.DictReader(file)]
    outcome = next((name for name in _OUTCOME if rows and name in rows[0]), None)
    if outcome is None or len(rows) != _ROWS:
        raise InputError(
            str(path),
            expected=f"{_ROWS} rows with a column {_OUTCOME[1]!r}",
            got=f"{len(rows)} rows of {', '.join(rows[0]) if rows else 'nothing'}",
            remedy="fetch it again",
        )
    table = {name: [row[name] for row in rows] for name in rows[0]}
    joint = {"EDUCATION": _EDUCATION, "MARRIAGE": _MARRIAGE}
    if "EDUCATION_0" in table:
        for name, values in joint.items():
            parts = [table.pop(f"{name}_{number}") for number in range(len(values))]
            table[name] = [str(each.index("1")) for each in zip(*parts, strict=True)]
        table["SEX"] = [str(int(code) + 1) for code in table["SEX"]]
    for name, values in joint.items():
        table[name] = [values[int(code)] for code in table[name]]
    table["SEX"] = [_SEX[int(code) - 1] for code in table["SEX"]]
    ordered = {name: cells for name, cells in table.items() if name != outcome}
    layout = Layout("y", "ID", categories={**joint, "SEX": _SEX})
    whole = table_examples(TAIWAN, {**ordered, "y": table[outcome]}, layout)
    whole.classes = ("paid", "default")
    return hold_out(whole, split, _TEST)
