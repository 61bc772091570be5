"""Small parts.

Also: Certificates of ReLU networks in the benchmark: rows, resuming, report. Mutants: what is
changed, one child for each, the table.
"""

from __future__ import annotations

import importlib.util
import math
import re
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch import nn

import attribound as ab
import fashion
import mutants
from attribound.bounding.certified.network import unroll
from attribound.bounding.certified.relu.region import regions
from attribound.bounding.cosine import cosine_and_degrees
from mutating import Loader, Mutant, of_source
from relu import certificates
from relu.certified_report import certificates_report
from relu.intervals import interval_bound
from relu.networks import Chosen

RECIPE = fashion.Recipe("MLP", 5.0, 3, 1)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2 * fashion.BATCH, 1, 28, 28, generator=generator)
    return images, torch.randint(10, (len(images),), generator=generator)


class KilledError(Exception):
    pass


def kill_after(epochs: int, monkeypatch) -> None:
    """Stop training in the epoch after ``epochs``, as a kill would."""
    shuffle, calls = torch.randperm, []

    def counted(size: int):
        calls.append(size)
        if len(calls) > epochs:
            raise KilledError
        return shuffle(size)

    monkeypatch.setattr(torch, "randperm", counted)


def same(one, other) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_a_killed_training_goes_on_to_the_same_network(data, epochs, monkeypatch, tmp_path) -> None:
    undisturbed = fashion.train("whole", RECIPE, data, tmp_path)
    with monkeypatch.context() as patch:
        kill_after(epochs, patch)
        with pytest.raises(KilledError):
            fashion.train("part", RECIPE, data, tmp_path)
    assert (tmp_path / "fashion-part.partial").exists() == (epochs > 0)
    torch.manual_seed(99)  # a new process does not know the old one's random numbers
    assert same(fashion.train("part", RECIPE, data, tmp_path), undisturbed)
    assert [path.name for path in tmp_path.iterdir()] == [fashion.WEIGHTS.name]
    stored = [fashion.weights(name, tmp_path / fashion.WEIGHTS.name) for name in ("part", "whole")]
    assert all(torch.equal(stored[0][key], value) for key, value in stored[1].items())
    assert not fashion.weights("par", tmp_path / fashion.WEIGHTS.name)


def test_without_the_random_numbers_it_would_be_another(data, monkeypatch, tmp_path) -> None:
    """The check above can fail."""
    undisturbed = fashion.train("whole", RECIPE, data, tmp_path)
    with monkeypatch.context() as patch:
        kill_after(1, patch)
        with pytest.raises(KilledError):
            fashion.train("part", RECIPE, data, tmp_path)
    monkeypatch.setattr(torch, "set_rng_state", lambda state: None)
    assert not same(fashion.train("part", RECIPE, data, tmp_path), undisturbed)


def test_another_recipe_starts_afresh(data, monkeypatch, tmp_path) -> None:
    other = fashion.Recipe("MLP", 20.0, 3, 1)
    with monkeypatch.context() as patch:
        kill_after(1, patch)
        with pytest.raises(KilledError):
            fashion.train("one", other, data, tmp_path)
    fresh = fashion.train("one", RECIPE, data, tmp_path)
    assert same(fresh, fashion.train("two", RECIPE, data, tmp_path))


def test_the_networks_of_the_other_benchmarks_keep_their_recipes() -> None:
    assert fashion.NETWORKS == ("nat", "at")
    assert [fashion.RECIPES[name] for name in fashion.NETWORKS] == [
        fashion.Recipe("SmallCNN", 20.0, 2, 0),
        fashion.Recipe("SmallCNN", 20.0, 2, 7),
    ]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)
    ).eval()


