"""Verdicts on the paper's claims, by runs in which they hold and runs in which they do not."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import paper_made as made
from reproduction.paper.items import RunSpec
from reproduction.paper.judging import FAILS, HERE, HOLDS, UNDECIDED, UNKNOWN
from reproduction.paper.records import MEASUREMENTS
from reproduction.paper.statistics import rank_correlation, rank_interval
from reproduction.paper.verdicts import ITEM, make, verdicts


def audits(strength: float, data: str = "mnist", models=("at",)) -> dict[RunSpec, pa.Table]:
    specs = [RunSpec(data, m, kind) for m in models for kind in ("paper", "strong")]
    return {spec: made.audit(spec, strength=strength, seed=i // 2) for i, spec in enumerate(specs)}


def jacobian(**changes: float) -> pa.Table:
    row = {
        "sample": 1,
        "features": 4,
        "xi": 1.0,
        "theorem_2": 1.5,
        "corollary_1": 2.0,
        "certificate": 1.2,
        **{f"{m}_{w}": 1.0 for m in "jp" for w in ("dominant", "largest", "mass")},
    }
    return pa.Table.from_pylist([{**row, **changes}], schema=MEASUREMENTS["jacobian"].schema)


def eta(share: float) -> pa.Table:
    sizes = {"deviation": 1.0, "attribution_norm": 5.0}
    rows = [
        {"sample": i, "epsilon": 0.1, "by": by, "eta": factor * share, **sizes}
        for i in range(3)
        for by, factor in (("random", 1.0), ("ascent", 4.0))
    ]
    return pa.Table.from_pylist(rows, schema=MEASUREMENTS["eta"].schema)


def judged(tables: dict[RunSpec, pa.Table]) -> dict[str, str]:
    return {f"{v.name} {v.attacks}".strip(): v.verdict for v in verdicts(made.MadeRuns(tables))}


def test_without_runs_nothing_is_claimed() -> None:
    assert {*judged({}).values()} == {UNKNOWN}


CLAIMS = {
    "first-order-exceeded": HOLDS,
    "adjusted-bounds-all": HERE,
    "cube-bounds-all": HERE,
    "means-are-below": HOLDS,
}


def test_weak_attacks_leave_all_bounds_standing() -> None:
    found = judged(audits(0.3))
    # Made-up angles have nothing to do with made-up distances.
    for claim in ("first-order-exceeded", "adjusted-bounds-all", "cube-bounds-all"):
        for protocol in ("paper", "strong"):
            assert found[f"{claim} {protocol}"] == CLAIMS[claim]


def test_strong_attacks_are_shown_to_exceed_them() -> None:
    found = judged(audits(2.5))
    for claim in CLAIMS:
        for protocol in ("paper", "strong"):
            assert found[f"{claim} {protocol}"] == FAILS


def test_one_sample_beyond_the_bound_is_enough() -> None:
    """And the text names the cell."""
    tables = audits(0.3)
    spec = RunSpec("mnist", "at", "strong")
    rows = tables[spec].to_pylist()
    (one,) = [r for r in rows if (r["sample"], r["ball"], r["epsilon"]) == (0, "linf", 0.03)]
    made.attack_of(one, "ascent").update(deviation=9.9, label_kept=True)
    tables[spec] = pa.Table.from_pylist(rows, schema=tables[spec].schema)
    (found,) = [
        v
        for v in verdicts(made.MadeRuns(tables))
        if (v.name, v.attacks) == ("cube-bounds-all", "strong")
    ]
    assert found.verdict == FAILS
    assert found.text.startswith("exceeded in 1 of 3 cells")
    assert "mnist/at, linf 0.03" in found.text
    assert found.n == 3 * (made.SAMPLES - 1)


def test_a_share_that_chance_explains_decides_nothing() -> None:
    """One of six is more than the paper's 6.2 %, but could be 3 %; of T'_e one is enough."""
    tables = audits(0.3)
    spec = RunSpec("mnist", "at", "strong")
    rows = tables[spec].to_pylist()
    (one,) = [r for r in rows if (r["sample"], r["ball"], r["epsilon"]) == (0, "l2", 0.1)]
    made.attack_of(one, "ascent").update(deviation=9.9, label_kept=True)
    tables[spec] = pa.Table.from_pylist(rows, schema=tables[spec].schema)
    found = {v.name: v for v in verdicts(made.MadeRuns(tables)) if v.attacks == "strong"}
    share = found["first-order-exceeded"]
    assert share.verdict == UNDECIDED
    assert "1 of 3 cells have more than 6.2 % that exceed it, 0 beyond chance" in share.text
    assert "16.7 % (95 %: 3-56; n = 6, mnist/at, l2 0.1)" in share.text
    assert found["adjusted-bounds-all"].verdict == FAILS


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_our_own_bound_is_judged_too_in_both_norms(norm) -> None:
    tables = audits(0.3)
    assert judged(tables)["mean-value-bounds-all strong"] == HERE
    spec = RunSpec("mnist", "at", "strong")

    def shrink(row) -> None:
        if row["ball"] == norm:
            made.bound_of(row, "mean_value")["euclidean"] = 1e-9

    tables[spec] = made.changed(tables[spec], shrink)
    assert judged(tables)["mean-value-bounds-all strong"] == FAILS


def test_a_label_that_flipped_does_not_count() -> None:
    tables = audits(0.3)
    spec = RunSpec("mnist", "at", "strong")
    flipped = {"deviation": 9.9, "label_kept": False}
    tables[spec] = made.changed(
        tables[spec], lambda row: made.attack_of(row, "ascent").update(flipped)
    )
    assert judged(tables)["cube-bounds-all strong"] == HERE


@pytest.mark.parametrize(
    ("changes", "name", "verdict"),
    [
        ({}, "diagonal", HERE),
        ({"p_dominant": 0.99}, "diagonal", FAILS),
        ({}, "tighter-than-corollary", HERE),
        ({"theorem_2": 2.01}, "tighter-than-corollary", FAILS),
    ],
)
def test_jacobians_are_judged_by_every_sample(changes, name, verdict) -> None:
    one, other = (RunSpec("mnist", model, "jacobian") for model in ("at", "ce"))
    assert judged({one: jacobian(), other: jacobian(**changes)})[name] == verdict


def test_eta_is_compared_with_the_deviation_at_random_points_and_attacks() -> None:
    found = judged({RunSpec("mnist", "at", "eta"): eta(0.05)})
    assert found["negligible-remainder paper"] == HOLDS
    assert found["negligible-remainder strong"] == FAILS


def test_cube_to_ball_uses_slopes_at_different_radii() -> None:
    spec = RunSpec("mnist", "at", "paper")

    def slope(row) -> None:
        factor = 5.0 if row["ball"] == "linf" else 1.0
        made.bound_of(row, "first_order")["euclidean"] = factor * row["epsilon"]

    table = made.changed(made.audit(spec), slope)
    (found,) = [v for v in verdicts(made.MadeRuns({spec: table})) if v.name == "cube-to-ball"]
    assert found.numbers["mnist"]["ours"] == {"at": pytest.approx(25)}
    assert found.verdict == HOLDS
    assert "mnist: 25-25 (paper 17-62)" in found.text


def test_the_papers_own_ranges_are_those_we_read_off(tmp_path) -> None:
    """Errata 16: (T_inf / T_2)^2 of 17-62, 16-31 and 5-10."""
    make(made.MadeRuns(audits(0.5)), tmp_path)
    stored = json.loads((tmp_path / "verdicts.json").read_text())
    (text,) = [each["text"] for each in stored if each["name"] == "cube-to-ball"]
    assert all(f"(paper {r})" in text for r in ("17-62", "16-31", "5-10"))


def test_files_are_written_with_every_claim(tmp_path) -> None:
    paths = ITEM.make(made.MadeRuns(audits(0.5)), tmp_path)
    assert [path.name for path in paths] == ["verdicts.md", "verdicts.json"]
    stored = json.loads(paths[1].read_text())
    lines = paths[0].read_text().splitlines()
    assert len(lines) == 2 + len(stored) == 18
    assert {line.count("|") for line in lines} == {7}, "a bar in a text would end its cell"


def test_every_verdict_counts_the_attacks_behind_it() -> None:
    found = {
        (v.name, v.attacks): v.made
        for v in verdicts(made.MadeRuns(audits(0.5, models=("at", "ce"))))
    }
    samples = made.REPEATS * (made.SAMPLES - 1) * 3 * 2  # three radii of two models
    assert found["first-order-exceeded", "paper"] == samples
    assert found["first-order-exceeded", "strong"] == samples + 3 * samples  # three attacks more
    assert found["means-are-below", "paper"] == 2 * samples
    assert found["diagonal", ""] == 0


def test_intervals_of_rank_correlations() -> None:
    low, high = rank_interval(0.5, 30)
    assert -1 < low < 0.5 < high < 1
    assert rank_interval(0.5, 3) is None
    assert rank_interval(1.0, 7) is None


def test_rank_correlation_by_all_permutations() -> None:
    assert rank_correlation([(1, 1), (2, 2), (3, 3)]) is None
    assert rank_correlation([(1, 5)] * 6) is None
    assert rank_correlation([(1, 2), (2, float("nan")), (3, 4), (4, 5)]) is None
    rho, p, n = rank_correlation([(i, i * i) for i in range(5)])
    assert (rho, p, n) == (pytest.approx(1), pytest.approx(2 / 120), 5)
    many = rank_correlation([(i, -i) for i in range(12)])
    assert many[0] == pytest.approx(-1)
    assert many[1] < 1e-6
