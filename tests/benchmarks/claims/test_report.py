from __future__ import annotations

import json
import re

import pytest

from claims.report import report
from claims.store import SCHEMA

COMMON = {
    **dict.fromkeys(SCHEMA.names),
    "network": "mlp-at-b5",
    "attribution": "saliency",
    "p": 2.0,
    "epsilon": 0.05,
    "attack_seconds": 0.5,
    "first_order_seconds": 0.25,
    "first_order_products": 20,
    "settings": json.dumps({"attack": "ascent", "seed": 0, "network": "abc", "images": [0, 25]}),
}


def rows(worst: float = 1.5, network: str = "mlp-at-b5"):
    """Twenty tests of deviation 1, one ``worst``; bounds 1.25 and 2; as many to calibrate on."""
    base = {**COMMON, "network": network, "first_order": 1.25, "adjusted": 1.25}
    tests = [
        {**base, "role": "test", "attack": attack, "mean_value": 2.0, "certified": 4.0}
        for attack in [1.0] * 19 + [worst]
    ]
    return tests + [{**base, "role": "calibration", "attack": 1.0} for _ in range(20)]


def line(text: str, start: str) -> str:
    (found,) = re.findall(rf"^ *{re.escape(start)}.*$", text, re.MULTILINE)
    return re.sub(r" {2,}", " | ", found.strip())


def test_a_cell_shows_broken_share_and_slack_of_every_claim() -> None:
    shown = line(report(rows()), "saliency   l2 0.05")
    slack = 1.25 * (19 + 1 / 1.5) / 20
    assert shown == (
        f"saliency | l2 0.05 | 20+20 | 5% {slack:.4g} | 5% {slack:.4g} | 5% {slack / 1.25:.4g} | "
        f"0% {2 * slack / 1.25:.4g} | - | 0% {4 * slack / 1.25:.4g}"
    )


def test_goals_that_fail_are_shown_as_such() -> None:
    held, failed = report(rows()), report(rows(worst=2.5))
    goal = "adversarially trained: share broken, all 20 pairs of image and ball"
    assert line(held, goal).endswith("| 0 | <= 0.01 | holds")
    assert line(failed, goal).endswith("| 0.05 | <= 0.01 | fails")
    assert line(failed, "broken, of 20 pairs").endswith("| 0 | <= 0 | holds")
    assert line(report(rows(worst=4.5)), "broken, of 20 pairs").endswith("| 1 | <= 0 | fails")
    assert line(held, "mean slack, mlp-at-b5 saliency l2 0.05").endswith("<= 1.5 | fails")


def test_what_was_not_measured_is_said() -> None:
    text = report([row for row in rows() if row["role"] == "test"])
    assert "not measured" in text
    assert text.count("upper / Theorem 2, mean of 0") == 2, "both sizes"


def test_fewer_certified_images_are_counted() -> None:
    some = rows()
    for row in some[5:]:
        row["certified"] = None
    assert line(report(some), "saliency   l2 0.05").endswith("0% 4 (5)")


def test_networks_have_tables_of_their_own_and_costs() -> None:
    text = report([*rows(), *rows(network="nat")])
    assert line(text, "mlp-at-b5: share of images")
    assert line(text, "nat: share of images")
    assert line(text, "nat   saliency") == "nat | saliency | 0.5 | 0.25 | - | - | 20 | -"


def test_settings_that_differ_are_all_named() -> None:
    other = [{**row, "settings": json.dumps({"attack": "weaker"})} for row in rows(network="nat")]
    assert line(report([*rows(), *other]), "attack: ") == "attack: ascent | weaker"


def test_the_linear_problem_is_shown_by_network() -> None:
    linear = {
        **COMMON,
        "role": "linear",
        "features": 784,
        "theorem2": 2.0,
        "theorem2_products": 784,
        "theorem2_seconds": 4.0,
        "corollary1": 5.0,
        "norm_lower": 1.6,
        "norm_upper": 1.8,
        "norm_products": 160,
        "norm_seconds": 1.0,
    }
    text = report([linear, {**linear, "norm_upper": 2.0, "norm_lower": 2.0}])
    assert line(text, "mlp-at-b5   saliency").split(" | ")[2:] == [
        *("784", "2", "0.95", "1", "1.062", "160", "1", "4")
    ]
    assert re.search(r"products of Theorem 2 / ours, mean +4\.9 +>= 4 +holds", text)


def test_the_report_is_a_function_of_the_rows() -> None:
    assert report(rows()) == report(rows())
    assert report(rows()) != report(rows(worst=1.6))


@pytest.mark.parametrize("claim", ["first_order", "adjusted", "mean_value", "certified"])
def test_every_column_enters(claim) -> None:
    """A claim that was left out, or read from another column, would not change."""
    changed = rows()
    for row in changed:
        if row["role"] == "test":
            row[claim] *= 1.125
    assert report(changed) != report(rows())
