from __future__ import annotations

import pytest

import paper_made as made
from attribound import InputError
from reproduction.paper.items import RunSpec
from reproduction.paper.pages import (
    figures_markdown,
    first_markdown,
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
