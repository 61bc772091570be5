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


SECOND = json.dumps({"attack_again": "random ascent", "seed": 0, "network": "abc"})


def rows(worst: float = 1.5, network: str = "mlp-at-b5", again: float = 0.75):
    """Twenty tests of deviation 1, one ``worst``; bounds 1.25 and 2; as many to calibrate on.

    The second pass moves the last test by ``again``, and everything else less than the first.
    """
    base = {**COMMON, "network": network, "first_order": 1.25, "adjusted": 1.25}
    tests = [
        {**base, "role": "test", "attack": attack, "mean_value": 2.0, "certified": 4.0}
        for attack in [1.0] * 19 + [worst]
    ]
    calibration = [{**base, "role": "calibration", "attack": 1.0} for _ in range(20)]
    found = []
    for members in (tests, calibration):
        for i, row in enumerate(members):
            attack = again if row is tests[-1] else 0.75
            row["sample"] = i
            second = {"role": f"again-{row['role']}", "attack": attack, "attack_seconds": 0.125}
            place = {name: row[name] for name in ("network", "attribution", "p", "epsilon")}
            blank = dict.fromkeys(SCHEMA.names)
            found += [row, {**blank, **place, **second, "sample": i, "settings": SECOND}]
    return found


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
    text = report([row for row in rows() if row["role"].endswith("test")])
    assert "not measured" in text
    assert text.count("upper / Theorem 2, mean of 0") == 3, "both sizes, two networks of one"


def test_fewer_certified_images_are_counted() -> None:
    some = rows()
    for row in [row for row in some if row["role"] == "test"][5:]:
        row["certified"] = None
    assert line(report(some), "saliency   l2 0.05").endswith("0% 4 (5)")


def test_networks_have_tables_of_their_own_and_costs() -> None:
    text = report([*rows(), *rows(network="nat")])
    assert line(text, "mlp-at-b5: share of images")
    assert line(text, "nat: share of images")
    assert line(text, "nat   saliency") == "nat | saliency | 0.125 | 0.5 | 0.25 | - | - | 20 | -"


def alone(text: str) -> dict[str, list[int]]:
    """Of each claim: pairs, broken, only by the second pass."""
    table = text.split("Broken by the second pass alone")[1].split("\n\n", maxsplit=1)[0]
    found = re.findall(r"^ *([a-z ]+?) +(\d+) +(\d+) +(\d+)$", table, re.MULTILINE)
    return {claim: [*map(int, counts)] for claim, *counts in found}


def test_what_only_the_second_pass_broke_is_counted() -> None:
    text = report(rows())
    assert "on 0 of 40 pairs." in text
    assert alone(text)["mean value"] == [20, 0, 0]
    assert "on 0 of 40 pairs." in report(rows(again=1.5 * 1.0005)), "rounding is no gain"
    text = report(rows(again=2.5))
    assert "on 1 of 40 pairs." in text
    assert alone(text) == {
        "first order": [20, 1, 0],  # broken before
        "adjusted": [20, 1, 0],
        "calibrated": [20, 1, 0],
        "mean value": [20, 1, 1],
        "certified": [20, 0, 0],
    }
    assert "Unfinished" not in text


def test_a_cell_without_second_pass_is_unfinished_and_left_out() -> None:
    lacking = [row for row in rows(network="nat") if not row["role"].startswith("again")]
    text = report([*rows(), *lacking])
    assert "Unfinished and left out: 40 pairs without it, cells: 1." in text
    assert "nat: share of images" not in text
    assert line(text, "saliency   l2 0.05") == line(report(rows()), "saliency   l2 0.05")
    assert line(text, "nat   saliency").startswith("nat | saliency | - | 0.5")


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
