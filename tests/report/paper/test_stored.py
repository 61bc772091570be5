from __future__ import annotations

import pytest

from attribound.errors import InputError
from attribound.report.paper.items import RunSpec
from attribound.report.paper.stored import tables_markdown, verdicts_markdown
from attribound.report.paper.tables import ITEMS, grid
from attribound.report.paper.verdicts import make
from report.paper import made


def test_pages_are_made_from_stored_results_alone(tmp_path) -> None:
    spec = RunSpec("mnist", "at", "paper")
    runs = made.MadeRuns({spec: made.audit(spec)})
    for name in ("table3", "table9"):
        ITEMS[name].make(runs, tmp_path)
    make(runs, tmp_path)
    page = tables_markdown(tmp_path)
    assert page.startswith(grid("table3", runs, "paper").markdown())
    assert page.index("Table 3") < page.index("Table 9")
    assert verdicts_markdown(tmp_path) + "\n" == (tmp_path / "verdicts.md").read_text()


@pytest.mark.parametrize("page", [tables_markdown, verdicts_markdown])
def test_without_results_it_is_said_how_to_make_them(page, tmp_path) -> None:
    with pytest.raises(InputError, match="attribound paper all --out"):
        page(tmp_path)
