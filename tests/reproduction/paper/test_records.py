"""Small measurements against dense float64, and that they go on where they were."""

from __future__ import annotations

import math

import pytest
import torch
from evaluation import tiny

import attribound as ab
from attribound.auditing.settings import AuditSettings, BallSettings, SaliencySettings
from attribound.basics.errors import InputError
from reproduction.paper import records
from reproduction.paper.records import MEASUREMENTS, measure_record, read_record

SETTINGS = AuditSettings(
    model="evaluation.tiny:build",
    data="digits",
    limit=3,
    batch=2,
    attributions=(SaliencySettings(),),
    balls=(BallSettings("linf", (0.05,)),),
    dtype="float64",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("records")
    for kind in MEASUREMENTS:
        measure_record(kind, SETTINGS, place / kind)
    return place


def hessian(sample: int) -> torch.Tensor:
    network = tiny.build().double()
    x = ab.data.load("digits").read(torch.tensor([sample])).double()
    label = int(network(x).argmax())
    flat = x.flatten()
    return torch.autograd.functional.hessian(
        lambda point: network(point.reshape(x.shape))[0, label], flat
    )


def test_jacobians_are_measured_as_their_definitions_say(folder) -> None:
    _, table = read_record(folder / "jacobian")
    assert table.num_rows == 3
    for row in table.to_pylist():
        dense = hessian(row["sample"])
        squared = dense.T @ dense
        assert row["xi"] == pytest.approx(float(torch.linalg.svdvals(dense)[0]))
        assert row["theorem_2"] == pytest.approx(math.sqrt(squared.abs().sum()))
        assert row["corollary_1"] == pytest.approx(8 * row["xi"])
        assert row["certificate"] <= row["theorem_2"] * (1 + 1e-6)
        for name, matrix in (("j", dense.abs()), ("p", squared.abs())):
            filled = [i for i in range(64) if matrix[i].sum() > 0]
            dominant = [i for i in filled if matrix[i, i] >= matrix[i].sum() - matrix[i, i]]
            largest = [i for i in filled if matrix[i, i] >= matrix[i].max()]
            assert row[f"{name}_dominant"] == pytest.approx(len(dominant) / len(filled))
            assert row[f"{name}_largest"] == pytest.approx(len(largest) / len(filled))
            mass = float(matrix.diagonal().sum() / matrix.sum())
            assert row[f"{name}_mass"] == pytest.approx(mass)


def test_a_diagonal_matrix_is_dominant_and_a_full_one_is_not() -> None:
    def shape(matrix):
        return records._shape(matrix, lambda part, whole: whole[part])

    assert shape(torch.eye(700))["dominant"] == 1  # more than one strip
    assert shape(torch.eye(700))["mass"] == 1
    full = shape(torch.ones(700, 700))
    assert (full["dominant"], full["largest"]) == (0, 1)
    assert full["mass"] == pytest.approx(1 / 700)
    assert shape(torch.zeros(3, 3))["mass"] == 1


def test_remainders_are_what_the_dense_jacobian_leaves_over(folder) -> None:
    """At random corners, which follow from the seed; the first batch has two samples."""
    _, table = read_record(folder / "eta")
    rows = table.to_pylist()
    assert len(rows) == 3 * 8 * 2
    assert max(row["epsilon"] for row in rows) == 0.05
    samples = sorted({row["sample"] for row in rows})[:2]
    network = tiny.build().double()
    x = ab.data.load("digits").read(torch.tensor(samples)).double()
    saliency, ball = ab.Saliency(network), ab.LinfBall(0.05)
    delta = ab.attacks.RandomPerturbation(seed=0)(saliency, x, ball).delta
    change = (saliency(x + delta, network(x).argmax(1)) - saliency(x)).flatten(1)
    for i, sample in enumerate(samples):
        (row,) = [
            r for r in rows if (r["sample"], r["epsilon"], r["by"]) == (sample, 0.05, "random")
        ]
        linear = hessian(sample) @ delta[i].flatten()
        assert row["deviation"] == pytest.approx(float(change[i].norm()))
        assert row["eta"] == pytest.approx(float((change[i] - linear).norm()))
        assert row["attribution_norm"] == pytest.approx(float(saliency(x)[i].norm()))


def test_attacks_leave_more_over_than_random_corners(folder) -> None:
    rows = read_record(folder / "eta")[1].to_pylist()
    sums = {by: sum(r["deviation"] for r in rows if r["by"] == by) for by in ("random", "ascent")}
    assert sums["ascent"] > sums["random"]


def test_what_is_there_is_not_measured_again(folder, monkeypatch) -> None:
    last = folder / "jacobian" / records.PARTS / "00001.parquet"
    before = read_record(folder / "jacobian")[1]
    last.unlink()
    asked = []
    measured = MEASUREMENTS["jacobian"].rows

    def rows(settings, attribution, batch):
        asked.append(batch.number)
        return measured(settings, attribution, batch)

    changed = records.Measurement(MEASUREMENTS["jacobian"].schema, rows)
    monkeypatch.setitem(MEASUREMENTS, "jacobian", changed)
    measure_record("jacobian", SETTINGS, folder / "jacobian")
    assert asked == [1]
    assert read_record(folder / "jacobian")[1].equals(before)


def test_another_record_in_the_folder_is_refused(folder) -> None:
    with pytest.raises(InputError, match="expected the settings, model and data it was begun with"):
        measure_record("jacobian", SETTINGS, folder / "eta")
