"""The one table, on a terminal and for LaTeX."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

import pytest
import torch
from rich.console import Console

import attribound as ab
from attribound.auditing.summary import summarise
from attribound.report import console
from attribound.report.conditions import conditions, ranges
from attribound.report.page import render
from attribound.report.summary_table import HEADER, summary_table
from report import cases


@dataclass(frozen=True, eq=False, repr=False)
class Odd(ab.L2Ball):
    """A user's own ball."""

    name = "odd"
    limited = True


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return cases.run(tmp_path_factory.mktemp("tables") / "run")


def printed(table, width: int = 200) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def test_every_setting_has_its_attack_and_claims(run) -> None:
    summaries = summarise(run.rows())
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
        exceeded = summary.claims["first_order"].exceeded
        assert first[7] == f"{exceeded.count} ({exceeded.share:.1%})"
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
    notes, copy = conditions(changed)[1:]
    assert notes == "weights in float16 were converted to float32"
    assert copy == (
        "your network was attacked itself; what was bounded is its smooth copy, β = 20, with "
        "softplus for its kinks (β as it was set)"
    )


def test_how_beta_was_chosen_is_told(run) -> None:
    tried = [
        {"beta": 20.0, "labels": 1.0, "degrees": 12.84},
        {"beta": 50.0, "labels": 1.0, "degrees": 4.2},
    ]
    chosen = {"beta": 50.0, "close": True, "pilot": 16, "tried": tried}
    changed = replace(
        run.manifest,
        settings={**run.manifest.settings, "smooth": 50.0},
        model={**run.manifest.model, "smooth": chosen},
    )
    said = conditions(changed)[-1]
    assert "its smooth copy, β = 50" in said
    assert "β chosen by auto, the smallest that is close enough to your network" in said
    assert "on 16 samples at β = 20: 12.8°, 50: 4.2°" in said
    chosen["close"] = False
    assert "none was close enough to your network" in conditions(changed)[-1]
    chosen |= {"beta": None, "reason": "the network has no kinks", "tried": []}
    bare = replace(changed, settings=run.manifest.settings)
    assert not any("copy" in said for said in conditions(bare))


def test_ranges_in_words() -> None:
    balls = [
        ab.LpBall(0.1, 1, low=0.0),
        ab.LpBall(0.1, 3, high=2.0),
        ab.LinfBall(0.1, low=torch.tensor([0.0, 0.5]), high=torch.tensor([1.0, 0.75])),
        ab.LinfBall(0.2, low=torch.tensor([0.0, 0.5]), high=torch.tensor([1.0, 0.75])),
    ]
    assert ranges({"balls": [ab.to_spec(ball, whole=True) for ball in balls]}) == (
        "l1: values from 0; l3: values up to 2; linf: values in [0, 1]"
    )


def test_what_a_radius_counts_is_said_in_the_units_of_the_columns() -> None:
    ball = ab.L2Ball(0.1, scale=torch.tensor([12.01183, 0.0, 2822.75]))
    told = {"balls": [ab.to_spec(ball, whole=True)]}
    names = ["duration", "home=own", "amount"]
    assert ranges(told, names) == (
        "l2 scaled: any values in the ball, ε = 1 counts 12.01 of duration, 2823 of amount; "
        "nothing else can change"
    )
    assert ranges(told) == "l2 scaled: any values in the ball"  # without names
    wide = ab.L2Ball(0.1, scale=torch.arange(1.0, 11.0))
    said = ranges({"balls": [ab.to_spec(wide, whole=True)]}, [*"abcdefghij"])
    assert said.endswith("7 of g, 8 of h and units of 2 others")


def test_a_ball_that_cannot_be_imported_is_told_as_it_was_stored(tmp_path) -> None:
    balls = [{"kind": "nowhere.balls:Frozen", "epsilon": eps, "mask": [1, 0]} for eps in (1, 2)]
    assert ranges({"balls": balls}) == "nowhere.balls:Frozen:mask=(1,0)"
    run = cases.run(tmp_path / "run", document={"balls": balls})
    assert "nowhere.balls:Frozen" in printed(console(run))
    assert "nowhere.balls:Frozen" in render(run)


def test_a_ball_with_limits_of_its_own_says_so() -> None:
    assert ranges({"balls": [{"kind": "report.test_tables:Odd", "epsilon": 0.1}]}) == (
        "odd: values within limits of its own"
    )


def test_nothing_is_cut_off_on_a_narrow_terminal(run) -> None:
    narrow = printed(console(run), width=80)
    assert "…" not in narrow
    assert f" {summarise(run.rows())[0].best.kendall:.4g}" in narrow
    assert "…" in printed(console(run), width=50)  # what is looked for would be seen


def test_names_in_brackets_are_names(tmp_path) -> None:
    label = "[red]x[/red]"
    chosen = cases.settings(attributions=(ab.Saliency(label=label),))
    assert label in printed(console(cases.run(tmp_path / "run", chosen)))


def test_an_unfinished_run_says_so(tmp_path) -> None:
    text = printed(console(cases.run(tmp_path / "run", batches=2)))
    assert "not finished: 1 of 3 batches are missing" in text
