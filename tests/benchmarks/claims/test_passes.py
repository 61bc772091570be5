from __future__ import annotations

import pytest

from claims.passes import joined, unfinished

ROW = {
    "network": "at",
    "attribution": "saliency",
    "role": "test",
    "p": 2.0,
    "epsilon": 0.05,
    "sample": 7,
    "attack": 1.0,
    "attack_by": "ascent",
    "attack_label_kept": True,
    "attack_seconds": 3.0,
    "mean_value": 1.5,
}
AGAIN = {
    **ROW,
    "role": "again-test",
    "attack_by": "random ascent",
    "attack_label_kept": False,
    "attack_seconds": 1.0,
    "mean_value": None,
}


@pytest.mark.parametrize(
    ("attack", "by", "kept"),
    [(0.5, "ascent", True), (1.0, "ascent", True), (2.0, "random ascent", False)],
)
def test_the_stronger_pass_is_taken_whole_and_named(attack, by, kept) -> None:
    (found,) = joined([{**AGAIN, "attack": attack}, ROW])
    assert found == {
        **ROW,
        "attack": max(1.0, attack),
        "attack_by": by,
        "attack_label_kept": kept,
        "first_attack": 1.0,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("network", "nat"),
        ("attribution", "ig-3"),
        ("p", float("inf")),
        ("epsilon", 0.1),
        ("sample", 8),
        ("role", "again-calibration"),
    ],
)
def test_passes_of_other_images_cells_or_roles_are_never_joined(name, value) -> None:
    rows = [ROW, {**AGAIN, name: value}]
    assert joined(rows) == []
    assert unfinished(rows) == [ROW]
    assert unfinished([ROW, AGAIN]) == []


def test_linear_rows_and_second_passes_alone_are_neither_joined_nor_unfinished() -> None:
    linear = {**ROW, "role": "linear", "epsilon": None}
    assert joined([linear, AGAIN]) == []
    assert unfinished([linear, AGAIN]) == []