@pytest.fixture
def one(monkeypatch):
    """One small network in place of those that are stored."""
    net, x = network(), torch.rand(8, 6, generator=torch.Generator().manual_seed(1))
    chosen = Chosen(torch.arange(8), x, torch.zeros(8, dtype=torch.long), 1.0)
    monkeypatch.setattr(certificates, "model_of", lambda name: net)
    monkeypatch.setattr(certificates, "chosen", lambda name, seed: chosen)
    monkeypatch.setattr(certificates, "recognised", lambda name: "digest")
    mlp = certificates.NETWORKS["mlp-nat"]
    monkeypatch.setattr(certificates, "network_of", lambda name: mlp)
    cells = [
        (certificates.Cell("tiny", kind, ab.LpBall(0.1, 2.0), dtype), place)
        for place in range(2)
        for kind, dtype in (("saliency", "float64"), ("ig-10", "float32"))
    ]
    monkeypatch.setattr(certificates, "plan", lambda mlp, cnn: iter(cells))
    return net


def test_rows_are_stored_once_and_reported(one, tmp_path, capsys) -> None:
    certificates.run(tmp_path, 2, 0)
    assert capsys.readouterr().out.count("tiny") == 4
    certificates.run(tmp_path, 2, 0)
    assert not capsys.readouterr().out
    assert next(one.parameters()).dtype == torch.float32
    rows = certificates.stored(tmp_path).rows
    for row in rows.to_pylist():
        assert max(row["attack"], row["attained"]) <= row["value"] <= row["root"] * 1.0001
        assert (row["intervals"] is None) == (row["attribution"] == "ig-10")
        assert 0 <= row["stay"] <= row["left"] <= certificates.TOP
        assert row["intervals"] is None or row["intervals"] >= 0.999 * row["value"] - 1e-9
    told = certificates_report(rows)
    assert "Attacks that went further than a certificate: 0 of 4." in told
    assert "ig-10" in told


def test_a_certificate_that_is_exceeded_is_counted(one, tmp_path) -> None:
    certificates.run(tmp_path, 2, 0)
    listed = certificates.stored(tmp_path).rows.to_pylist()
    listed[0]["value"] = 0.0
    listed[0]["attack"] = 1.0
    told = certificates_report(pa.Table.from_pylist(listed, certificates.SCHEMA))
    assert "further than a certificate: 1 of 4." in told
    assert "yet" in certificates_report(certificates.SCHEMA.empty_table())


