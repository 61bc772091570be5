from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

import tiny_zoo
from attribound.basics.errors import InputError
from attribound.metrics import Mean, Share
from attribound.zoo import markdown
from attribound.zoo.board_page import BoardTable, board_page
from attribound.zoo.leaderboard import SORTS, cells, how, hows, rows, to_csv


@pytest.fixture(scope="module")
def cards(tmp_path_factory):
    """Three cards with numbers whose order is known."""
    made = tiny_zoo.make(tmp_path_factory.mktemp("zoo"))

    def card(name: str, kendall: float | None, clean: int):
        alike = made.measured.similarity
        alike = None if kendall is None else replace(alike, kendall=Mean(kendall, 0.1, 5))
        measured = replace(made.measured, similarity=alike, clean=Share(clean, 40))
        return replace(made, name=name, data=name.partition("/")[0], measured=measured)

    return [
        card("mnist/ce", 0.9, 40),
        card("digits/ce", 0.2, 38),
        card("digits/none", None, 0),
        card("digits/at", 0.7, 30),
    ]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("kendall", ["digits/at", "digits/ce", "digits/none", "mnist/ce"]),
        ("clean", ["digits/ce", "digits/at", "digits/none", "mnist/ce"]),
        ("name", ["digits/at", "digits/ce", "digits/none", "mnist/ce"]),
    ],
)
def test_best_first_within_each_data_set(cards, sort, expected) -> None:
    assert [row.name for row in rows(cards, sort)] == expected


@pytest.mark.parametrize("sort", SORTS)
def test_every_sort_works(cards, sort) -> None:
    assert len(rows(cards, sort)) == 4


def test_refuses_to_sort_by_something_else(cards) -> None:
    with pytest.raises(InputError, match="sort: expected one of kendall, top_k"):
        rows(cards, "colour")


def test_cells_show_shares_and_correlations(cards) -> None:
    best, none = rows(cards)[0], rows(cards)[2]
    assert cells(best)[:4] == ["digits/at", "mlp", "75.00%", "7.50% (linf 0.1)"]
    assert cells(best)[5] == "0.700"
    assert cells(none)[4:8] == ["-"] * 4


def test_markdown_has_a_table_for_each_data_set(cards) -> None:
    text = markdown(cards)
    assert text.count("### ") == 2
    own = "digits/at, digits/ce: Clean: 40 test examples. PGD-3, linf 0.1: 40 of them. Attributions"
    assert f"### digits\n\n{own}" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert [line.split("`")[1] for line in lines if "`" in line] == [r.name for r in rows(cards)]


def test_the_sentence_says_what_was_measured(cards) -> None:
    assert how(cards[0]).endswith(
        "Attributions (`ig:steps=5,quadrature=midpoint`) under IFIA top-8 with 3 steps, linf 0.05: "
        "the first 5 examples classified correctly."
    )
    assert how(cards[2]).endswith("40 of them.")


def test_models_measured_differently_are_told_apart(cards) -> None:
    other = replace(cards[1], measured=replace(cards[1].measured, clean=Share(3, 7)))
    one = cards[0]
    assert hows([one, one]) == [how(one)]
    assert hows([one, other, one]) == [
        f"{one.name}, {one.name}: {how(one)}",
        f"{other.name}: {how(other)}",
    ]


def test_how_many_were_classified_correctly_is_told_as_a_range(cards) -> None:
    whole = cards[0].measured.similarity
    fewer = replace(whole, kendall=replace(whole.kendall, n=3))
    other = replace(cards[1], measured=replace(cards[0].measured, similarity=fewer))
    (said,) = hows([cards[0], other])
    assert said == how(cards[0]).replace("the first 5 examples", "the first 3 to 5 examples")


def test_csv_has_numbers_in_full(cards) -> None:
    read = list(csv.DictReader(io.StringIO(to_csv(cards))))
    assert [float(line["clean"]) for line in read] == [0.75, 0.95, 0.0, 1.0]
    assert read[2]["kendall"] == ""
    assert float(read[0]["top_k"]) == cards[3].measured.similarity.top_k.value


def test_the_page_has_every_model_and_shows_texts_as_texts(cards) -> None:
    hostile = replace(cards[0], network={"architecture": "<script>x</script>"})
    page = board_page([hostile, *cards[1:]])
    for card in cards:
        assert f"<td class=words>{card.name}</td>" in page
    assert "<td class=words>&lt;script&gt;x&lt;/script&gt;</td>" in page
    assert "(<code>ig:steps=5,quadrature=midpoint</code>)" in page
    assert page.count("<script>") == 1
    assert "http" not in page
    with pytest.raises(InputError, match="sort: expected one of"):
        board_page(cards, "luck")
    assert "No models." in board_page([])


def test_tables_of_one_data_share_their_heading_and_leave_out_empty_columns() -> None:
    header = ("model", "angle", "lists", "claim")
    rows = (("a", "3.1", "-", "certified"), ("b", "-", "-", "<i>"))
    tables = [BoardTable(f"set {n}", (), header, rows, "data", ("About `x`.",)) for n in (1, 2)]
    page = board_page([], more=tables)
    assert page.count("<h2>data</h2>") == page.count("About <code>x</code>.") == 1
    assert page.count("<h3>set ") == 2
    assert "lists" not in page.partition("<h2>Add a model")[0].partition("<body>")[2]
    assert "<td>3.1</td>" in page
    assert "<td class=words>&lt;i&gt;</td>" in page


def test_less_than_a_minute_is_not_none(cards) -> None:
    found = rows([replace(cards[0], cpu_seconds=30.0), replace(cards[1], cpu_seconds=90.0)])
    assert sorted(cells(row)[-1] for row in found) == ["2", "< 1"]
