"""Cells of the tables against a count over single trials."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import paper_made as made
from attribound.auditing import Cell, wilson
from reproduction.paper.items import RunSpec
from reproduction.paper.numbers import cell_of, paper_numbers, strong_numbers

PAPER, STRONG = (RunSpec("mnist", "at", kind) for kind in ("paper", "strong"))


def counted(samples, label: bool) -> dict[str, float]:
    """The definitions, sample by sample, the failed one left out."""
    fine = [sample for i, sample in enumerate(samples) if i != made.FAILED]
    means, degrees, repeats, exceeded, hit, gaps, gaps_adjusted = [], [], 0, 0, 0, [], []
    for sample in fine:
        (trials,) = sample.trials.values()
        own = [t for t in trials if t.kept or not label]
        repeats += len(own)
        far = sum(t.deviation > sample.bound for t in own)
        exceeded += far
        hit += far > 0
        if own:
            means.append(np.mean([t.deviation for t in own]))
            degrees.append(np.mean([t.degrees for t in own]))
            gaps.append(sample.bound - means[-1])
            gaps_adjusted.append(sample.adjusted - means[-1])
    return {
        "n": len(fine),
        "errors": 1,
        "attack": np.mean(means),
        "attack_degrees": np.mean(degrees),
        "exceeded": 100 * exceeded / repeats,
        "exceeded_samples": 100 * hit / len(means),
        "bound": np.mean([s.bound for s in fine]),
        "adjusted": np.mean([s.adjusted for s in fine]),
        "gap": min(gaps),
        "gap_adjusted": min(gaps_adjusted),
        "relative": np.mean([s.bound / s.size for s in fine]),
        "bound_degrees": np.mean(
            [math.degrees(math.asin(s.bound / s.size)) for s in fine if s.bound < s.size]
        ),
        "undefined": sum(s.bound >= s.size for s in fine),
    }


@pytest.mark.parametrize("label", [True, False])
@pytest.mark.parametrize(("norm", "epsilon"), [("l2", 0.2), ("linf", 0.05)])
def test_the_papers_cells_are_what_single_trials_give(norm, epsilon, label) -> None:
    strength = 0.9
    table = made.audit(PAPER, strength=strength)
    found = paper_numbers(cell_of(table, "ig", norm, epsilon), label=label)
    samples = made.samples_of(PAPER, norm, epsilon, strength=strength)
    for name, value in counted(samples, label).items():
        assert found[name] == pytest.approx(value), name


def test_the_count_sees_whether_labels_matter() -> None:
    """So that the test above can fail: the two ways differ in these trials."""
    samples = made.samples_of(PAPER, "l2", 0.2, strength=0.9)
    one, other = counted(samples, True), counted(samples, False)
    assert all(one[name] != other[name] for name in ("attack", "attack_degrees", "exceeded"))


def test_means_have_standard_errors_and_shares_intervals() -> None:
    cell = cell_of(made.audit(PAPER, strength=0.9), "ig", "l2", 0.2)
    found = paper_numbers(cell, label=False)
    bounds = np.array([s.bound for i, s in enumerate(sampled()) if i != made.FAILED])
    assert found["bound_se"] == pytest.approx(bounds.std(ddof=1) / math.sqrt(len(bounds)))
    assert found["attacks"] == made.REPEATS * len(bounds)
    assert 0 <= found["exceeded_low"] < found["exceeded"] < found["exceeded_high"] <= 100
    # Repeats of a sample are no samples: the interval is as wide as that of so few of these.
    low, high = wilson(round(found["exceeded"] / 100 * len(bounds)), len(bounds))
    assert found["exceeded_high"] - found["exceeded_low"] >= 99 * (high - low)
    alone = paper_numbers(with_rows(cell, listed(cell)[:1]), label=False)
    assert "bound_se" not in alone


def sampled() -> list:
    return made.samples_of(PAPER, "l2", 0.2, strength=0.9)


def test_theorem_2_is_of_the_samples_that_have_it_and_the_certificate_of_all() -> None:
    """In the plan the certificate is cheap and Theorem 2 dear."""
    cell = cell_of(made.audit(PAPER), "ig", "linf", 0.05)
    few = listed(cell)[:3]
    for row in few:
        made.bound_of(row, "first_order")["euclidean"] *= 1.5
    dense = with_rows(cell, few)
    plain, found = (paper_numbers(cell, each, label=False) for each in (None, dense))
    assert (found["n"], found["n_certificate"]) == (3, plain["n"])
    assert found["certificate"] == plain["bound"]
    assert found["theorem_by_certificate"] == pytest.approx(1.5)
    expected = np.mean([made.bound_of(row, "first_order")["euclidean"] for row in few])
    assert found["bound"] == pytest.approx(expected)
    strong = cell_of(made.audit(STRONG, strength=1.2), "ig", "linf", 0.05)
    held = strong_numbers(strong, cell, dense, label=False)
    assert held["n"] == 3
    assert held["exceeded_certificate"] > 0
    assert "certificate" not in strong_numbers(strong, cell, None, label=False)


def test_bounds_without_an_attack_yet() -> None:
    cell = cell_of(made.audit(PAPER), "ig", "l2", 0.2)
    rows = listed(cell)
    for row in rows:
        row["attacks"], row["strongest"] = [], None
    found = paper_numbers(with_rows(cell, rows), label=True)
    assert found["n_attack"] == 0
    assert found["bound"] == paper_numbers(cell, label=True)["bound"]
    assert "attack" not in found


def listed(cell: Cell) -> list[dict]:
    return cell.rows.to_pylist()


def with_rows(cell: Cell, rows: list[dict]) -> Cell:
    return replace(cell, rows=pa.Table.from_pylist(rows, schema=cell.rows.schema))


@pytest.mark.parametrize("label", [True, False])
def test_a_sample_where_the_attack_stayed_at_the_input_is_none_it_withstood(label) -> None:
    cell = cell_of(made.audit(PAPER), "ig", "linf", 0.05)
    still = listed(cell)
    ifia = made.attack_of(still[0], "ifia")
    stayed = {"deviation": 0.0, "degrees": 0.0, "label_kept": True, "kendall": 1.0}
    ifia |= {**stayed, "repeats": [stayed] * made.REPEATS}
    still[0]["attacks"] = [ifia]
    found, without = (
        paper_numbers(with_rows(cell, each), label=label) for each in (still, listed(cell)[1:])
    )
    assert (found["still"], without["still"]) == (1, 0)
    assert found["n"] == without["n"] + 1
    of_attack = ("attack", "attack_degrees", "kendall", "exceeded", "exceeded_samples", "gap")
    for name in (*of_attack, "exceeded_adjusted", "labels_kept"):
        assert found[name] == pytest.approx(without[name])
    only = with_rows(cell, still[:1])
    assert [paper_numbers(only, label=label)[name] for name in of_attack] == [None] * 6


def test_columns_have_samples_of_their_own() -> None:
    """Bounds of all samples, attacks on two of them."""
    cell = cell_of(made.audit(PAPER), "ig", "l2", 0.1)
    rows = listed(cell)
    for row in rows[2:]:
        row["attacks"], row["strongest"] = [], None
    few = paper_numbers(with_rows(cell, rows), label=False)
    both = paper_numbers(with_rows(cell, listed(cell)[:2]), label=False)
    whole = paper_numbers(cell, label=False)
    assert (few["n"], few["n_attack"]) == (made.SAMPLES - 1, 2)
    for name in ("attack", "attack_degrees", "kendall", "exceeded", "exceeded_adjusted", "gap"):
        assert few[name] == pytest.approx(both[name])
    for name in ("bound", "adjusted", "bound_degrees", "relative"):
        assert few[name] == pytest.approx(whole[name])
    # The other way round: attacks on all, bounds of two.
    rows = listed(cell)
    for row in rows[2:]:
        row["bounds"] = []
    few = paper_numbers(with_rows(cell, rows), label=False)
    assert (few["n"], few["n_attack"]) == (2, made.SAMPLES - 1)
    assert few["exceeded"] == pytest.approx(both["exceeded"])
    assert few["attack"] == pytest.approx(whole["attack"])


@pytest.mark.parametrize("label", [True, False])
def test_under_our_attacks_the_furthest_of_each_sample_counts(label) -> None:
    table = made.audit(STRONG, strength=1.1)
    rows = cell_of(table, "ig", "l2", 0.1)
    found = strong_numbers(rows, None, label=label)
    samples = made.samples_of(STRONG, "l2", 0.1, strength=1.1)
    far, exceeded = [], 0
    for i, sample in enumerate(samples):
        furthest = [max(each, key=lambda t: t.deviation) for each in sample.trials.values()]
        own = [t.deviation for t in furthest if t.kept or not label]
        if i != made.FAILED and own:
            far.append(max(own))
            exceeded += far[-1] > sample.bound
    assert found["attack"] == pytest.approx(np.mean(far))
    assert found["exceeded"] == pytest.approx(100 * exceeded / len(far))
    assert 0 < found["exceeded"] <= 100
    assert found["exceeded_mean_value"] == 0


def test_the_papers_own_bound_is_taken_where_it_is_known() -> None:
    cell = cell_of(made.audit(STRONG), "ig", "linf", 0.05)
    rows = listed(cell)
    for row in rows:
        if row["error"] is None:
            made.bound_of(row, "first_order")["euclidean"] *= 3
    alone = strong_numbers(cell, None, label=False)
    joined = strong_numbers(cell, with_rows(cell, rows), label=False)
    assert joined["bound"] == pytest.approx(3 * alone["bound"])
    few = strong_numbers(cell, with_rows(cell, rows[:1]), label=False)
    assert alone["bound"] < few["bound"] < joined["bound"]


def test_the_papers_attack_counts_among_ours_where_it_went_further() -> None:
    cell = cell_of(made.audit(STRONG), "ig", "linf", 0.05)
    far = {"deviation": 50.0, "degrees": 90.0, "label_kept": True, "kendall": -0.5}

    def changed(**values) -> Cell:
        rows = listed(cell)
        rows[0]["strongest"] |= values
        return with_rows(cell, rows)

    alone, joined, flipped, still = (
        strong_numbers(cell, paper, label=True)
        for paper in (
            None,
            changed(**far),
            changed(**far | {"label_kept": False}),
            changed(**far | {"deviation": 0.0}),
        )
    )
    bound = cell.bound("first_order")[0]
    assert joined["worst_factor"] == pytest.approx(50 / bound)
    assert joined["attack"] > alone["attack"]
    assert joined["kendall"] < alone["kendall"]
    for same in (flipped, still):
        assert same["attack"] == pytest.approx(alone["attack"])
    # Without the constraint a flipped label counts as well.
    free = strong_numbers(cell, changed(**far | {"label_kept": False}), label=False)
    assert free["worst_factor"] == joined["worst_factor"]


def test_kendall_is_that_of_the_furthest_attack_that_kept_the_label() -> None:
    spec = RunSpec("cifar10", "at", "methods-strong")
    cell = cell_of(made.audit(spec), "saliency", "linf", 0.1)
    deviations = {"ascent": 3.0, "pgd": 2.0, "ifia": 0.0, "angle": 1.0, "projected": 0.5}
    kept = {"ascent": False, "pgd": True, "ifia": True, "angle": True, "projected": False}

    def numbers(**changes: float) -> tuple[float | None, float | None]:
        row = listed(cell)[0]
        for i, name in enumerate(kept):
            far = {**deviations, **changes}[name]
            own = {"deviation": far, "label_kept": kept[name], "kendall": i / 10}
            made.attack_of(row, name).update(own)
        found = strong_numbers(with_rows(cell, [row]), None, label=True)
        return found["attack"], found["kendall"]

    assert numbers() == (2.0, 0.1)
    # One that stayed at the input is none that found something.
    assert numbers(pgd=0.0, angle=0.0) == (None, None)


def test_a_ball_in_which_all_samples_failed_says_so() -> None:
    cell = cell_of(made.audit(PAPER), "ig", "l2", 0.1)
    failed = with_rows(cell, [row for row in listed(cell) if row["error"] is not None])
    for found in (
        paper_numbers(failed, label=True),
        strong_numbers(failed, None, label=True),
    ):
        assert found == {"n": 0, "errors": 1}


def test_rows_are_found_by_kind_of_attribution_and_printed_radius() -> None:
    table = made.audit(RunSpec("cifar10", "at", "paper"))
    assert len(cell_of(table, "ig", "linf", 4 / 255)) == made.SAMPLES
    assert cell_of(table, "ig", "linf", 0.02) is None
    assert cell_of(table, "saliency", "linf", 4 / 255) is None
