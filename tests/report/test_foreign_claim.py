"""A claim of a user's own module is told everywhere, and so is one that is not known here."""

from __future__ import annotations

import importlib
import io
import json
import re
from dataclasses import dataclass

import pytest
from rich.console import Console

import attribound as ab
from attribound.auditing import summarise
from attribound.report import compare, console, export, figures, groups, summary_table
from attribound.report.page import render
from attribound.report.radius import between
from attribound.report.verdict import verdict
from report import cases

FACTORS = {"first_order": 1.0, "report_wish": 0.2, "certified": 2.5, "of_nobody": 0.2}


@dataclass(frozen=True)
class Wish(ab.Method):
    """A bound that somebody wishes for."""

    def bound(self, question: ab.Question) -> ab.Bound:
        return question.by(ab.FirstOrder)


WISH = ab.Claim(
    "report_wish",
    title="wished for",
    order=35,
    promise="It would be nice if this held.",
    method=Wish,
    held="Nice.",
    exceeded="It was only a wish.",
    moves=ab.Moves.NESTED,
    colour="rebeccapurple",
    symbol="hexagon",
)


# Functions of the rooms have the names of these modules.
DRAWING = importlib.import_module("attribound.report.figures")
REGISTRIES = {
    importlib.import_module("attribound.results.claims"): ["_claims"],
    importlib.import_module("attribound.values.registry"): ["_named", "_names"],
}


@pytest.fixture(scope="module", autouse=True)
def registered():
    """The claim is known in this module only: other tests look at all there are."""
    with pytest.MonkeyPatch.context() as patch:
        for module, names in REGISTRIES.items():
            for name in names:
                patch.setattr(module, name, dict(getattr(module, name)))
        yield ab.register_claim(WISH)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return cases.run(tmp_path_factory.mktemp("foreign") / "run", claims=FACTORS)


def printed(table) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(table)
    return out.getvalue()


def test_it_is_in_the_table_at_its_place(run) -> None:
    for block in summary_table(summarise(run.rows())).blocks:
        assert [row[0] for row in block.rows] == [
            "strongest attack",
            "first-order",
            "wished for",
            "certified",
            "of_nobody",
        ]
    text = printed(console(run))
    assert "wished for" in text
    assert "of_nobody" in text


def test_it_is_in_the_page_with_its_looks_and_promise(run) -> None:
    html = render(run)
    data = json.loads(re.search(r'id="data">(.*?)</script>', html)[1])
    assert data["claims"]["report_wish"] == {
        "title": "wished for",
        "moves": "nested",
        "colour": "rebeccapurple",
        "symbol": "hexagon",
    }
    assert data["claims"]["of_nobody"] == {
        "title": "of_nobody",
        "moves": "measured",
        "colour": "#666666",
        "symbol": "circle",
    }
    assert "It would be nice if this held." in html
    assert "Not known here" in html
    said = " ".join(between(groups(run.rows())))
    assert "The wished for and certified bounds are valid in every smaller ball" in said
    assert "The of_nobody bounds are shown at the measured radii alone." in said


def test_the_verdict_has_its_sentences(run) -> None:
    found = {claim.title: claim for claim in verdict(groups(run.rows())).parts[0].claims}
    assert "It was only a wish." in found["wished for"].text
    assert found["wished for"].tone == "bad"
    assert found["of_nobody"].text.startswith("an attack exceeded")
    assert found["of_nobody"].tone == "neutral"


def test_what_is_not_known_here_is_not_praised_either(tmp_path) -> None:
    run = cases.run(tmp_path / "run", claims={"of_nobody": 9.0, "report_wish": 9.0})
    found = {claim.title: claim for claim in verdict(groups(run.rows())).parts[0].claims}
    assert found["of_nobody"].text.startswith("no attack exceeded it (184 bounds).")
    assert found["of_nobody"].tone == "neutral"
    assert "Nice." in found["wished for"].text
    assert found["wished for"].tone == "neutral"  # it proves nothing


def test_it_is_drawn(run, tmp_path, monkeypatch) -> None:
    made = []
    monkeypatch.setattr(DRAWING, "_file", lambda figure, kind: made.append(figure) or b"")
    figures(run, tmp_path)
    lines = 0
    for figure in made:
        drawn = dict(zip(*reversed(figure.axes[0].get_legend_handles_labels()), strict=True))
        assert {"wished for", "of_nobody"} <= {*drawn}
        if hasattr(drawn["wished for"], "get_marker"):
            lines += 1
            looks = {name: (h.get_color(), h.get_marker()) for name, h in drawn.items()}
            assert looks["wished for"] == ("rebeccapurple", "h")
            assert looks["of_nobody"] == ("#666666", "o")
    assert lines == len(made) / 3  # one of three plots has lines


def test_a_colour_that_matplotlib_lacks_is_grey() -> None:
    odd = ab.Claim("odd", title="$odd$", order=1, promise="", colour="hsl(9,9%,9%)", symbol="?")
    assert DRAWING._look(odd) == {"color": "#666666", "marker": "o"}


def test_it_is_compared_and_exported(run, tmp_path) -> None:
    other = cases.run(tmp_path / "other", claims=FACTORS, scale=1.5)
    whats = {each.what for each in compare([run, other]).differences}
    assert {"wished for", "wished for °", "wished for exceeded", "of_nobody"} <= whats
    (tex,) = export(run, "latex", tmp_path / "table.tex")
    assert "wished for" in tex.read_text()
