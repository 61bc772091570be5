from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import attribound as ab
from attribound.auditing.cells import cells, title_of
from attribound.auditing.measure import failed, measure
from attribound.auditing.rows import SCHEMA, table
from auditing import cases, fakes


def rows(**changes) -> pa.Table:
    """Two samples that are fine and one that failed."""
    made = pa.concat_tables(
        [fakes.measured(range(2)).rows, fakes.measured(range(2, 3), "boom").rows]
    )
    return table([{**row, **changes} for row in made.to_pylist()], SCHEMA)


def test_one_cell_per_attribution_ball_and_radius_in_order() -> None:
    several = pa.concat_tables(
        [rows(attribution=name, ball=ball) for name in ("sal", "ig") for ball in ("linf", "l2")]
    )
    found = cells(several)
    assert [(cell.attribution, cell.ball, cell.epsilon) for cell in found] == [
        (name, ball, epsilon)
        for name in ("ig", "sal")
        for ball in ("l2", "linf")
        for epsilon in (0.05, 0.1)
    ]
    assert [cell.setting for cell in found] == sorted(cell.setting for cell in found)
    assert found[0].setting.title == "ig, l2 ε = 0.05"
    assert all(len(cell) == 3 for cell in found)
    assert cells(SCHEMA.empty_table()) == []


def test_numbers_are_aligned_with_the_samples_and_nan_where_there_are_none() -> None:
    cell = cells(rows())[1]
    assert cell.samples == [0, 1, 2]
    assert cell.errors == [None, None, "boom"]
    nan = math.nan
    expected = {
        "strongest": (cell.strongest("deviation"), [0.0, 0.1, nan]),
        "kept": (cell.strongest("label_kept"), [1.0, 1.0, nan]),
        "bound": (cell.bound("first_order"), [0.0, 0.05, nan]),
        "exceeded": (cell.bound("first_order", "exceeded"), [1.0, 1.0, nan]),
        "attack": (cell.attack("pgd"), [0.0, 0.1, nan]),
        "scores": (cell.numbers("scores"), [1.0, 1.0, nan]),
        "features": (cell.numbers("features"), [2.0, 2.0, 2.0]),
        "fidelity": (cell.fidelity("degrees"), [nan, nan, nan]),
        "another claim": (cell.bound("certified"), [nan, nan, nan]),
        "another attack": (cell.attack("ifia"), [nan, nan, nan]),
    }
    for name, (numbers, values) in expected.items():
        np.testing.assert_allclose(numbers, values, err_msg=name)
        assert numbers.dtype == np.float64
    assert cell.exceeded("first_order").tolist() == [True, True, False]
    assert cell.exceeded("mean_value").tolist() == [False, False, False]
    yours = cells(rows(bounds=[{"claim": "x", "exceeded": False, "yours_exceeded": True}]))[0]
    assert cell.either_exceeded("first_order").tolist() == [True, True, False]
    assert yours.either_exceeded("x").tolist() == [True, True, True]
    assert [len(each) for each in cell.repeats("pgd")] == [2, 2, 0]


def test_claims_are_in_the_order_of_tables_and_foreign_ones_last() -> None:
    bounds = [{"claim": name} for name in ("zzz", "certified", "first_order", "aaa")]
    cell = cells(rows(bounds=bounds))[0]
    assert cell.claims == ("first_order", "certified", "aaa", "zzz")
    assert title_of("mean_value") == "mean-value (searched)"
    assert title_of("zzz") == "zzz"


def test_attacks_are_as_they_were_made() -> None:
    assert cells(rows())[0].attacks == ("pgd",)
    assert cells(rows(attacks=[]))[0].attacks == ()
    assert cells(rows(attacks=[{"attack": "b"}, {"attack": "a"}]))[0].attacks == ("b", "a")


def test_cells_of_measured_rows_say_what_the_rows_say() -> None:
    subject = cases.subject(claims=("first_order", "certified"))
    made = measure(subject, cases.batch()).rows
    lost = failed(subject.settings, cases.batch(), "died").rows
    for cell in cells(made):
        own = [row for row in made.to_pylist() if row["epsilon"] == cell.epsilon]
        for claim in ("first_order", "certified"):
            for field in ("euclidean", "degrees", "exceeded"):
                values = [float(cases.bound_of(row, claim)[field]) for row in own]
                assert cell.bound(claim, field).tolist() == pytest.approx(values)
            texts = [cases.bound_of(row, claim)["status"] for row in own]
            assert cell.bound_texts(claim, "status") == texts
        assert cell.repeats("pgd") == [cases.attack_of(row, "pgd")["repeats"] for row in own]
    assert [cell.claims for cell in cells(lost)] == [(), ()]
    assert {cell.ball for cell in cells(made)} == {ab.L2Ball(0.1).name}
