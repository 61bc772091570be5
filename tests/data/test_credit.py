"""Two tables of credit: one in the package, one from its file in either form."""

from __future__ import annotations

import csv

import pytest
import torch

import attribound as ab
from attribound.data import arrays, credit, load


def test_the_german_table_is_in_the_package() -> None:
    train, test = (load("credit-german", part) for part in ("train", "test"))
    assert (len(train), len(test)) == (800, 200)
    assert test.classes == ("bad", "good")
    assert test.labels.float().mean() == pytest.approx(0.7)
    assert train.columns == test.columns
    assert len(test.columns.names) == 20
    assert len(test.columns.features) == 61
    assert len(test.columns.categories) == 13
    # Every category is one of its features, and only one.
    x, groups = arrays(test)[0], torch.tensor(test.columns.groups)
    for number, name in enumerate(test.columns.names):
        if name in test.columns.categories:
            assert (x[:, groups == number].sum(1) == 1).all()


OFFICIAL = ["ID", "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", "default payment next month"]


def rows(count: int):
    for row in range(count):
        yield [row + 1, 1000 * row, 1 + row % 2, row % 7, row % 4, 20 + row, row % 2]


def written(path, form: str, count: int = 40):
    with (path / "taiwan.csv").open("w", newline="") as file:
        out = csv.writer(file)
        if form == "official":
            out.writerows([OFFICIAL, *rows(count)])
            return
        parts = [f"EDUCATION_{n}" for n in range(7)] + [f"MARRIAGE_{n}" for n in range(4)]
        out.writerow(["ID", "LIMIT_BAL", "SEX", "AGE", "default-payment-next-month", *parts])
        for person, limit, sex, education, marriage, age, default in rows(count):
            ones = [int(n == education) for n in range(7)] + [int(n == marriage) for n in range(4)]
            out.writerow([person, limit, sex - 1, age, default, *ones])


@pytest.mark.parametrize("form", ["official", "one-hot"])
def test_the_table_of_taiwan_in_both_forms(tmp_path, monkeypatch, form) -> None:
    monkeypatch.setattr(credit, "_ROWS", 40)
    folder = tmp_path / "credit-taiwan"
    folder.mkdir()
    written(folder, form)
    data = load("credit-taiwan", root=tmp_path)
    assert len(data) == 8
    assert data.classes == ("paid", "default")
    assert [*data.columns.categories["SEX"]] == ["male", "female"]
    x = arrays(data)[0]
    for place, person in enumerate(map(int, data.ids)):
        _, limit, sex, education, marriage, age, default = [*rows(40)][person - 1]
        assert x[place, data.columns.of("LIMIT_BAL")[0]] == limit
        assert x[place, data.columns.of("AGE")[0]] == age
        assert x[place, data.columns.of("SEX")].argmax() == sex - 1
        assert x[place, data.columns.of("EDUCATION")].argmax() == education
        assert x[place, data.columns.of("MARRIAGE")].argmax() == marriage
        assert data.labels[place] == default


def test_refuses_no_file_and_another(tmp_path) -> None:
    with pytest.raises(ab.InputError, match=r"expected taiwan.csv in .* got no such file; fetch"):
        load("credit-taiwan", root=tmp_path)
    (tmp_path / "credit-taiwan").mkdir()
    written(tmp_path / "credit-taiwan", "official")
    with pytest.raises(ab.InputError, match=r"expected 30000 rows .* got 40 rows of ID"):
        load("credit-taiwan", root=tmp_path)
    (tmp_path / "credit-taiwan" / "taiwan.csv").write_text("a,b\n")
    with pytest.raises(ab.InputError, match="got 0 rows of nothing"):
        load("credit-taiwan", root=tmp_path)
