"""Cells of the tables against a count over single trials."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from reproduction.paper.items import RunSpec
from reproduction.paper.numbers import paper_numbers, rows_of, strong_numbers
import paper_made as made

PAPER, STRONG = (RunSpec("mnist", "at", kind) for kind in ("paper", "strong"))


def counted(samples, label: bool) -> dict[str, float]:
    """The definitions, sample by sample, the failed one left out."""
    fine = [sample for i, sample in enumerate(samples) if i != made.FAILED]
    means, degrees, repeats, outside, hit, gaps, gaps_adjusted = [], [], 0, 0, 0, [], []
    for sample in fine:
        (trials,) = sample.trials.values()
        own = [t for t in trials if t.kept or not label]
        repeats += len(own)
        far = sum(t.deviation > sample.bound for t in own)
        outside += far
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
        "outside": 100 * outside / repeats,
        "outside_samples": 100 * hit / len(means),
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
    found = paper_numbers(rows_of(table, "ig", norm, epsilon), label=label)
    samples = made.samples_of(PAPER, norm, epsilon, strength=strength)
    for name, value in counted(samples, label).items():
        assert found[name] == pytest.approx(value), name


def test_the_count_sees_whether_labels_matter() -> None:
    """So that the test above can fail: the two ways differ in these trials."""
    samples = made.samples_of(PAPER, "l2", 0.2, strength=0.9)
    one, other = counted(samples, True), counted(samples, False)
    assert all(one[name] != other[name] for name in ("attack", "attack_degrees", "outside"))


@pytest.mark.parametrize("label", [True, False])
def test_a_sample_where_the_attack_stayed_at_the_input_is_none_it_withstood(label) -> None:
    rows = rows_of(made.audit(PAPER), "ig", "linf", 0.05)
    whole = rows.to_pylist()
    changed = [dict(row) for row in whole]
    for end in ("", "_mean", "_degrees", "_mean_degrees", "_kept_mean", "_kept_mean_degrees"):
        changed[0][f"attack_ifia{end}"] = 0.0
    changed[0] |= {"attack_ifia_mean_kendall": 1.0, "attack_ifia_label_kept": True}
    found, without = (
        paper_numbers(pa.Table.from_pylist(each, schema=rows.schema), label=label)
        for each in (changed, whole[1:])
    )
    assert (found["still"], without["still"]) == (1, 0)
    assert found["n"] == without["n"] + 1
    of_attack = ("attack", "attack_degrees", "kendall", "outside", "outside_samples", "gap")
    for name in (*of_attack, "outside_adjusted", "labels_kept"):
        assert found[name] == pytest.approx(without[name])
    only = pa.Table.from_pylist(changed[:1], schema=rows.schema)
    assert [paper_numbers(only, label=label)[name] for name in of_attack] == [None] * 6


@pytest.mark.parametrize("label", [True, False])
def test_under_our_attacks_the_furthest_of_each_sample_counts(label) -> None:
    table = made.audit(STRONG, strength=1.1)
    rows = rows_of(table, "ig", "l2", 0.1)
    found = strong_numbers(rows, None, label=label)
    samples = made.samples_of(STRONG, "l2", 0.1, strength=1.1)
    far, outside = [], 0
    for i, sample in enumerate(samples):
        furthest = [max(each, key=lambda t: t.deviation) for each in sample.trials.values()]
        own = [t.deviation for t in furthest if t.kept or not label]
        if i != made.FAILED and own:
            far.append(max(own))
            outside += far[-1] > sample.bound
    assert found["attack"] == pytest.approx(np.mean(far))
    assert found["outside"] == pytest.approx(100 * outside / len(far))
    assert 0 < found["outside"] <= 100
    assert found["outside_mean_value"] == 0


def test_the_papers_own_bound_is_taken_where_it_is_known() -> None:
    rows = rows_of(made.audit(STRONG), "ig", "linf", 0.05)
    theirs = rows.set_column(
        rows.column_names.index("first_order"),
        "first_order",
        pa.array([None if v is None else 3 * v for v in rows["first_order"].to_pylist()]),
    )
    alone = strong_numbers(rows, None, label=False)
    joined = strong_numbers(rows, theirs, label=False)
    assert joined["bound"] == pytest.approx(3 * alone["bound"])
    few = strong_numbers(rows, theirs.slice(0, 1), label=False)
    assert alone["bound"] < few["bound"] < joined["bound"]


def changed(rows: pa.Table, place: int, **values) -> pa.Table:
    return pa.Table.from_pylist(
        [{**row, **values} if i == place else row for i, row in enumerate(rows.to_pylist())],
        schema=rows.schema,
    )


def test_the_papers_attack_counts_among_ours_where_it_went_further() -> None:
    rows = rows_of(made.audit(STRONG), "ig", "linf", 0.05)
    far = {"attack": 50.0, "attack_degrees": 90.0, "attack_label_kept": True, "kendall": -0.5}
    own = {**far, "attack": 0.0}
    alone, joined, flipped, still = (
        strong_numbers(rows, paper, label=True)
        for paper in (
            None,
            changed(rows, 0, **far),
            changed(rows, 0, **far | {"attack_label_kept": False}),
            changed(rows, 0, **own),
        )
    )
    assert joined["worst_factor"] == pytest.approx(50 / rows["first_order"][0].as_py())
    assert joined["attack"] > alone["attack"]
    assert joined["kendall"] == -0.5  # of the others it is not known
    for same in (flipped, still):
        assert same["attack"] == pytest.approx(alone["attack"])
    # Without the constraint a flipped label counts as well.
    free = strong_numbers(rows, changed(rows, 0, **far | {"attack_label_kept": False}), label=False)
    assert free["worst_factor"] == joined["worst_factor"]


def test_kendall_is_that_of_the_furthest_attack_that_kept_the_label() -> None:
    rows = rows_of(made.audit(STRONG), "ig", "linf", 0.05).slice(0, 1)
    values = {"attack_ascent": 3.0, "attack_pgd": 2.0, "attack_ifia": 0.0, "attack_angle": 1.0}
    kept = {"ascent": False, "pgd": True, "ifia": True, "angle": True, "projected": False}
    values |= {f"attack_{name}_label_kept": each for name, each in kept.items()}
    values |= {f"attack_{name}_kendall": i / 10 for i, name in enumerate(kept)}
    found = strong_numbers(changed(rows, 0, **values), None, label=True)
    assert (found["attack"], found["kendall"]) == (2.0, 0.1)
    # One that stayed at the input is none that found something.
    nothing = changed(rows, 0, **values | {"attack_pgd": 0.0, "attack_angle": 0.0})
    found = strong_numbers(nothing, None, label=True)
    assert (found["attack"], found["kendall"]) == (None, None)


def test_a_ball_in_which_all_samples_failed_says_so() -> None:
    rows = rows_of(made.audit(PAPER), "ig", "l2", 0.1)
    broken = rows.filter(pa.compute.is_valid(rows["error"]))
    for found in (
        paper_numbers(broken, label=True),
        strong_numbers(broken, None, label=True),
    ):
        assert found == {"n": 0, "errors": 1}


def test_rows_are_found_by_kind_of_attribution_and_printed_radius() -> None:
    table = made.audit(RunSpec("cifar10", "at", "paper"))
    assert rows_of(table, "ig", "linf", 4 / 255).num_rows == made.SAMPLES
    assert rows_of(table, "ig", "linf", 0.02).num_rows == 0
    assert rows_of(table, "saliency", "linf", 4 / 255).num_rows == 0
