"""Lists of reasons in audits: the records are what the library says, by name and id."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import attribound as ab
from attribound.attacks import AttributionAscent
from attribound.auditing.measure import measure
from attribound.auditing.rows import REASONS_SCHEMA, untimed
from attribound.auditing.store import Run
from attribound.bounding.reasons.attained import attained
from attribound.bounding.reasons.record import Displacement
from attribound.data import Columns
from attribound.data.examples import InMemory
from auditing import cases

CLAIMS = ("first_order", "adjusted", "mean_value", "certified")
METHODS = (ab.FirstOrder(), ab.Adjusted(), cases.MEAN_VALUE, ab.Certified())
QUICK: dict[str, Any] = {
    "attributions": [ab.Saliency()],
    "balls": [ab.L2Ball(0.1)],
    "claims": METHODS,
    "attacks": {"ascent": AttributionAscent(steps=1)},
    "dtype": "float64",
    "keep": 3,
    "table": {"unit": "column"},  # the balls as they are
}
NAMES = ["age", "income", "debt", "loans", "late", "years", "phone"]


def people(count: int = 5) -> InMemory:
    batch = cases.batch(count)
    found = InMemory("people", batch.x.float(), batch.labels, ["a", "b", "c"])
    found.ids = tuple(f"P-{number}" for number in range(count))
    found.columns = Columns.plain(NAMES)
    return found


@pytest.fixture(scope="module")
def run() -> Run:
    return ab.audit(cases.plain(), people(), batch=2, **QUICK)


def test_records_are_what_the_library_says(run) -> None:
    model, data = cases.plain().double(), people()
    x = data.read(torch.arange(5)).double()
    rows = run.rows().to_pylist()
    for at, method in enumerate(METHODS):
        said = ab.reasons(ab.Saliency(model), x, ab.L2Ball(0.1), 3, claim=method, attack=False)
        for number, row in enumerate(rows):
            record = row["reasons"][at]
            assert (record["claim"], record["subject"]) == (CLAIMS[at], "yours")
            assert record["features"] == said.features[number].tolist()
            assert record["low"] == pytest.approx(said.low[number].tolist(), rel=1e-6)
            assert record["high"] == pytest.approx(said.high[number].tolist(), rel=1e-6)
            assert record["kept"] == said.kept[number].item()
            assert record["stays"] == said.stays[number].tolist()
            left = record["attacked_kept"]
            assert record["exceeded"] == (left < record["kept"])
            assert len({*record["features"]} & {*record["attacked_features"]}) == left
            assert record["seconds"] >= 0
    certified = [row["reasons"][3] for row in rows]
    assert not any(record["exceeded"] for record in certified)


def test_what_rounding_may_have_done_contradicts_no_claim(monkeypatch) -> None:
    """As of deviations; what the attack left is in the rows as it was evaluated."""

    def unsure(*asked: Any) -> Displacement:
        return replace(attained(*asked), kept=torch.tensor([0, 0]), at_most=torch.tensor([3, 0]))

    monkeypatch.setattr("attribound.auditing.reasoned.attained", unsure)
    subject = cases.subject(keep=3, claims=(ab.FirstOrder(),), balls=(ab.L2Ball(1e-4),))
    records = [row["reasons"][0] for row in measure(subject, cases.batch(2)).rows.to_pylist()]
    assert [record["attacked_kept"] for record in records] == [0, 0]
    assert all(record["kept"] > 0 for record in records), "else this tests nothing"
    assert [record["exceeded"] for record in records] == [False, True]


def test_a_line_a_reason_by_name_and_id(run) -> None:
    table = run.reasons()
    assert table.schema == REASONS_SCHEMA
    assert table.num_rows == 5 * 4 * 3
    lines = table.to_pylist()
    assert {line["id"] for line in lines} == {f"P-{number}" for number in range(5)}
    rows = run.rows().to_pylist()
    for line in lines:
        assert line["name"] == NAMES[line["feature"]]
        (row,) = (row for row in rows if row["sample"] == line["sample"])
        (record,) = (each for each in row["reasons"] if each["claim"] == line["claim"])
        rank = line["rank"] - 1
        assert line["feature"] == record["features"][rank]
        assert line["value"] == record["values"][rank]
        assert line["attacked_value"] == record["attacked_values"][rank]
        assert line["attacked_stays"] == (line["feature"] in record["attacked_features"])
        assert line["features"] == 7
    assert run.samples()["id"].to_pylist() == [row["id"] for row in rows]
    assert "reasons" not in run.samples().column_names
    assert run.bounds()["id"].to_pylist()[0] == rows[0]["id"]


def test_frames_of_reasons(run) -> None:
    pytest.importorskip("pandas")
    assert len(run.to_pandas("reasons")) == 60


def test_resumed_it_has_the_same_rows(run, tmp_path) -> None:
    class Enough(RuntimeError):
        pass

    class Stopping(ab.LocalEngine):
        def run(self, work, numbers):
            yield from list(super().run(work, numbers[:1]))
            raise Enough

    with pytest.raises(Enough):
        ab.audit(cases.plain(), people(), out=tmp_path / "r", engine=Stopping(), batch=2, **QUICK)
    begun = Run.open(tmp_path / "r")
    assert begun.done() == [0]
    assert begun.reasons().num_rows == 2 * 4 * 3
    whole = ab.audit(cases.plain(), people(), out=tmp_path / "r", resume=True, batch=2, **QUICK)
    assert untimed(whole.rows()).equals(untimed(run.rows()))
    with pytest.raises(ab.InputError, match=r"settings\.keep was 3, is 2"):
        ab.audit(
            cases.plain(),
            people(),
            out=tmp_path / "r",
            resume=True,
            batch=2,
            **{**QUICK, "keep": 2},
        )


def test_of_a_network_with_kinks_lists_are_of_their_subjects() -> None:
    """The copy's, the network's own and the averaged map's: each attacked for itself."""
    claims = (ab.FirstOrder(), ab.Smoothed(draws=300), ab.Certified())
    settings = {**QUICK, "claims": claims, "smooth": 20.0, "own_attacks": {}}
    found = ab.audit(cases.plain(kinked=True), people(2), **settings)
    for row in found.rows().to_pylist():
        by_claim = {record["claim"]: record for record in row["reasons"]}
        assert {name: record["subject"] for name, record in by_claim.items()} == {
            "first_order": "copy",
            "smoothed": "averaged",
            "certified": "yours",
        }
        assert by_claim["certified"]["kept"] <= by_claim["certified"]["attacked_kept"]
        assert by_claim["smoothed"]["kept"] <= by_claim["smoothed"]["attacked_kept"]
        assert all(abs(each) <= 1 for each in by_claim["smoothed"]["attacked_values"])


