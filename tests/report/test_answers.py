"""The answer first: never better than the worst row behind it; and what an auditor files."""

from __future__ import annotations

import io
import re
from unittest import mock

import pytest
import torch
from rich.console import Console

import attribound as ab
from attribound.report import console
from attribound.report.answers import answers, one_line
from attribound.report.auditor import COUNTEREXAMPLES, Count, domains, dossier
from attribound.report.page import render
from report import cases


@pytest.fixture
def tame(monkeypatch):
    """Rows of which none failed, vanished or is wrong, under a tight certificate."""
    for name in ("FAILED", "ZERO", "WRONG"):
        monkeypatch.setattr(cases, name, -1)
    monkeypatch.setitem(cases.FACTORS, "certified", 1.3)


def chosen(*claims: str, **changes: object):
    balls = {"balls": (ab.L2Ball(0.05),), "attributions": (ab.Saliency(),)}
    return cases.settings(claims or ("first_order", "certified"), **{**balls, **changes})


def worst(run, claim: str) -> float:
    return max(each["degrees"] for each in run.bounds().to_pylist() if each["claim"] == claim)


def printed(run) -> str:
    out = io.StringIO()
    Console(file=out, width=400).print(console(run))
    return out.getvalue()


def test_a_proof_for_every_sample_is_good(tame, tmp_path) -> None:
    run = cases.run(tmp_path / "run", chosen())
    made = answers(run)
    turned = max(row["strongest"]["degrees"] for row in run.rows().to_pylist())
    assert made.headline == (
        "Proved: for saliency within l2 ε = 0.05, no perturbation turns any of the 24 explanations "
        f"by more than {worst(run, 'certified'):.1f}° (certified); attacks turned one by "
        f"{turned:.1f}°."
    )
    assert made.tone == "good"
    assert " ".join(printed(run).split()).startswith(made.headline)
    assert made.which == (
        "Of your network itself, as it was given: zoo:fashion-mnist/at, evaluated in float32.",
    )


@pytest.mark.parametrize(("constant", "limited"), [("FAILED", 23), ("ZERO", 23)])
def test_one_bad_row_makes_it_a_part(tame, tmp_path, monkeypatch, constant, limited) -> None:
    monkeypatch.setattr(cases, constant, 3)
    made = answers(cases.run(tmp_path / "run", chosen()))
    assert made.headline.startswith("Proved in part: ")
    assert f"turns {limited} of the 24 explanations" in made.headline
    assert made.tone == "neutral"


def test_samples_that_are_missing_are_not_proved(tame, tmp_path) -> None:
    made = answers(cases.run(tmp_path / "run", chosen(), batches=2))
    assert "turns 16 of the 24 explanations" in made.headline
    assert made.tone == "neutral"
    begun = answers(cases.run(tmp_path / "begun", chosen(), batches=0))
    assert (begun.headline, begun.tone) == ("Not known: no sample was measured.", "neutral")


def test_a_proof_that_nobody_attacked_is_not_praised(tame, tmp_path) -> None:
    made = answers(cases.run(tmp_path / "run", chosen(attacks={})))
    assert made.headline.startswith("Proved: ")
    assert made.headline.endswith("no attack was made.")
    assert made.tone == "neutral"


