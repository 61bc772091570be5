"""Lists of reasons on the page, the console and in files."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from rich.console import Console
from torch import nn

import attribound as ab
from attribound.attacks import AttributionAscent
from attribound.auditing import cells
from attribound.data import Columns
from attribound.data.examples import InMemory
from attribound.report import answers, console, export, one_line, run_tables, write_html
from attribound.report.answers import (
    CONTRADICTED,
    IN_PART,
    NOT_PROVED,
    WORDS,
    Finding,
    _of_lists,
)
from attribound.report.auditor import dossier
from attribound.report.gallery import Features, features
from attribound.report.reasons import Replaced, by_claim, lists, sentences, worded
from report import cases
from shared import needed

CHROMIUM = Path("/usr/bin/chromium")
NAMES = ["age", "income", cases.HOSTILE, "loans", "late", "years"]
COUNT = 6


def people() -> InMemory:
    x = torch.randn(COUNT, 6, generator=torch.Generator().manual_seed(4))
    found = InMemory("people", x, torch.zeros(COUNT).long(), ["a", "b"])
    found.ids = tuple(f"P-{number}" for number in range(COUNT))
    found.columns = Columns.plain(NAMES)
    return found


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.Softplus(5), nn.Linear(12, 2)).eval()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return ab.audit(
        network(),
        people(),
        out=tmp_path_factory.mktemp("lists") / "run",
        attributions=[ab.Saliency()],
        balls=[ab.L2Ball(0.02), ab.L2Ball(1.5)],
        claims=["first_order", "certified"],
        attacks={"ascent": AttributionAscent(steps=1)},
        keep=2,
        called="applicants",
        table={"unit": "column"},  # the balls as they are
    )


def test_the_sentence_counts_what_the_rows_say(run) -> None:
    rows = run.rows().to_pylist()
    for said, epsilon in zip(sentences(run), (0.02, 1.5), strict=True):
        own = [row["reasons"][1] for row in rows if row["epsilon"] == epsilon]
        sure = sum(record["kept"] == 2 for record in own)
        changed = sum(record["attacked_kept"] < 2 for record in own)
        assert said == (
            f"For {sure} of {COUNT} applicants the two reasons can't change within l2 ε = "
            f"{epsilon:g} (claim: certified; saliency of your network); for {changed} an attack "
            "changed at least one."
        )
    narrow, wide = (each.answer for each in lists(run))
    assert narrow.sure > wide.sure
    assert wide.attacked > 0
    assert by_claim(run)[0].startswith(
        "lists that can't change, saliency, l2 ε = 0.02: first-order"
    )


def test_an_attack_that_left_fewer_is_said(run) -> None:
    one = lists(run)[1].claims[0]
    assert "fewer" not in one.sentence("people")
    said = replace(one, exceeded=3).sentence("people")
    assert said.endswith("For 3 it left fewer than the claim says.")


def test_what_is_replaced_by_what(run) -> None:
    found = lists(run)[1]
    rows = [row["reasons"][1] for row in run.rows().to_pylist() if row["epsilon"] == 1.5]
    gone = sum(2 - record["attacked_kept"] for record in rows)
    assert sum(pair.count for pair in found.replaced) == gone > 0
    assert all({pair.gone, pair.came} <= {*NAMES} for pair in found.replaced)
    assert all(pair.gone != pair.came for pair in found.replaced)


def test_most_often_is_more_often_than_any_other(run) -> None:
    """Ten pairs once each: the first of them is not the most frequent."""
    found = lists(run)[1]
    age, debt = Replaced("age", "income", 2), Replaced("debt", "age", 2)
    said = "attacks put income in place of age"
    for pairs, end in (
        ((age, replace(debt, count=1)), " most often (for 2 of 6 people)."),
        ((age, debt), " (for 2 of 6 people), and 1 other pair as often."),
        ((age, debt, debt), " (for 2 of 6 people), and 2 other pairs as often."),
    ):
        asked = replace(found, replaced=pairs, answer=replace(found.answer, n=6))
        assert asked.most_often("people") == said + end


def test_numbers_of_the_page(run) -> None:
    data = lists(run)[0].data
    assert data["samples"] == [f"P-{number}" for number in range(COUNT)]
    assert data["best"] == "certified"
    row = data["claims"]["certified"]["rows"][0]
    record = run.rows().to_pylist()[0]["reasons"][1]
    assert row["features"] == record["features"]
    assert row["low"] == pytest.approx(record["low"], rel=1e-4)
    assert {data["names"][place] for place in row["features"]} <= {*NAMES}


def test_of_many_samples_some_are_shown(run, monkeypatch) -> None:
    monkeypatch.setattr("attribound.report.reasons.SHOWN", 6)
    data = lists(run)[0].data
    assert data["samples"] == ["P-0", "P-2", "P-4"]
    assert (data["total"], len(data["claims"]["certified"]["rows"])) == (COUNT, 3)


def test_the_console_answers_first(run) -> None:
    terminal = Console(width=200, record=True, file=None, quiet=False)
    with terminal.capture() as shown:
        terminal.print(console(run))
    text = shown.get()
    assert text.lstrip().startswith("Not proved: in the weakest of 2 settings, for ")
    assert "lists that can't change" in text
    narrow, wide = (each.answer for each in lists(run))
    line = one_line(run)
    for epsilon, one in ((0.02, narrow), (1.5, wide)):
        said = (
            f"saliency, l2 ε = {epsilon:g}: {one.sure}/{COUNT} lists sure, {one.attacked} changed"
        )
        assert said in line
    changed = [each for each in dossier(run).counterexamples if each.against == "the list stays"]
    assert len(changed) == narrow.attacked + wide.attacked
    assert all("gave way to" in each.said and each.called.startswith("P-") for each in changed)


def test_files_have_names_and_ids(run, tmp_path) -> None:
    files = export(run, "csv", tmp_path / "rows.csv")
    assert files[-1].name == "rows-reasons.csv"
    with files[-1].open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == run.reasons().num_rows == COUNT * 2 * 2 * 2
    assert {line["id"] for line in lines} == {f"P-{number}" for number in range(COUNT)}
    assert {line["name"] for line in lines} <= {*NAMES}
    _, long = export(run, "parquet", tmp_path / "rows.parquet")
    assert pq.read_table(long)["name"].to_pylist() == run.reasons()["name"].to_pylist()
    (whole,) = export(run, "json", tmp_path / "rows.json")
    assert json.loads(whole.read_text())["rows"][0]["reasons"][0]["claim"] == "first_order"


def test_a_run_that_was_not_asked_has_none(tmp_path) -> None:
    plain = cases.run(tmp_path / "run")
    assert lists(plain) == sentences(plain) == by_claim(plain) == []
    assert len(export(plain, "csv", tmp_path / "rows.csv")) == 3
    assert 'id="reasons"' not in write_html(plain, tmp_path / "page.html").read_text()


def test_numbers_in_words() -> None:
    assert [worded(each) for each in (1, 4, 10, 11)] == ["one", "four", "ten", "11"]


@pytest.fixture(scope="module")
def tab(run):
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    needed(CHROMIUM, "apt-get install chromium")
    page = write_html(run)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 390, "height": 844})
        tab.seen = []
        tab.on("console", lambda message: tab.seen.append(message.text))
        tab.on("pageerror", lambda error: tab.seen.append(str(error)))
        tab.on("dialog", lambda dialog: tab.seen.append(dialog.message))
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("#list .main-svg")
        yield tab
        browser.close()


def test_every_sample_is_found_by_its_id(run, tab) -> None:
    rows = [row for row in run.rows().to_pylist() if row["epsilon"] == 1.5]
    for row in rows:
        tab.fill("#find", row["id"])
        tab.dispatch_event("#find", "change")
        record = row["reasons"][1]
        said = tab.inner_text("#list-said")
        kept = record["kept"]
        assert said.startswith(f"{row['id']}: ")
        assert f"{'all 2' if kept == 2 else f'at least {kept} of 2'} stay (certified)" in said
        shown = tab.locator("#list-table tbody tr").all_inner_texts()
        assert len(shown) == 2
        for line, place, value in zip(shown, record["features"], record["values"], strict=True):
            assert line.startswith(NAMES[place])
            assert float(line.split("\t")[1]) == pytest.approx(value, rel=1e-3)
            assert ("gone" in line) == (place not in record["attacked_features"])
    tab.fill("#find", "nobody")
    tab.dispatch_event("#find", "change")
    assert tab.inner_text("#list-said") == "There is no nobody here."


def test_settings_and_neighbours_can_be_chosen(tab) -> None:
    tab.fill("#find", "P-0")
    tab.dispatch_event("#find", "change")
    tab.click("#before")
    assert tab.input_value("#find") == "P-5"
    tab.click("#after")
    assert tab.input_value("#find") == "P-0"
    tab.select_option("#setting", "0")
    assert "l2 ε = 0.02" in tab.inner_text("#list-caption")
    assert tab.locator(".replaced:visible").count() == 1
    tab.select_option("#setting", "1")


def test_nothing_runs_and_nothing_is_wider_than_a_phone(tab) -> None:
    assert tab.seen == []
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    assert tab.locator(".answer").count() == 2


class TestPictures:
    def audited(self, attribution: ab.Attribution, folder: Path) -> ab.Run:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.Softplus(5), nn.Linear(8, 2))
        x = torch.rand(3, 2, 4, 4)
        data = InMemory("pictures", x[:, :1].repeat(1, 2, 1, 1), torch.zeros(3).long(), ["a", "b"])
        return ab.audit(
            model.eval(),
            data,
            out=folder,
            attributions=[attribution],
            balls=[ab.L2Ball(0.05)],
            claims=["first_order"],
            attacks={"ascent": AttributionAscent(steps=1)},
            keep=3,
            maps="all",
        )

    @pytest.mark.parametrize("labels", [None, "channels", "parts"])
    def test_the_region_that_stays_is_drawn_over_the_picture(
        self, labels, tmp_path, monkeypatch
    ) -> None:
        drawn = []
        monkeypatch.setattr("attribound.report.gallery.is_surface", lambda shape: True)
        monkeypatch.setattr("attribound.report.gallery.input_picture", lambda *_: "data:,")
        monkeypatch.setattr("attribound.report.gallery.map_picture", lambda *_: "data:,")

        def seen(values, limits, sure, open_) -> str:
            drawn.append((sure, open_))
            return "data:,"

        monkeypatch.setattr("attribound.report.gallery.region_picture", seen)
        attribution: ab.Attribution = ab.Saliency()
        parts = (torch.arange(16) // 4).view(4, 4).repeat(2, 1, 1)
        if labels is not None:
            attribution = ab.Grouped(attribution, parts if labels == "parts" else labels)
        found = self.audited(attribution, tmp_path / "run")
        html = write_html(found).read_text()
        assert "green surely, amber open" in html
        # Those of the gallery; counterexamples have theirs again.
        assert len(drawn) >= 3
        del drawn[3:]
        rows = {row["sample"]: row["reasons"][0] for row in found.rows().to_pylist()}
        members = [
            sum(stays == flag for record in rows.values() for stays in record["stays"])
            for flag in (True, False)
        ]
        for masks, count in zip(zip(*drawn, strict=True), members, strict=True):
            pixels = sum(int(mask.sum()) for mask in masks)
            if labels == "parts":
                assert pixels == 4 * count
            elif labels == "channels":
                assert pixels == count
            else:
                assert pixels <= count
        assert all(mask.shape == (4, 4) for pair in drawn for mask in pair)

    def test_groups_of_what_can_not_be_read_are_none(self) -> None:
        assert features({"attributions": "nothing"}) == Features()


def test_a_list_is_judged_no_better_than_its_worst_member(run) -> None:
    """All sure by proof is good; one that an attack made shorter than the proof says is bad."""
    each = lists(run)[0]
    sure = replace(each.answer, sure=COUNT, attacked=0)
    assert _of_lists(replace(each, answer=sure), "people", 0).tone == "good"
    missing = _of_lists(replace(each, answer=sure), "people", 1)
    assert (missing.level, missing.tone) == (IN_PART, "neutral")
    broken = _of_lists(replace(each, answer=replace(sure, exceeded=1)), "people", 0)
    assert (broken.level, broken.tone) == (CONTRADICTED, "bad")
    guess = _of_lists(replace(each, answer=replace(sure, proves=False)), "people", 0)
    assert (guess.level, guess.tone) == (NOT_PROVED, "neutral")


def test_a_setting_without_lists_still_counts(run, monkeypatch) -> None:
    """Else a verdict would be better than the worst row behind it."""
    every = [cell.setting.title for cell in cells(run.rows())]
    assert [each.where for each in answers(run).settings] == every
    fewer = lists(run)[1:]
    monkeypatch.setattr(import_module("attribound.report.answers"), "lists", lambda _: fewer)
    assert [each.where for each in answers(run).settings] == every


def test_a_proof_of_the_map_that_failed_is_told_in_any_case(run, monkeypatch) -> None:
    def broken(cell, *_) -> Finding:
        return Finding(cell.setting.title, "", CONTRADICTED, "it failed", "bad", (0.0, 0.0))

    monkeypatch.setattr(import_module("attribound.report.answers"), "finding", broken)
    assert answers(run).headline.startswith("Contradicted: in the weakest of 2 settings, it failed")
    assert answers(run).tone == "bad"


def test_the_leaderboard_has_the_verdicts_of_the_page(run) -> None:
    found = {each.where: WORDS[each.level] for each in answers(run).settings}
    shown = {
        table.title: table.rows[0][table.header.index("verdict")] for table in run_tables([run])
    }
    assert shown == found
