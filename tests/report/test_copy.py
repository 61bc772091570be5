"""An audit with a smooth copy is told no better for the network itself than its rows are.

One real run in which the copy's bounds are exceeded on the network, one in which none is, and
rows made by hand for what a small run doesn't have.
"""

from __future__ import annotations

import importlib
import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from html import unescape

import numpy as np
import pyarrow.csv
import pytest
import torch
from rich.console import Console
from torch import nn

import attribound as ab
from attribound.auditing import Run, summarise, totals
from attribound.auditing.summary import yours_totals
from attribound.data import load
from attribound.report import compare, console, export, figures, groups, summary_table
from attribound.report.page import render
from attribound.report.page_data import page_data
from attribound.report.subjects import copy_of
from attribound.report.summary_table import ON_YOURS, OWN, WORST_ON_YOURS
from attribound.report.verdict import verdict
from report import cases

CLAIMS = ("first_order", "mean_value", "certified")
TITLES = {
    "first_order": "first-order",
    "mean_value": "mean-value (searched)",
    "certified": "certified",
    "calibrated": "calibrated",
    "adjusted": "adjusted",
}
COPY = "its smooth copy, β = 20"
VERDICT = importlib.import_module("attribound.report.verdict")
TABLE = importlib.import_module("attribound.report.summary_table")
DRAWING = importlib.import_module("attribound.report.figures")


def audited(out, epsilon: float, **more: object) -> Run:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    chosen = {"smooth": 20, "limit": 8, "attributions": "saliency", "claims": [*CLAIMS], **more}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ab.Certified, "of_kinked", False)  # here all claims are of the copy
        return ab.audit(model, load("digits", "test"), out=out, balls=ab.L2Ball(epsilon), **chosen)


@pytest.fixture(scope="module")
def exceeded(tmp_path_factory):
    """A ball that reaches across kinks, on which the bounds of the copy know nothing."""
    run = audited(tmp_path_factory.mktemp("exceeded") / "run", 0.01)
    assert all(counts(run, "yours_exceeded").values())
    assert not counts(run, "exceeded")["certified"]
    return run


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A ball so large that bounds of the copy are above all that the network can do."""
    run = audited(tmp_path_factory.mktemp("kept") / "run", 5.0)
    assert not any(counts(run, "yours_exceeded").values())
    return run


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Several settings, failed samples, and calibrated bounds that are of the network itself."""
    copied = cases.Copied(1.4, own=("calibrated",))
    return cases.run(tmp_path_factory.mktemp("mixed") / "run", copied=copied)


@pytest.fixture(scope="module", params=["exceeded", "kept", "mixed"])
def run(request):
    return request.getfixturevalue(request.param)


def counts(run: Run, flag: str, **where: object) -> Counter[str]:
    """How many bounds of each claim have a flag, read from the rows and nothing else."""
    found: Counter[str] = Counter()
    for bound in run.bounds().to_pylist():
        if all(bound[name] == value for name, value in where.items()):
            found[bound["claim"]] += bool(bound[flag])
    return found


def printed(table, width: int = 200) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def said(run: Run):
    return verdict(groups(run.rows()), copy=copy_of(run.manifest.settings))


def check_told(run: Run, claims: Mapping[str, tuple[str, str]]) -> None:
    """What is said of the user's network, by title (text and tone), is what its rows say."""
    for name, count in counts(run, "yours_exceeded").items():
        text, tone = claims[TITLES[name]]
        numbers = re.findall(r"exceeded (\d+) of (\d+) bounds", text)
        assert [int(number) for number, _ in numbers] == ([count] if count else [])
        if count:
            assert tone != "good"
        if "copy" in subjects(run, name):
            assert tone == ("bad" if count else "neutral")
            assert f"bounds of {COPY}" in text


def subjects(run: Run, claim: str) -> set[str]:
    bounds = run.bounds().to_pylist()
    return {each["subject"] for each in bounds if each["claim"] == claim and each["subject"]}


def test_the_verdict_has_a_part_for_each_network_and_says_what_the_rows_say(run) -> None:
    yours, copy = said(run).parts
    assert (yours.title, copy.title) == ("Your network", "Its smooth copy, β = 20")
    check_told(run, {each.title: (each.text, each.tone) for each in yours.claims})
    of_copy = {each.title: each for each in copy.claims}
    for name, count in counts(run, "exceeded", subject="copy").items():
        assert (f"exceeded {count} of" in of_copy[TITLES[name]].text) == bool(count)
    assert ("calibrated" in of_copy) is False


