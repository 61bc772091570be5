from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest

from claim_rows import row, table
from claims.report import report
from claims.store import LINEAR

SETTINGS = json.dumps({"seed": 0, "network": "abc", "attacks": {"first": "ascent"}})
AT_X = {
    "network": "mlp-at-b5",
    "role": "linear",
    "settings": SETTINGS,
    "attribution": "saliency",
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


def rows(worst: float = 1.5, network: str = "mlp-at-b5", again: float = 0.75, **scaled: float):
    """Twenty tests of deviation 1, one ``worst``; bounds 1.25 and 2; as many to calibrate on.

    The second pass moves the last test by ``again``, and everything else less than the first.
    """
    bounds = {"first_order": 1.25, "adjusted": 1.25, "mean_value": 2.0, "certified": 4.0}
    bounds = {claim: bound * scaled.get(claim, 1) for claim, bound in bounds.items()}
    common = {"network": network, "seconds": 0.5, "settings": SETTINGS}
    tests = [row("test", 1.0, 0.75, **common, **bounds) for _ in range(19)]
    tests += [row("test", worst, again, **common, **bounds)]
    other = row("calibration", 1.0, 0.75, **common, first_order=1.25, adjusted=1.25)
    for each in (*tests, other):
        each["bounds"][0] |= {"seconds": 0.25, "products": 20}
    return [*tests, *[other] * 20]


def made(found, linear=()) -> str:
    return report(table(found), pa.Table.from_pylist([*linear], LINEAR))


def line(text: str, start: str) -> str:
    (found,) = re.findall(rf"^ *{re.escape(start)}.*$", text, re.MULTILINE)
    return re.sub(r" {2,}", " | ", found.strip())


def test_a_cell_shows_exceeded_share_and_slack_of_every_claim() -> None:
    shown = line(made(rows()), "saliency   l2 0.05")
    slack = 1.25 * (19 + 1 / 1.5) / 20
    assert shown == (
        f"saliency | l2 0.05 | 20+20 | 5% {slack:.4g} | 5% {slack:.4g} | 5% {slack / 1.25:.4g} | "
        f"0% {2 * slack / 1.25:.4g} | - | 0% {4 * slack / 1.25:.4g}"
    )


def test_goals_that_fail_are_shown_as_such() -> None:
    held, failed = made(rows()), made(rows(worst=2.5))
    goal = "adversarially trained: share exceeded, all 20 pairs of image and ball"
    assert line(held, goal).endswith("| 0 | <= 0.01 | holds")
    assert line(failed, goal).endswith("| 0.05 | <= 0.01 | fails")
    assert line(failed, "exceeded, of 20 pairs").endswith("| 0 | <= 0 | holds")
    assert line(made(rows(worst=4.5)), "exceeded, of 20 pairs").endswith("| 1 | <= 0 | fails")
    assert line(held, "mean slack, mlp-at-b5 saliency l2 0.05").endswith("<= 1.5 | fails")


def test_what_was_not_measured_is_said() -> None:
    text = made([each for each in rows() if each["role"] == "test"])
    assert "not measured" in text
    assert text.count("upper / Theorem 2, mean of 0") == 3, "both sizes, two networks of one"


def test_fewer_certified_images_are_counted() -> None:
    some = rows()
    for each in some[5:20]:
        each["bounds"] = [bound for bound in each["bounds"] if bound["claim"] != "certified"]
    assert line(made(some), "saliency   l2 0.05").endswith("0% 4 (5)")


def test_networks_have_tables_of_their_own_and_costs() -> None:
    text = made([*rows(), *rows(network="nat")])
    assert line(text, "mlp-at-b5: share of images")
    assert line(text, "nat: share of images")
    assert line(text, "nat   saliency") == "nat | saliency | 0.125 | 0.5 | 0.25 | - | - | 20 | -"


def alone(text: str) -> dict[str, list[int]]:
    """Of each claim: pairs, exceeded, only by the second pass."""
    table = text.split("Exceeded by the second pass alone")[1].split("\n\n", maxsplit=1)[0]
    found = re.findall(r"^ *([a-z ]+?) +(\d+) +(\d+) +(\d+)$", table, re.MULTILINE)
    return {claim: [*map(int, counts)] for claim, *counts in found}


def test_what_only_the_second_pass_exceeded_is_counted() -> None:
    text = made(rows())
    assert "on 0 of 40 pairs." in text
    assert alone(text)["mean value"] == [20, 0, 0]
    assert "on 0 of 40 pairs." in made(rows(again=1.5 * 1.0005)), "rounding is no gain"
    text = made(rows(again=2.5))
    assert "on 1 of 40 pairs." in text
    assert alone(text) == {
        "first order": [20, 1, 0],  # exceeded before
        "adjusted": [20, 1, 0],
        "calibrated": [20, 1, 0],
        "mean value": [20, 1, 1],
        "certified": [20, 0, 0],
    }


def test_settings_that_differ_are_all_named() -> None:
    weaker = json.dumps({"seed": 0, "attacks": {"first": "weaker"}, "claims": [{"kind": "mine"}]})
    other = [{**each, "settings": weaker} for each in rows(network="nat")]
    text = made([*rows(), *other], [AT_X])
    assert line(text, "first attack: ") == 'first attack: "ascent" | "weaker"'
    assert line(text, "seed: ") == "seed: 0"
    assert line(text, "mine: ") == 'mine: {"kind": "mine"}'
    assert "network: " not in text


def test_the_linear_problem_is_shown_by_network() -> None:
    text = made([], [AT_X, {**AT_X, "norm_upper": 2.0, "norm_lower": 2.0}])
    assert line(text, "mlp-at-b5   saliency").split(" | ")[2:] == [
        *("784", "2", "0.95", "1", "1.062", "160", "1", "4")
    ]
    assert re.search(r"products of Theorem 2 / ours, mean +4\.9 +>= 4 +holds", text)


def test_the_report_is_a_function_of_the_rows() -> None:
    assert made(rows()) == made(rows())
    assert made(rows()) != made(rows(worst=1.6))


@pytest.mark.parametrize("claim", ["first_order", "adjusted", "mean_value", "certified"])
def test_every_column_enters(claim) -> None:
    """A claim that was left out, or read from another column, would not change."""
    assert made(rows(**{claim: 1.125})) != made(rows())