def test_an_exceeded_proof_is_a_contradiction(tame, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(cases.FACTORS, "certified", 0.5)
    made = answers(cases.run(tmp_path / "run", chosen()))
    assert made.headline.startswith("Contradicted: ")
    assert "which must not happen" in made.headline
    assert made.tone == "bad"


def test_without_a_proof_nothing_is_called_proved(tame, tmp_path, monkeypatch) -> None:
    run = cases.run(tmp_path / "run", chosen("first_order", "mean_value"))
    made = answers(run)
    assert made.headline.startswith("Not proved: ")
    assert f"mean-value (searched) says at most {worst(run, 'mean_value'):.1f}°" in made.headline
    assert made.tone == "neutral"
    monkeypatch.setitem(cases.FACTORS, "first_order", 0.6)
    loose = answers(cases.run(tmp_path / "first", chosen("first_order")))
    assert "which attacks exceeded for" in loose.headline
    assert loose.tone == "bad"
    none = answers(cases.run(tmp_path / "none", chosen(), claims={"of_nobody": 9.0}))
    assert none.headline.startswith("Not proved: ")


def test_bounds_that_leave_every_direction_open_prove_nothing(tame, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(cases.FACTORS, "certified", 1e6)
    made = answers(cases.run(tmp_path / "run", chosen("certified")))
    assert made.headline.startswith("Not proved: ")
    assert "certified leaves every direction open" in made.headline
    assert made.tone == "neutral"


def test_maps_that_vanish_under_attack_are_told(tame, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(cases, "ZERO", 3)
    some = answers(cases.run(tmp_path / "run", chosen()))
    assert some.headline.endswith("and left 1 of 24 without a direction.")
    one = answers(cases.run(tmp_path / "one", chosen(limit=4)))
    assert "3 of the 4" in one.headline
    monkeypatch.setattr(cases, "ZERO", 0)
    none = answers(cases.run(tmp_path / "none", chosen(limit=1)))
    assert "attacks left 1 of 1 without a direction" in none.headline


def test_where_all_samples_failed_every_question_says_so(tame, tmp_path, monkeypatch) -> None:
    """No attack is called missing where none could be made, and no answer is empty."""
    monkeypatch.setattr(cases, "FAILED", mock.ANY)
    run = cases.run(tmp_path / "run", chosen("certified"))
    made = answers(run)
    assert made.headline == (
        "Not proved: for saliency within l2 ε = 0.05, nothing was measured: all 24 samples failed."
    )
    assert (made.tone, made.changes) == ("bad", ("Nothing was measured.",))
    text = printed(run)
    assert "How sure is that? there are no bounds, and attacks alone prove nothing" in text
    assert "What would change them? Nothing was measured." in text
    assert "could not be measured and count nowhere else: 24" in text
    assert "most often because of ModelError: " in text
    assert "There are no bounds" in render(run)


def test_the_headline_is_of_the_weakest_setting(tame, tmp_path) -> None:
    balls = (ab.L2Ball(0.02), ab.L2Ball(0.05), ab.L2Ball(0.4))
    run = cases.run(tmp_path / "run", chosen(balls=balls))
    made = answers(run)
    assert [each.tone for each in made.settings] == ["good", "good", "neutral"]
    assert "in the weakest of 3 settings, for saliency within l2 ε = 0.4, " in made.headline
    assert made.tone == "neutral"
    assert (
        "saliency, l2: proved for all samples up to ε = 0.05; at 0.4 not for all." in made.changes
    )


def test_bounds_of_a_copy_prove_nothing_of_the_network(tame, tmp_path) -> None:
    run = cases.run(tmp_path / "run", chosen(smooth=20.0), copied=cases.Copied(1.4))
    made = answers(run)
    assert made.headline.startswith("Not proved: ")
    assert "(bounds are of its smooth copy, β = 20)" in made.headline
    assert made.tone == "neutral"
    assert any(text.startswith("Your network: ") for text in made.sure)
    filed = dossier(run)
    assert filed.fidelity.startswith("maps of its smooth copy, β = 20, are ")
    assert {each["covers"] for each in filed.claims} == {"its smooth copy, β = 20"}
    assert any(each.against.endswith("on your network") for each in filed.counterexamples)


def test_one_line_for_a_log(tmp_path) -> None:
    run = cases.run(tmp_path / "run", batches=2)
    line = one_line(run)
    assert "\n" not in line
    assert line.startswith(f"{run.path}: proved in part; 24 samples; 8 settings; 8 missing; 8 err")
    assert re.search(r"certified 0/120 exceeded \d+ open; attacks to [\d.]+ degrees$", line)


def test_proofs_and_counterexamples_are_counted_from_the_rows(tmp_path) -> None:
    run = cases.run(tmp_path / "run")
    filed = dossier(run)
    bounds = run.bounds().to_pylist()
    over = sum(bool(each["exceeded"]) for each in bounds)
    assert filed.found == over == sum(each.counterexamples for each in filed.counts)
    assert len(filed.counterexamples) == COUNTEREXAMPLES < over
    factors = [each.factor for each in filed.counterexamples]
    assert factors == sorted(factors, reverse=True)
    proofs = sum(each.proofs for each in filed.counts)
    limited = [each for each in bounds if each["claim"] == "certified" and each["degrees"] < 180]
    assert proofs == len(limited)
    assert all(each.n == 24 for each in filed.counts)
    assert all(
        each.proofs + each.counterexamples + each.inconclusive == each.n for each in filed.counts
    )
    assert Count.share(0, 0) == "-"
    assert dict(filed.hashes)["model"] == "sha256:model"
    assert dict(filed.hashes)["run.json (checksum)"] == run.manifest.checksum


def test_the_page_has_the_dossier_and_pictures_of_counterexamples(tmp_path) -> None:
    html = render(cases.run(tmp_path / "run", shape=(1, 8, 8)))
    part = html.partition('id="auditor"')[2]
    for text in ("Counterexample: sample", "sha256:model", "ISO/IEC 24029-2", 'id="command"'):
        assert text in part
    assert "rounding of the proof" in part


def test_an_attack_that_changed_no_list_leaves_no_counterexample(tame, tmp_path) -> None:
    html = render(cases.run(tmp_path / "run", chosen("certified")))
    assert "<p>None was found.</p>" in html


def test_units_of_a_radius(tmp_path) -> None:
    scaled = ab.L2Ball(0.1, scale=torch.tensor([0.0, 500.0]))
    documents = [ab.to_spec(ball, whole=True) for ball in (scaled, ab.LinfBall(0.01, low=0))]
    documents.append({"kind": "nowhere.balls:Frozen", "epsilon": 2})
    run = cases.run(tmp_path / "run", chosen(), document={"balls": documents}, shape=(2,))
    run.manifest.data["features"] = ["age", "income"]
    (l2, said), (linf, cube), (own, foreign) = domains(run.manifest)
    assert (l2, linf, own) == (
        "l2 scaled, ε = 0.1",
        "linf, ε = 0.01",
        "nowhere.balls:Frozen, ε = 2",
    )
    assert "(one unit: income 500)" in said
    assert said.endswith("1 of 2 features can't change")
    assert "L∞ norm at most ε, values from 0; ε in the units of the inputs" in cube
    assert foreign == "nowhere.balls:Frozen:epsilon=ε"