def test_a_verdict_drawn_from_the_copy_would_be_noticed(exceeded, monkeypatch) -> None:
    """What was printed before: no attack exceeded it, in green."""
    monkeypatch.setattr(
        VERDICT, "_of_yours", lambda claim, cells, _: [VERDICT._claim(claim, cells, "copy")]
    )
    yours = said(exceeded).parts[0]
    assert {each.title: each.tone for each in yours.claims}["certified"] == "good"
    with pytest.raises(AssertionError):
        check_told(exceeded, {each.title: (each.text, each.tone) for each in yours.claims})


def test_bounds_of_the_network_itself_are_judged_as_usual(tmp_path, mixed, monkeypatch) -> None:
    found = {each.title: each for each in said(mixed).parts[0].claims}
    count = counts(mixed, "yours_exceeded")["calibrated"]
    assert count
    assert found["calibrated"].text.startswith(f"an attack exceeded {count} of")
    monkeypatch.setattr(cases, "ZERO", -1)
    monkeypatch.setattr(cases, "FAILED", -1)
    monkeypatch.setitem(cases.FACTORS, "certified", 1.3)
    chosen = cases.settings(smooth=20.0, balls=(ab.L2Ball(0.05),))
    own = cases.Copied(0.5, own=("calibrated", "certified"))
    tame = cases.run(tmp_path / "run", chosen, copied=own)
    found = {each.title: each for each in said(tame).parts[0].claims}
    assert found["certified"].tone == "good"  # of the network, and no attack exceeded it
    assert found["mean-value (searched)"].tone == "neutral"  # of the copy
    factor = re.search(r"at worst ([\d.]+) times", said(mixed).parts[0].claims[2].text)
    bounds = [
        (row["yours"]["deviation"] / bound["euclidean"])
        for row in mixed.rows().to_pylist()
        for bound in row["bounds"]
        if bound["claim"] == "calibrated"
    ]
    assert float(factor[1]) == pytest.approx(max(bounds), rel=1e-2)


def test_the_distance_of_the_copy_is_beside_what_attacks_did(exceeded) -> None:
    first, apart = said(exceeded).paragraphs
    assert COPY in first
    fidelity = exceeded.rows()["fidelity"].to_pylist()
    for field in ("degrees", "ball_degrees"):
        angles = [each[field] for each in fidelity]
        assert f"{np.median(angles):.1f}° " in apart
        assert f"at worst {max(angles):.1f}°" in apart
    for column in ("yours", "strongest"):
        turned = [each["degrees"] for each in exceeded.rows()[column].to_pylist()]
        assert f"by {np.median(turned):.1f}° (at worst {max(turned):.1f}°)" in apart
    assert "further from your network than attacks turned either" in apart


def check_table(run: Run, header: tuple[str, ...], blocks) -> None:
    """The counts of both columns, and the worst factor, are those of the rows."""
    settings = [(each.attribution, each.ball, each.epsilon) for each in summarise(run.rows())]
    for setting, block in zip(settings, blocks, strict=True):
        where = dict(zip(("attribution", "ball", "epsilon"), setting, strict=True))
        rows = {row[0].partition(", of ")[0]: row for row in block.rows}
        for column, flag in ((OWN, "exceeded"), (ON_YOURS, "yours_exceeded")):
            for name, count in counts(run, flag, **where).items():
                assert int(rows[TITLES[name]][header.index(column)].split()[0]) == count
        factors = [float(row[header.index(WORST_ON_YOURS)][:-1]) for row in block.rows[2:]]
        for factor, name in zip(factors, counts(run, "exceeded", **where), strict=True):
            assert (factor > 1) == bool(counts(run, "yours_exceeded", **where)[name])


def test_the_table_has_both_networks(run) -> None:
    found = summary_table(summarise(run.rows()), COPY)
    check_table(run, found.header, found.blocks)
    for block in found.blocks:
        assert [row[0] for row in block.rows[:2]] == [
            "strongest attack on your network",
            f"strongest attack on {COPY}",
        ]
        assert all(len(row) == len(found.header) for row in block.rows)
        for row in block.rows[2:]:
            own = row[0].startswith("calibrated")
            assert row[0].endswith(", of your network" if own else ", of the copy")
        assert f"maps of {COPY}, are " in block.note


def test_a_table_of_the_copy_alone_would_be_noticed(exceeded, monkeypatch) -> None:
    drawn = TABLE._exceeded
    claims = summarise(exceeded.rows())[0].claims.values()
    swapped = {each.yours: each.exceeded for each in claims}
    monkeypatch.setattr(TABLE, "_exceeded", lambda share: drawn(swapped.get(share, share)))
    found = summary_table(summarise(exceeded.rows()), COPY)
    with pytest.raises(AssertionError):
        check_table(exceeded, found.header, found.blocks)


