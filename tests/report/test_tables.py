"""The one table, on a terminal and for LaTeX."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from attribound.auditing.summary import summarise
from attribound.report import console
from attribound.report.conditions import conditions, ranges
from attribound.report.summary_table import HEADER, summary_table
from report import cases


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return cases.run(tmp_path_factory.mktemp("tables") / "run")


def printed(table, width: int = 200) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def test_every_setting_has_its_attack_and_claims(run) -> None:
    summaries = summarise(run.table())
    found = summary_table(summaries)
    assert len(found.blocks) == 8
    for block, summary in zip(found.blocks, summaries, strict=True):
        assert [row[0] for row in block.rows] == [
            "strongest attack",
            "first-order",
            "adjusted",
            "calibrated",
            "mean-value (searched)",
            "certified",
        ]
        assert all(len(row) == len(HEADER) for row in block.rows)
        attack, first = block.rows[0], block.rows[1]
        assert float(attack[2]) == pytest.approx(summary.best.mean, rel=1e-3)
        broken = summary.claims["first_order"].broken
        assert first[7] == f"{broken.count} ({broken.share:.1%})"
        assert first[8] == f"{summary.claims['first_order'].worst:.3g}x"
        assert block.title.endswith("(1 of 24 samples failed)")


def test_the_console_shows_it_and_reads_no_markup(run) -> None:
    text = printed(console(run))
    assert "strongest attack" in text
    assert "saliency, l2 ε = 0.05" in text
    assert "not finished" not in text
    assert "\x1b" not in text


def test_the_console_says_what_was_audited_and_within_which_values(run) -> None:
    text = printed(console(run))
    assert f"on {run.manifest.samples} samples of {run.manifest.data['name']}" in text
    assert ranges(run.manifest.settings) in text


def test_a_smooth_copy_and_notes_on_the_model_are_told(run) -> None:
    changed = replace(
        run.manifest,
        settings={**run.manifest.settings, "smooth": 20.0},
        model={**run.manifest.model, "notes": ["weights in float16 were converted to float32"]},
    )
    assert conditions(changed)[1:] == [
        "weights in float16 were converted to float32",
        "bounds and attacks are of a smooth copy, softplus with beta 20",
    ]


def test_ranges_in_words() -> None:
    balls = [{"norm": "l1", "low": 0.0, "high": None}, {"norm": "l3", "low": None, "high": 2.0}]
    assert ranges({"balls": balls}) == "l1: values from 0; l3: values up to 2"


def test_nothing_is_cut_off_on_a_narrow_terminal(run) -> None:
    narrow = printed(console(run), width=80)
    assert "…" not in narrow
    assert f" {summarise(run.table())[0].best.kendall:.4g}" in narrow
    assert "…" in printed(console(run), width=50)  # what is looked for would be seen


def test_names_in_brackets_are_names(tmp_path) -> None:
    label = "[red]x[/red]"
    chosen = cases.settings(attributions=(cases.SaliencySettings(label=label),))
    assert label in printed(console(cases.run(tmp_path / "run", chosen)))


def test_an_unfinished_run_says_so(tmp_path) -> None:
    text = printed(console(cases.run(tmp_path / "run", batches=2)))
    assert "not finished: 1 of 3 batches are missing" in text