def test_what_does_not_fit_is_stored_with_its_reason(one, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(certificates, "METHOD", ab.Certified(memory_limit=600))
    certificates.run(tmp_path, 2, 0)
    rows = certificates.stored(tmp_path).rows
    assert {row["value"] for row in rows.to_pylist()} == {math.inf}
    told = certificates_report(rows)
    assert "mlp" not in told
    assert "tiny, saliency, l2 0.1: 2 of 2 refused: " in told
    assert " GiB for 6 directions and a layer of 8" in told
    assert "further than a certificate: 0 of 0." in told


def test_the_plan_has_every_ball_and_keeps_images_in_their_range() -> None:
    cells = [*certificates.plan(5, 1)]
    assert len(cells) == len({(cell, place) for cell, place in cells})
    asked: dict[tuple[str, str], set[ab.LpBall]] = {}
    for cell, _ in cells:
        assert cell.ball.limited != cell.network.startswith("credit")
        asked.setdefault((cell.network, cell.attribution), set()).add(
            replace(cell.ball, low=None, high=None)
        )
    assert len(asked) == 3 * len({network for network, _ in asked})
    for (network, kind), balls in asked.items():
        more = certificates.SMALL if (network[:3], kind) == ("cnn", "saliency") else ()
        assert balls == {*certificates.BALLS, *more}


def test_intervals_hold_on_samples() -> None:
    net, x = network().double(), torch.rand(1, 6).double()
    ball = ab.LinfBall(0.1)
    (region,) = regions(ball, x)
    bound = interval_bound(unroll(net, (6,)), x, 0, region)
    many = x.expand(500, 6)
    label = torch.zeros(500, dtype=torch.long)
    moved = ab.Saliency(net)(many + ball.sample(many, 0), label) - ab.Saliency(net)(x, label[:1])
    assert (moved.norm(dim=1) <= bound).all()


def test_the_stored_report_is_that_of_the_stored_rows() -> None:
    text = (certificates.RESULTS.parent / "certificates.txt").read_text()
    assert text == certificates.told(certificates.stored()) + "\n"


def test_what_the_page_says_of_certificates_is_what_the_rows_say() -> None:
    """Of the sentences with figures in "What stops it, and where"."""
    page = Path(certificates.RESULTS).parents[1] / "docs" / "relu.md"
    said = " ".join(page.read_text().replace("\u2113", "l").split())
    rows = [row for row in certificates.stored().rows.to_pylist() if row["dtype"] == "float32"]

    def cell(name: str, ball: str, epsilon: float, kind: str = "saliency") -> list[dict[str, Any]]:
        key = {"network": name, "attribution": kind, "ball": ball, "epsilon": epsilon}
        return [row for row in rows if key.items() <= row.items()]

    def ratios(*asked: Any) -> list[float]:
        found = [(max(each["attack"], each["attained"]), each) for each in cell(*asked)]
        return [each["value"] / most for most, each in found if most > 1e-4 * each["norm"]]

    def middle(name: str, *asked: Any) -> float:
        return statistics.median(row[name] for row in cell(*asked))

    def span(cells: list[tuple[Any, ...]]) -> str:
        every = [statistics.median(ratios(*each)) for each in cells]
        return f"{min(every):.1f} to {max(every):.1f}"

    inf, l2 = [("linf", 0.005), ("linf", 0.01)], [("l2", 0.01), ("l2", 0.05), ("l2", 0.1)]
    wide = [("mlp4-nat", "l2", 0.2), ("mlp4-nat", "linf", 0.01), ("mlp4-nat", "linf", 0.05)]
    (far, farther, furthest) = (statistics.median(ratios(*each)) for each in wide)
    open_ = [f"({middle('neurons', *each):.0f}" for each in wide]
    assert (
        f"the bound is {span([('mlp4-nat', *ball) for ball in l2])} times what is attained up to "
        f"l2 .1, {far:.1f} times at .2 {open_[0]} neurons that may switch), {farther:.1f} times at "
        f"l∞ .01 {open_[1]}), and at l∞ .05 {furthest:.0f} times {open_[2]})" in said
    )
    robust = span([("mlp4-at", *ball) for ball in [*l2, ("l2", 0.2), *inf]])
    last = "mlp4-at", "linf", 0.05
    assert (
        f"is at {robust} up to l2 .2 and l∞ .01, and at {statistics.median(ratios(*last)):.0f} for "
        f"l∞ .05 ({middle('neurons', *last):.0f})" in said
    )
    tiny = span([(name, *ball) for name in ("tiny-nat", "tiny-at") for ball in [*l2[:2], *inf]])
    assert f"is done like an MLP ({tiny} up to l2 .05 and l∞ .01)" in said
    for name in ("cnn-at", "cnn-nat"):
        own = [(name, "l2", 0.01), (name, "l2", 0.02)]
        (near, wider), (first, second) = (
            [f"{middle(what, *each):.0f}" for each in own] for what in ("neurons", "seconds")
        )
        assert re.search(rf"has {near}( neurons that may switch at l2 .01)? and {wider}\b", said)
        near, wider = (f"{statistics.median(ratios(*each)):.1f}" for each in own)
        assert f": {near} and {wider} times" in said
        assert f", {first} and {second} seconds" in said
    small = [("cnn-at", "l2", 0.01), ("cnn-at", "l2", 0.02), ("cnn-at", "linf", 0.005)]
    first, second, third = (f"{max(ratios(*each)):.1f}" for each in small)
    assert {len(cell(*each)) for each in small} == {4}
    assert f"{statistics.median(ratios(*small[2])):.1f} at l∞ .005. Of its four images" in said
    assert f"at {first}, {second} and {third} times" in said
    wide = "cnn-at", "l2", 0.05
    (one,) = ratios(*wide)
    assert f"At l2 .05 one image has {middle('neurons', *wide):.0f}, is at {one:.1f} times" in said
    assert middle("degrees", *wide) == 180
    large = [row for row in rows if row["network"][:3] == "cnn" and row["stay"] is not None]
    most = max(row["megabytes"] for row in large)
    assert f"took up to {most / 1000:.1f} GB, the program, attacks and lists included" in said
    (first, second, third), (some, fewer, least) = (
        [f"{cell('cnn-at', 'l2', each)[0][name]:.0f}" for each in (0.01, 0.02, 0.05)]
        for name in ("stay", "left")
    )
    assert f"{first}, {second} and {third} surely stay at l2 .01, .02 and .05" in said
    assert f"(attacks left {some}, {fewer} and {least})" in said
    own = [f"{cell('cnn-nat', 'l2', each)[0]['stay']:.0f}" for each in (0.01, 0.02)]
    assert f"and {' and '.join(own)} at .01 and .02 where it was not" in said
    images = [name for name in {row["network"] for row in rows} if name[:3] in ("mlp", "tin")]
    nodes = span([(name, *ball, "ig-10") for name in images for ball in l2])
    assert f"they are at {nodes} times the attack on images" in said
    asked = [("l2", 0.01), ("linf", 0.005), ("l2", 0.05)]
    near, cube, far = (statistics.median(ratios("cnn-at", *each, "ig-10")) for each in asked)
    assert f"at {near:.1f} times at l2 .01, at {cube:.1f} at l∞ .005 and at {far:.0f} at" in said


SOURCE = '''
LIMIT = 3
def area(a: float = 2.0, b=None) -> float:
    """Of 2 sides."""
    if a < 0 or not b:
        raise ValueError("a below 0")
    return max(up(a * b), LIMIT)
'''


def test_every_expression_that_computes_is_changed_and_no_other() -> None:
    found = of_source("store", "attribound.area", SOURCE)
    changes = {(each.before, each.after) for each in found}
    assert changes == {
        ("a < 0 or not b", "a < 0 and (not b)"),
        ("a < 0", "a <= 0"),
        ("a < 0", "a >= 0"),
        ("0", "1"),
        ("not b", "b"),
        ("max(up(a * b), LIMIT)", "min(up(a * b), LIMIT)"),
        ("up(a * b)", "a * b"),
        ("a * b", "a / b"),
        ("2.0", "4.0"),
    }
    assert len({each.key for each in found}) == len(found)


def test_the_table_goes_on_where_it_was(tmp_path, monkeypatch) -> None:
    """What is known to be equivalent does not count."""
    monkeypatch.setattr(mutants, "RESULTS", tmp_path / "mutants.parquet")
    monkeypatch.setattr("sys.argv", ["mutants.py", "--set", "store=6"])
    tried: list[str] = []

    def run(room: str, wanted: list[Mutant], tell) -> None:
        assert room == "store"
        for mutant in wanted:
            tried.append(mutant.key)
            tell(mutant, mutants.KILLED if len(tried) % 3 else mutants.SURVIVED, 1.0, "a test")

    monkeypatch.setattr(mutants, "run", run)
    mutants.main()
    assert len({*tried}) == len(tried) == 6
    mutants.main()
    assert len(tried) == 6
    left = [row for row in mutants.stored().values() if row["outcome"] == mutants.SURVIVED]
    assert "66.7% (30% to 90%)" in mutants.table()
    assert "No reason known" in mutants.markdown()
    own = {each.key: each for each in mutants.mutants("store")}[left[0]["key"]]
    monkeypatch.setattr(mutants, "REASONS", {("", own.within, own.before, own.after): "the same"})
    assert "80.0%" in mutants.table()
    assert "the same" in mutants.table()
    every = len([*mutants.mutants("store")])
    assert f"| store | {every} | 6 | 4 | 1 | 80.0%" in mutants.markdown()
    assert mutants.shares()[0].first == mutants.shares()[0].percent + " of 5"


def test_the_first_outcome_is_kept_and_mutants_that_are_gone_do_not_count(
    tmp_path, monkeypatch
) -> None:
    """A law that is written for a survivor kills it the next time: that is another share."""
    monkeypatch.setattr(mutants, "RESULTS", tmp_path / "mutants.parquet")
    monkeypatch.setattr(mutants, "ROOMS", {"store": mutants.ROOMS["store"]})
    outcome = mutants.SURVIVED

    def run(room: str, wanted: list[Mutant], tell) -> None:
        for mutant in wanted:
            tell(mutant, outcome, 2.0 if mutants.ROOMS[room].matching else 1.0, "a test")

    monkeypatch.setattr(mutants, "run", run)
    monkeypatch.setattr("sys.argv", ["mutants.py", "--set", "store=4", "--by", "some"])
    with pytest.raises(SystemExit):
        mutants.main()
    monkeypatch.setattr("sys.argv", ["mutants.py", "--set", "store=4"])
    mutants.main()
    again = ["mutants.py", "--set", "store=4", "--again"]
    monkeypatch.setattr("sys.argv", [*again, "--by", "some"])
    mutants.main()  # what some tests do not see, others may
    assert {row["seconds"] for row in mutants.stored().values()} == {1.0}
    outcome = mutants.KILLED
    monkeypatch.setattr("sys.argv", again)
    mutants.main()
    (store, _) = mutants.shares()
    assert (store.killed, store.survived, store.unseen) == (4, 0, 4)
    assert store.first.startswith("0.0%")
    rows = mutants.stored()
    gone, older = [*rows.values()][:2]
    del rows[gone["key"]]
    mutants.store(rows | {"gone": {**gone, "key": "gone"}, older["key"]: {**older, "first": ""}})
    assert (mutants.shares()[0].tried, mutants.shares()[0].fresh) == (3, 2)


def test_functions_get_their_changed_code_and_lines_are_those_of_the_statement() -> None:
    """What runs at import has no lines: it is imported anew."""
    source = (
        "def outer(a, b=1):\n    def inner(c):\n"
        "        return a + (\n            c - 2\n        )\n"
        "    return inner(b)\n\nclass Known:\n    def twice(self, a):\n        return 2 * a\n"
    )
    found = of_source("small", "small_module", source)
    by_change = {(each.before, each.after): each for each in found}
    assert by_change["c - 2", "c + 2"].lines() == {3, 4, 5}
    assert by_change["c - 2", "c + 2"].within == "outer.inner"
    assert by_change["1", "2"].lines() == set()
    file = str(mutants.ROOT / "src" / "small_module.py")
    assert not by_change["1", "2"].put_in()
    for change, values in (
        (("a + (c - 2)", "a - (c - 2)"), (4, 8)),
        (("2 * a", "2 / a"), (2, 0.5)),
    ):
        names: dict[str, Any] = {}
        exec(compile(source, file, "exec"), names)
        assert (names["outer"](3), names["Known"]().twice(4)) == (2, 8)
        assert by_change[change].put_in()
        assert (names["outer"](3), names["Known"]().twice(4)) == values


def faulty() -> Mutant:
    own = of_source("small", "attribound.bounding.cosine", COSINE.read_text())
    return next(each for each in own if each.before == "sine ** 2")


def test_a_module_is_imported_with_its_fault() -> None:
    spec = Loader(faulty()).find_spec("attribound.bounding.cosine", None)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    deviation, length = torch.tensor([0.3]), torch.tensor([1.0])
    right, wrong = (f(deviation, length)[0] for f in (cosine_and_degrees, made.cosine_and_degrees))
    assert wrong > 2 * right
    assert Loader(faulty()).find_spec("attribound.bounding.restate", None) is None


SCRIPT = """
import mutants, mutating
mutants.ROOMS = {"small": mutants.Room(("bounding/cosine.py",), ("bounding/test_cosine.py",))}
wrong = next(each for each in mutants.mutants("small") if each.before == "sine ** 2")
told = []
mutants.run("small", [wrong], lambda *answer: told.append(answer))
((mutant, outcome, seconds, by),) = told
assert (mutant, outcome) == (wrong, mutants.KILLED)
assert by.startswith("tests/bounding/test_cosine.py")
"""


@pytest.mark.slow
def test_a_fault_fails_the_tests_of_its_room() -> None:
    """In a process of its own, from which children are forked."""
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=mutants.ROOT / "benchmarks", check=True)


COSINE = mutants.ROOT / "src" / "attribound" / "bounding" / "cosine.py"