def test_claims_that_say_nothing_say_why() -> None:
    """A network of attention has no certificate; of the others nothing is lost."""
    model = torch.nn.Sequential(torch.nn.Linear(7, 6), torch.nn.GELU(), torch.nn.Linear(6, 3))
    settings = {**QUICK, "claims": (ab.FirstOrder(), ab.Certified())}
    found = ab.audit(model.eval(), people(2), **settings)
    lines = found.reasons().to_pylist()
    silent = [line for line in lines if line["claim"] == "certified"]
    assert len(silent) == 2
    assert all(line["status"].startswith("does not apply") for line in silent)
    assert all(line["rank"] is None and line["kept"] is None for line in silent)
    assert len(lines) == 2 + 2 * 3


def test_a_method_that_fails_at_lists_alone_says_so(monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise ab.InputError("list", expected="another", got="this", remedy="leave it")

    monkeypatch.setattr("attribound.auditing.reasoned.answer", refuse)
    subject = cases.subject(keep=2, claims=(ab.Certified(),))
    for row in measure(subject, cases.batch(2)).rows.to_pylist():
        assert row["error"] is None
        (record,) = row["reasons"]
        assert record["status"] == "does not apply: list: expected another, got this; leave it"
    insisting = cases.subject(keep=2, claims=(ab.FirstOrder(),))
    rows = measure(insisting, cases.batch(2)).rows.to_pylist()
    assert all("list: expected another" in row["error"] for row in rows)
    assert all(row["reasons"] is None for row in rows)


def test_nobody_asked() -> None:
    subject = cases.subject()
    assert all(row["reasons"] is None for row in measure(subject, cases.batch(2)).rows.to_pylist())


def test_ranked_by_size_and_in_groups() -> None:
    grouped = ab.Grouped(ab.Saliency(), [0, 0, 1, 1, 2, -1, -1])
    settings = {**QUICK, "claims": (ab.FirstOrder(), ab.Certified()), "keep": 2}
    found = ab.audit(
        cases.plain(), people(2), **{**settings, "attributions": [grouped], "keep_by": "absolute"}
    )
    for row in found.rows().to_pylist():
        assert row["scores"] == 3
        sizes = [abs(each) for each in row["reasons"][0]["values"]]
        assert sizes == sorted(sizes, reverse=True)
    assert {line["name"] for line in found.reasons().to_pylist()} <= {"0", "1", "2"}


def test_more_reasons_than_scores_are_refused_at_once(tmp_path) -> None:
    with pytest.raises(ab.InputError, match="keep: expected fewer reasons than the 7 scores"):
        ab.audit(cases.plain(), people(2), out=tmp_path / "r", **{**QUICK, "keep": 7})
    assert not (tmp_path / "r").exists()
    with pytest.raises(ab.InputError, match="keep: expected 1 or more, got 0"):
        ab.audit(cases.plain(), people(2), **{**QUICK, "keep": 0})


def test_names_of_pixels() -> None:
    manifest = ab.audit(cases.plain(), people(2), **{**QUICK, "claims": ["first_order"]}).manifest
    assert manifest.score_names(7) == NAMES
    assert manifest.score_names(3) == []
    manifest.data.clear()
    manifest.data["shape"] = [2, 1, 2]
    assert manifest.score_names(2) == ["row 0, column 0", "row 0, column 1"]
    assert manifest.score_names(4)[3] == "channel 1, row 0, column 1"
    assert manifest.score_names(5) == []