def test_the_console_has_both_counts_and_the_distance(run) -> None:
    text = printed(console(run))
    assert "strongest attack on your network" in text
    assert f"strongest attack on {COPY}" in text
    lines = [line for line in text.splitlines() if re.match(r"  (certified|first-order), of", line)]
    blocks = summarise(run.rows())
    assert len(lines) == 2 * len(blocks)
    for line, (summary, claim) in zip(
        lines, [(s, c) for s in blocks for c in ("first_order", "certified")], strict=True
    ):
        where = {"attribution": summary.attribution, "ball": summary.ball}
        where["epsilon"] = summary.epsilon
        shown = [int(number) for number in re.findall(r"(\d+) \(\d+\.\d%\)", line)]
        assert shown == [
            counts(run, flag, **where)[claim] for flag in ("exceeded", "yours_exceeded")
        ]
    assert " ".join(text.split()).count("from those of your network at x") == len(blocks)
    assert "…" not in printed(console(run), width=80)


def test_without_a_copy_nothing_of_this_is_shown(tmp_path) -> None:
    run = cases.run(tmp_path / "run")
    found = summary_table(summarise(run.rows()))
    assert (found.header, found.caption) == (TABLE.HEADER, TABLE.CAPTION)
    assert found.blocks[0].rows[0][0] == "strongest attack"
    assert not any(block.note for block in found.blocks)
    html = render(run).partition('<script type="application/json"')[0]
    for text in (printed(console(run)), html):
        assert "smooth copy" not in text
        assert "on your network" not in text.lower()
    assert all(share is None for share in yours_totals(summarise(run.rows())).values())


def parts(html: str) -> dict[str, dict[str, tuple[str, str]]]:
    """The parts of the verdict on a page: by heading and title of a claim, text and tone."""
    section = html.partition('id="verdict"')[2].partition("</section>")[0]
    found = {}
    for part in section.split('<h3 class="network">')[1:]:
        listed = re.findall(r'<li class="(\w+)"><strong>(.*?)</strong>: (.*?)</li>', part)
        claims = {unescape(title): (unescape(text), tone) for tone, title, text in listed}
        found[part.partition("</h3>")[0]] = claims
    return found


def test_the_page_has_both_parts_and_says_what_the_rows_say(run) -> None:
    html = render(run)
    found = parts(html)
    assert [*found] == ["Your network", "Its smooth copy, β = 20"]
    check_told(run, found["Your network"])
    assert f"Maps and attacks are of what was bounded: {COPY}." in html
    titles = re.findall(r"<h3>(.*?)</h3>", html)
    assert titles
    assert all(title.endswith(f": {COPY}") for title in titles)
    assert f"what was bounded is {COPY}" in html


def test_what_the_page_computes_with_is_that_of_each_network(run) -> None:
    found = groups(run.rows())
    data = json.loads(json.dumps(page_data(found, [], copy=COPY)))
    assert data["networks"] == {"yours": "your network", "copy": COPY}
    for group, told in zip(found, data["groups"], strict=True):
        where = {"attribution": group.attribution, "ball": group.ball}
        for at, epsilon in enumerate(group.epsilons):
            for name, count in counts(run, "yours_exceeded", **where, epsilon=epsilon).items():
                assert len(told["exceeded"]["yours"][name][at]) == count
            for name, flagged in told["exceeded"]["copy"].items():
                here = counts(run, "exceeded", **where, epsilon=epsilon)
                assert len(flagged[at]) == here[name]
        assert ("calibrated" in told["exceeded"]["copy"]) is False
        assert {*told["angles"]} == {"calibrated"} & {*told["subjects"]}


def test_a_claim_exceeded_on_either_network_is_exceeded(run) -> None:
    found = totals(summarise(run.rows()))
    either: Counter[str] = Counter()
    for bound in run.bounds().to_pylist():
        either[bound["claim"]] += bool(bound["exceeded"] or bound["yours_exceeded"])
    assert {name: share.count for name, share in found.items()} == either
    yours = yours_totals(summarise(run.rows()))
    assert {name: share.count for name, share in yours.items()} == counts(run, "yours_exceeded")


def test_a_claim_that_nobody_knows_here_is_not_praised_for_its_copy(tmp_path) -> None:
    claims = {"of_nobody": 2.0, "certified": 9.0}
    run = cases.run(tmp_path / "run", claims=claims, copied=cases.Copied(3.0))
    yours, copy = said(run).parts
    tones = {each.title: each.tone for each in yours.claims}
    assert tones == {"of_nobody": "bad", "certified": "neutral"}
    assert {each.title: each.tone for each in copy.claims}["of_nobody"] == "neutral"
    assert "of_nobody, of the copy" in printed(console(run))


