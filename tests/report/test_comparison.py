"""Differences of runs: closed forms, SciPy, coverage, and what is left out."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import attribound as ab
from attribound.basics.errors import InputError
from attribound.report import compare, write_comparison
from attribound.report.compare_page import SAMPLES, headline, render_comparison
from attribound.report.comparison import _INTERVALS
from report import cases


def only(found, what, attribution="saliency", ball="l2", epsilon=0.1):
    (one,) = [
        each
        for each in found.differences
        if (each.what, each.attribution, each.ball, each.epsilon)
        == (what, attribution, ball, epsilon)
    ]
    return one


def test_paired_runs_differ_by_what_was_changed(tmp_path) -> None:
    a, b = cases.run(tmp_path / "a"), cases.run(tmp_path / "b", scale=1.5)
    found = compare([a, b])
    one = only(found, "attack")
    assert one.paired
    assert one.n == 23  # one sample failed
    assert one.other == pytest.approx(1.5 * one.first)
    assert one.low < one.difference < one.high
    assert one.clear
    assert not only(found, "accuracy").clear
    assert found.notes == ()


def test_intervals_are_those_of_scipy() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(0, 1, 12), random.normal(0.5, 2, 12)
    paired = stats.ttest_rel(y, x).confidence_interval(0.95)
    assert _INTERVALS[True, False](x, y) == pytest.approx(tuple(paired))
    welch = stats.ttest_ind(y, x[:7], equal_var=False).confidence_interval(0.95)
    assert _INTERVALS[False, False](x[:7], y) == pytest.approx(tuple(welch))


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("p", "q"), [(0.0, 0.03), (0.1, 0.3)])
def test_intervals_of_shares_cover_the_truth(paired, p, q) -> None:
    random = np.random.default_rng(1)
    covered = naive = 0
    for _ in range(600):
        x, y = (random.random((2, 60)) < [[p], [q]]).astype(float)
        low, high = _INTERVALS[paired, True](x, y)
        covered += low <= q - p <= high
        error = 1.96 * math.sqrt(x.var() / 60 + y.var() / 60)
        naive += abs(y.mean() - x.mean() - (q - p)) <= error
    assert covered / 600 >= 0.94
    if p == 0:
        assert naive / 600 < 0.9  # what the adjustment is for


def test_one_sample_says_nothing_of_the_spread() -> None:
    one = np.array([1.0])
    for paired in (True, False):
        assert _INTERVALS[paired, False](one, one) == (-math.inf, math.inf)


def test_other_data_are_not_paired(tmp_path) -> None:
    a = cases.run(tmp_path / "a")
    b = cases.run(tmp_path / "b", seed=1, fingerprint="sha256:other")
    found = compare([a, b])
    assert not only(found, "attack").paired
    assert "so not paired" in found.notes[0]


def test_settings_of_one_run_only_are_noted(tmp_path) -> None:
    a = cases.run(tmp_path / "a")
    b = cases.run(tmp_path / "b", cases.settings(balls=(ab.L2Ball(0.1),)))
    found = compare([a, b, a])
    assert "6 settings are in one of the runs only" in found.notes[0]
    assert {each.epsilon for each in found.differences if each.run == str(b.path)} == {0.1}
    assert found.others == (str(b.path), str(a.path))
    same = [each for each in found.differences if each.run == str(a.path)]
    assert not any(each.clear for each in same)


def test_no_run_gains_by_what_it_leaves_open(tmp_path) -> None:
    """Open angles count as 180 degrees in both runs, and their share is compared."""
    a, b = cases.run(tmp_path / "a"), cases.run(tmp_path / "b", scale=4.0)
    found = compare([a, b])
    angle, open_ = only(found, "certified °"), only(found, "certified open")
    assert angle.n == open_.n == 23
    for run, mean, share in ((a, angle.first, open_.first), (b, angle.other, open_.other)):
        angles = [
            each["degrees"]
            for each in run.bounds().to_pylist()
            if (each["claim"], each["attribution"]) == ("certified", "saliency")
            and (each["ball"], each["epsilon"]) == ("l2", 0.1)
        ]
        assert mean == pytest.approx(np.mean(angles))
        assert share == pytest.approx(np.mean([each == 180 for each in angles]))
    assert open_.other > open_.first


def test_infinite_bounds_are_left_out(tmp_path) -> None:
    a, b = cases.run(tmp_path / "a"), cases.run(tmp_path / "b", scale=1.1)
    found = compare([a, b])
    assert only(found, "calibrated").n == 22
    assert all(math.isfinite(each.difference) for each in found.differences)
    records = json.loads(json.dumps(found.records(), allow_nan=False))
    assert len(records) == len(found.differences)


def test_one_run_is_no_comparison(tmp_path) -> None:
    a = cases.run(tmp_path / "a")
    with pytest.raises(InputError, match="runs: expected two or more, got 1"):
        compare([a])
    b = cases.run(tmp_path / "b", cases.settings(balls=(ab.LpBall(3.0, 1),)))
    with pytest.raises(InputError, match="that the first run has, too"):
        compare([a, b])


def test_the_page_has_every_difference_and_the_samples_that_differ_most(tmp_path) -> None:
    a, b = cases.run(tmp_path / "a"), cases.run(tmp_path / "b", scale=1.5)
    html = write_comparison([a, b], tmp_path / "deep" / "page.html").read_text()
    found = compare([a, b])
    rows = html.partition('id="table"')[2].partition("</table>")[0]
    assert rows.count('<th scope="row">') == len(found.differences)
    assert headline(found) in html
    assert rows.count(" *</td>") == sum(each.clear for each in found.differences)
    beside = html.partition('id="beside"')[2].partition("</table>")[0]
    shown = re.findall(r"<th scope=\"row\" class=\"id\">(\d+)</th><td>.*?</td>(.*?)</tr>", beside)
    assert len(shown) == SAMPLES
    angles = [re.findall(r"<td>(.*?)</td>", cells) for _, cells in shown]
    apart = [
        abs(float(x.replace("open", "180")) - float(y.replace("open", "180")))
        for x, _, y, _ in angles
    ]
    assert apart == pytest.approx(sorted(apart, reverse=True), abs=0.11)
    assert html.count('<article class="panel card">') == 2 * 4
    assert "no maps stored" not in html
    assert cases.HOSTILE not in html
    assert "<script" not in html
    assert "nothing: the same settings" in html


def test_the_page_of_runs_on_other_samples_has_no_samples_side_by_side(tmp_path) -> None:
    a = cases.run(tmp_path / "a", cases.settings(attributions=(ab.Saliency(),)))
    b = cases.run(tmp_path / "b", seed=1, fingerprint="sha256:other")
    html = render_comparison([a, b, a])
    assert "Samples side by side" not in html
    assert "so not paired" in html
    assert "data was" in html


def test_equal_runs_are_equally_far(tmp_path) -> None:
    runs = [cases.run(tmp_path / name) for name in "ab"]
    assert headline(compare(runs)).endswith(
        "leaves out zero; attacks turn explanations equally far in B."
    )


def test_the_sentence_counts_settings_and_picks_none(tmp_path) -> None:
    """What turns further in one setting and not in others is no answer for all of them."""
    chosen = cases.settings(attributions=(ab.Saliency(),))
    a, b = cases.run(tmp_path / "a", chosen), cases.run(tmp_path / "b", chosen, scale=1.5)
    found = compare([a, b])
    turned = [each for each in found.differences if each.what == "attack °"]
    assert len(turned) > 1
    own = [each for each in turned if each.clear and each.difference > 0]
    (said,) = re.findall(r"clearly further in B in (\d) of (\d) settings", headline(found))
    assert said == (str(len(own)), str(len(turned)))
    none = replace(found, differences=tuple(replace(each, low=-999.0) for each in turned))
    assert headline(none).endswith("turn explanations does not differ clearly in B.")
    lower = tuple(replace(each, difference=-1.5, low=-2.0, high=-1.0) for each in turned[:1])
    one = headline(replace(found, differences=lower))
    assert one.endswith(f"clearly less far in B, by 1.5° for {turned[0].setting.title} (means).")


def test_the_page_says_what_its_numbers_mean(tmp_path) -> None:
    runs = [cases.run(tmp_path / name) for name in "abc"]
    both, three = render_comparison(runs[:2]), render_comparison(runs)
    for name in ("accuracy", "|g|", "Kendall", "top-k", "claim", "... °", "... exceeded"):
        assert f"<dt>{name}</dt>" in both
    assert '<th scope="col">run</th><th scope="col">A</th>' not in both  # B is the only other
    assert '<th scope="col">run</th><th scope="col">A</th>' in three


def test_one_sample_has_no_interval_to_draw(tmp_path) -> None:
    chosen = cases.settings(limit=1, batch=1, maps="none", attacks={})
    runs = [cases.run(tmp_path / name, chosen) for name in "ab"]
    html = render_comparison(runs)
    assert "-∞ to ∞" in html
    assert headline(compare(runs)).endswith("leaves out zero.")
    assert "turn explanations" not in html
