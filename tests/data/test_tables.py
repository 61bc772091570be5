"""Tables as people have them: every cell is read for what it is, or refused by row and column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import attribound as ab
from attribound.basics import limits
from attribound.data import Columns, Layout, arrays, load, split, tables

TABLE = """who,age,income,housing,good
a,31,1200.5,own,yes
b,44,2000,rent,no
c,27,-3e2,own,yes
d,60,0.5,free,no
"""
LAYOUT = Layout(label="good", id="who")


def written(path, text: str = TABLE, name: str = "mine.csv"):
    (path / name).write_text(text, encoding="utf-8")
    return path / name


def changed(old: str, new: str) -> str:
    assert old in TABLE
    return TABLE.replace(old, new)


def test_numbers_categories_labels_and_names(tmp_path) -> None:
    data = load(written(tmp_path), layout=LAYOUT)
    x, y = arrays(data)
    expected = [[31, 1200.5, 0, 1, 0], [44, 2000, 0, 0, 1], [27, -300, 0, 1, 0], [60, 0.5, 1, 0, 0]]
    assert torch.equal(x, torch.tensor(expected))
    assert (data.name, data.classes, y.tolist()) == ("mine", ("no", "yes"), [1, 0, 1, 0])
    assert data.ids == ("a", "b", "c", "d")
    columns = data.columns
    assert columns.names == ("age", "income", "housing")
    assert columns.features == ("age", "income", "housing=free", "housing=own", "housing=rent")
    assert columns.groups == (0, 1, 2, 2, 2)
    assert columns.switches == (False, False, True, True, True)
    assert columns.of("housing") == [2, 3, 4]
    assert columns.of("housing=own") == [3]
    assert columns.called(3) == columns.names
    assert columns.called(5) == columns.features
    assert columns.called(4) is None


def test_parts_keep_their_names(tmp_path) -> None:
    data = load(written(tmp_path), layout=LAYOUT)
    assert data.select(torch.tensor([2, 0])).ids == ("c", "a")
    assert data.select(torch.tensor([False, True, False, True])).ids == ("b", "d")
    first, second = split(data, (2, 2))
    assert sorted(first.ids + second.ids) == ["a", "b", "c", "d"]
    assert first.columns is data.columns


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_and_a_mark_of_the_encoding(tmp_path, separator) -> None:
    data = load(written(tmp_path, "\ufeff" + TABLE.replace(",", separator)), layout=LAYOUT)
    assert data.columns.names == ("age", "income", "housing")


def test_given_categories_come_in_their_order(tmp_path) -> None:
    named = {"housing": ("rent", "own", "free", "none"), "good": ("yes", "no"), "age": ("27", "31")}
    text = changed("b,44", "b,31").replace("d,60", "d,27")
    data = load(written(tmp_path, text), layout=Layout("good", "who", ("income",), named))
    assert data.columns.features[:2] == ("age=27", "age=31")
    assert data.columns.features[2:] == (
        "housing=rent",
        "housing=own",
        "housing=free",
        "housing=none",
    )
    assert data.classes == ("yes", "no")
    assert arrays(data)[0][0].tolist() == [0, 1, 0, 1, 0, 0]


def test_columns_that_are_one_hot_already(tmp_path) -> None:
    text = "a_1,n,a_2,y\n1,5,0,0\n0,6,1,1\n"
    layout = Layout(categories={"a": ("a_1", "a_2")})
    columns = load(written(tmp_path, text), layout=layout).columns
    assert columns == Columns(("a", "n"), (0, 1, 0), ("a_1", "n", "a_2"), {"a": ("a_1", "a_2")})
    assert columns.switches == (True, False, True)
    assert columns.of("a") == [0, 2]


def test_classes_are_not_known(tmp_path) -> None:
    data = load(written(tmp_path), layout=Layout(label="none", id="who", drop=("good",)))
    assert data.labels.tolist() == [-1] * 4
    assert data.classes == ()


def test_classes_that_are_numbers(tmp_path) -> None:
    text = changed("yes", "1").replace("no", "0")
    assert load(written(tmp_path, text), layout=LAYOUT).labels.tolist() == [1, 0, 1, 0]
    text = changed("yes", "10").replace(",no", ",-2")
    assert load(written(tmp_path, text), layout=LAYOUT).classes == ("-2", "10")


def test_parquet_is_read_alike(tmp_path) -> None:
    csv = load(written(tmp_path), layout=LAYOUT)
    made = {
        "who": ["a", "b", "c", "d"],
        "age": np.array([31, 44, 27, 60]),
        "income": [1200.5, 2000, -300, 0.5],
        "housing": pa.array(["own", "rent", "own", "free"]).dictionary_encode(),
        "when": pa.array([0, 1, 2, 3], pa.date32()),
        "good": ["yes", "no", "yes", "no"],
    }
    pq.write_table(pa.table(made), tmp_path / "p.parquet")
    layout = Layout("good", "who", ("when",))
    parquet = load(tmp_path / "p.parquet", layout=layout)
    assert all(map(torch.equal, arrays(csv), arrays(parquet)))
    assert (csv.ids, csv.columns, csv.classes) == (parquet.ids, parquet.columns, parquet.classes)
    by_age = load(
        tmp_path / "p.parquet",
        layout=Layout("age", "who", ("when", "good"), {"age": ("27", "31", "44", "60")}),
    )
    assert by_age.labels.tolist() == [1, 2, 0, 3]


def test_parts_of_a_folder(tmp_path) -> None:
    written(tmp_path, name="train.csv")
    written(tmp_path, changed("31", "99"), name="test.csv")
    assert arrays(load(tmp_path, layout=LAYOUT))[0][0, 0] == 99
    assert arrays(load(tmp_path, "train", layout=LAYOUT))[0][0, 0] == 31
    assert len(load(tmp_path / "train.csv", "train", layout=LAYOUT)) == 4
    with pytest.raises(ab.InputError, match="expected a part for split='test'"):
        load(tmp_path / "train.csv", "test", layout=LAYOUT)
    written(tmp_path, name="test-2.csv")
    with pytest.raises(ab.InputError, match=r"one file test\*.csv, got test-2.csv, test.csv"):
        load(tmp_path, layout=LAYOUT)


def test_a_folder_of_one_file(tmp_path) -> None:
    written(tmp_path)
    assert len(load(tmp_path, layout=LAYOUT)) == 4
    with pytest.raises(ab.InputError, match="expected a part for split='train'"):
        load(tmp_path, "train", layout=LAYOUT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            changed("2000", ""),
            "a value in every row in column 'income', got nothing in row 2; remove",
        ),
        (changed("own", "NA"), "column 'housing', got 'NA' in row 1, and 1 more in that column"),
        (changed("yes", "?"), "a value in every row in column 'good', got '\\?' in row 1"),
        (changed("2000", '"2,5"'), "a decimal point in column 'income', got '2,5' in row 2; write"),
        (changed("2000", '"2,000"'), "separators of thousands in column 'income', got '2,000'"),
        (changed("2000", "2.000.000"), "separators of thousands .* got '2.000.000' in row 2"),
        (changed("2000", "2 000"), "separators of thousands .* got '2 000' in row 2"),
        (changed("2000", "2,000"), "expected 5 cells in every row, .* got 6 in row 2; put texts"),
        (changed("2000", "many"), "expected numbers in column 'income', got 'many' in row 2; corr"),
        (
            changed("2000", "$2000"),
            r"without a unit in column 'income', got '\$2000' in row 2; write",
        ),
        (changed("2000", "20 %"), "without a unit in column 'income', got '20 %' in row 2; write"),
        (changed("2000", "1e99"), r"finite numbers in column 'income', got 1e\+99 in row 2"),
        (changed("b,", "a,"), "every name once in column 'who', got 'a' in row 2; choose"),
        (changed("age,", "income,"), "names every column once, got 'income' twice"),
        (changed("age,", ","), "got a column without a name"),
        ("", "got none; write names"),
        (
            TABLE.splitlines(keepends=True)[0],
            "rows below the names of the columns, got none; check",
        ),
        (changed("own", '"own'), "expected a CSV file in UTF-8, got .*; save it again"),
        (changed("good", "bad"), r"a column of labels \(good\), got who, age.*--label NAME"),
        (changed("who", "whose"), "expected a column 'who', got whose, age"),
    ],
)
def test_refuses_by_row_and_column(tmp_path, text, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        load(written(tmp_path, text), layout=LAYOUT)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Layout("good", drop=("who", "wat")), "expected a column 'wat'"),
        (Layout("good", "who", ("age", "income", "housing")), "at least one column of features"),
        (
            Layout("good", "who", categories={"housing": ("own",)}),
            "of own in .* got 'rent' in row 2",
        ),
        (
            Layout("good", "who", categories={"good": ("no",)}),
            "one of no in .*'good', got 'yes' in",
        ),
        (Layout("good", "who", categories={"wat": ("x",)}), "expected a column 'wat'"),
        (Layout("good", "who", categories={"wat": ("age", "x")}), "expected a column 'x'"),
    ],
)
def test_refuses_other_layouts(tmp_path, layout, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        load(written(tmp_path), layout=layout)


def test_refuses_names_as_categories(tmp_path) -> None:
    text = "who,y\n" + "".join(f"n{row},{row % 2}\n" for row in range(120))
    with pytest.raises(
        ab.InputError, match=r"120 different texts, e.g. 'n0'; leave it out .--drop"
    ):
        load(written(tmp_path, text))


@pytest.mark.parametrize("digits", [20, 5000])
def test_labels_with_more_digits_than_numbers_have(tmp_path, digits) -> None:
    (tmp_path / "a.csv").write_text(f"a,y\n1,{'9' * digits}\n2,0\n")
    with pytest.raises(ab.InputError, match="number the classes from 0, at most 1000000, got 9999"):
        load(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(f"a,y\n1,{'0' * digits}1\n2,0\n")
    assert load(tmp_path / "a.csv").labels.tolist() == [1, 0]


def test_more_columns_than_a_table_has(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tables, "MOST_COLUMNS", 3)
    (tmp_path / "a.csv").write_text("a,b,y\n1,2,0\n")
    assert load(tmp_path / "a.csv").shape == (2,)
    (tmp_path / "a.csv").write_text("a,b,c,y\n1,2,3,0\n")
    with pytest.raises(ab.InputError, match="a: expected at most 3 columns, got 4; save"):
        load(tmp_path / "a.csv")


def test_categories_that_take_much_more_memory_than_their_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "ALWAYS", 2**10)
    rows = [f"{chr(65 + row % 50)},{row % 2}\n" for row in range(100)]
    (tmp_path / "a.csv").write_text("a,y\n" + "".join(rows))
    assert load(tmp_path / "a.csv").shape == (50,)
    monkeypatch.setattr(limits, "TIMES", 50)
    with pytest.raises(ab.InputError, match=r"at most 19.53 KiB in .*, got 39.06 KiB; join rare"):
        load(tmp_path / "a.csv")


def test_no_other_encoding(tmp_path) -> None:
    (tmp_path / "a.csv").write_bytes("größe,y\n1,0\n".encode("latin1"))
    with pytest.raises(ab.InputError, match="expected a CSV file in UTF-8"):
        load(tmp_path / "a.csv")


def test_a_layout_is_for_tables(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((2, 3)), y=[0, 1])
    for name in (tmp_path / "a.npz", "digits", tmp_path):
        with pytest.raises(ab.InputError, match="got data without named columns; leave"):
            load(name, layout=LAYOUT)
    with pytest.raises(ab.InputError, match="leave size out"):
        load(written(tmp_path), size=3, layout=LAYOUT)


def test_no_column_of_that_name() -> None:
    with pytest.raises(ab.InputError, match="column: expected one of a, b, got 'c'; check"):
        Columns.plain(["a", "b"]).of("c")
    assert not Columns.plain(["a", "b"]).grouped


def test_tokens_have_channels() -> None:
    columns = Columns.tokens(["the", "end"], 2)
    assert columns.groups == (0, 0, 1, 1)
    assert columns.features == ("the [0]", "the [1]", "end [0]", "end [1]")
    assert columns.grouped