def test_without_attacks_on_the_network_nothing_is_concluded(tmp_path) -> None:
    run = audited(tmp_path / "run", 0.01, limit=2, attacks={}, own_attacks={})
    yours, copy = said(run).parts
    for part in (yours, copy):
        assert {each.tone for each in part.claims} == {"neutral"}
    assert all("No attack was made on it" in each.text for each in yours.claims)
    assert "Attacks turned" not in said(run).paragraphs[1]
    assert render(run)
    assert " - " in printed(console(run))


def test_runs_are_compared_network_by_network(exceeded, tmp_path) -> None:
    same = compare([exceeded, exceeded])
    whats = {each.what for each in same.differences}
    assert {
        "attack on your network",
        f"attack on {COPY}",
        f"|g| of {COPY}",
        f"certified of {COPY}",
        f"certified of {COPY} exceeded",
        f"certified of {COPY} exceeded on your network",
    } <= whats
    assert "attack" not in whats
    share = counts(exceeded, "yours_exceeded")["certified"] / 8
    (one,) = [
        each
        for each in same.differences
        if each.what.endswith("exceeded on your network") and each.what.startswith("certified")
    ]
    assert one.first == pytest.approx(share)
    other = audited(tmp_path / "other", 0.01, smooth=50)
    whats = {each.what for each in compare([exceeded, other]).differences}
    assert "attack on smooth copies, β = 20 and 50" in whats


def test_a_copy_is_never_compared_with_a_network(tmp_path) -> None:
    plain = cases.run(tmp_path / "plain")
    copied = cases.run(tmp_path / "copied", copied=cases.Copied(1.4, own=("calibrated",)))
    whats = {each.what for each in compare([plain, copied]).differences}
    assert "attack on your network" in whats
    assert "calibrated of your network" in whats
    assert not any("copy" in what or "first-order" in what for what in whats)


def test_exports_name_the_network(exceeded, tmp_path) -> None:
    samples, bounds, attacks = export(exceeded, "csv", tmp_path / "rows.csv")
    table = pyarrow.csv.read_csv(samples)
    assert not any(name.startswith("strongest_") for name in table.column_names)
    rows = exceeded.rows()
    for name, column in {"copy": "strongest", "yours": "yours"}.items():
        expected = [each["deviation"] for each in rows[column].to_pylist()]
        assert table[f"{name}_deviation"].to_pylist() == pytest.approx(expected)
    assert {*pyarrow.csv.read_csv(bounds)["subject"].to_pylist()} == {"copy"}
    assert {*pyarrow.csv.read_csv(attacks)["subject"].to_pylist()} == {"copy", "yours"}
    (tex,) = export(exceeded, "latex", tmp_path / "table.tex")
    text = tex.read_text()
    assert r"strongest attack on its smooth copy, $\beta$ = 20" in text
    plain = [line for line in text.splitlines() if line.endswith(r"\\")]
    widths = {len(re.findall(r"(?<!\\)&", line)) for line in plain if "multicolumn" not in line}
    assert widths == {13}
    (whole,) = export(exceeded, "json", tmp_path / "all.json")
    (summary,) = json.loads(whole.read_text())["summary"]
    claim = summary["claims"]["certified"]
    assert claim["subject"] == "copy"
    assert claim["yours"]["count"] == counts(exceeded, "yours_exceeded")["certified"]
    assert {each["subject"] for each in summary["attacks"].values()} == {"copy", "yours"}


def test_figures_say_whose_attacks_they_show(mixed, tmp_path, monkeypatch) -> None:
    made = []
    monkeypatch.setattr(DRAWING, "_file", lambda figure, kind: made.append(figure) or b"")
    written = [path.stem for path in figures(mixed, tmp_path) if path.suffix == ".png"]
    titles = [figure.axes[0].get_title() for figure in made[::2]]
    legends = [figure.axes[0].get_legend_handles_labels()[1] for figure in made[::2]]
    for name, title, legend in zip(written, titles, legends, strict=True):
        if name.endswith("curves"):
            assert f"strongest attack on {COPY}" in legend
            assert "strongest attack on your network" in legend
            continue
        yours = name.endswith("yours")
        assert title.endswith(f", attacks on {'your network' if yours else COPY}")
        assert ("calibrated, of your network" in legend) == yours
        assert f"certified, of {COPY}" in legend
