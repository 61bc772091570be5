from __future__ import annotations

import pytest

import paper_made as made
from attribound import InputError
from reproduction.paper import verdicts
from reproduction.paper.items import RunSpec
from reproduction.paper.judging import FAILS, HERE, HOLDS, UNDECIDED, UNKNOWN
from reproduction.paper.pages import (
    closing_markdown,
    figures_markdown,
    first_markdown,
    page_parts,
    tables_markdown,
    verdicts_markdown,
)
from reproduction.paper.tables import ITEMS, grid
from reproduction.paper.verdicts import make


def test_pages_are_made_from_stored_results_alone(tmp_path) -> None:
    spec = RunSpec("mnist", "at", "paper")
    runs = made.MadeRuns({spec: made.audit(spec)})
    for name in ("table3", "table9"):
        ITEMS[name].make(runs, tmp_path)
    make(runs, tmp_path)
    page = tables_markdown(tmp_path)
    assert page.startswith(grid("table3", runs, "paper").markdown())
    assert page.index("Table 3") < page.index("Table 9")
    first = first_markdown(tmp_path)
    assert first == grid("table3", runs, "strong").markdown()
    assert first not in page
    assert verdicts_markdown(tmp_path) + "\n" == (tmp_path / "verdicts.md").read_text()


def test_pictures_are_linked_in_the_papers_order_under_their_titles(tmp_path) -> None:
    for name in ("figure8-mnist-l2", "figure2", "table1-mnist", "figure8-mnist-linf", "other"):
        (tmp_path / f"{name}.png").touch()
    (tmp_path / "figure2.pdf").touch()
    assert figures_markdown(tmp_path, "../there").split("\n\n") == [
        "**Table 1: Inputs and attributions, attacked**",
        "![Table 1, table1-mnist](../there/table1-mnist.png)",
        "**Figure 2: Kendall's correlation against T_c**",
        "![Figure 2, figure2](../there/figure2.png)",
        "**Figure 8: Gaps between bounds and deviations**",
        "![Figure 8, figure8-mnist-l2](../there/figure8-mnist-l2.png)",
        "![Figure 8, figure8-mnist-linf](../there/figure8-mnist-linf.png)",
    ]


@pytest.mark.parametrize(
    "page",
    [
        first_markdown,
        tables_markdown,
        verdicts_markdown,
        lambda results: figures_markdown(results, ".."),
    ],
)
def test_without_results_it_is_said_how_to_make_them(page, tmp_path) -> None:
    with pytest.raises(InputError, match=r"python -m reproduction\.paper all --out"):
        page(tmp_path)


def verdict(name: str, attacks: str, found: str, **fields):
    return {
        "name": name,
        "claim": f"claim {name}",
        "attacks": attacks,
        "verdict": found,
        "n": 3,
        "text": f"{name} by {attacks}",
        "made": 0,
        **fields,
    }


def test_what_to_believe_follows_from_verdicts() -> None:
    found = [
        verdict("adjusted-bounds-all", "paper", HERE, made=20),
        verdict("adjusted-bounds-all", "strong", FAILS, made=12345, n=7),
        verdict("cube-bounds-all", "paper", HERE),
        verdict("cube-bounds-all", "strong", UNKNOWN),
        verdict("diagonal", "", UNKNOWN),
    ]
    first, blank, *lines = closing_markdown(found).splitlines()
    assert "12,345 attacks" in first
    assert blank == ""
    ours, papers, left = lines
    assert ours.startswith("- T'_e does not bound all: ")
    assert ours.endswith("(n = 7): adjusted-bounds-all by strong.")
    assert papers.startswith("- Nothing was found beyond T_e in l∞")
    assert papers.endswith("(n = 3): cube-bounds-all by paper.")
    assert left == "- Not measured yet, so nothing is said here: claim diagonal."


def test_every_verdict_that_can_come_has_its_sentence() -> None:
    """Whatever our runs find, the page can be made."""
    for each in verdicts.verdicts(made.MadeRuns({})):
        for found in (FAILS, HERE, HOLDS, UNDECIDED):
            wanted = {
                "kendall-and-angle": {FAILS, HOLDS, UNDECIDED},
                "first-order-exceeded": {FAILS, HOLDS},
                "negligible-remainder": {FAILS, HOLDS},
            }.get(each.name, {FAILS, HERE})
            if found in wanted:
                assert closing_markdown([verdict(each.name, each.attacks, found)])


def test_where_nothing_is_stored_there_is_nothing_to_show(tmp_path) -> None:
    assert page_parts(tmp_path, tmp_path, "there") == {}
