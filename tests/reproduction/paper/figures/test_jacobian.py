from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import attribound as ab
import cases
from attribound.auditing import read_settings
from attribound.models import MLP
from reproduction.paper import records
from reproduction.paper.figures import jacobian as module
from reproduction.paper.figures.jacobian import (
    measure_jacobian,
    read_jacobian,
    stored_jacobian,
    write_jacobian,
)
from reproduction.paper.records import MeasuredModel

FACTORY = 'attribound.models:MLP?{"features": 64, "hidden": [4]}'
SETTINGS = read_settings(
    {
        "model": FACTORY,
        "data": "digits",
        "limit": 3,
        "attributions": "ig:steps=2",
        "dtype": "float64",
    }
)


@pytest.fixture
def counted(monkeypatch):
    """How often a Jacobian was measured."""
    calls = []
    inner = module.measure_jacobian

    def measure(*args):
        calls.append(args)
        return inner(*args)

    monkeypatch.setattr(module, "measure_jacobian", measure)
    return calls


def test_it_is_the_dense_jacobian_of_the_first_sample() -> None:
    model, x = cases.tabular()
    subject = MeasuredModel(SETTINGS, ab.IntegratedGradients(model, 3), x, [4, 5, 6, 7, 8], {})
    found = measure_jacobian(subject)
    target, nodes = model(x[:1]).argmax(1), [1 / 3, 2 / 3, 1.0]
    dense = cases.dense_jacobian(
        lambda v: cases.integrated_gradients(model, v, target, nodes, [1 / 3] * 3), x[:1]
    )
    np.testing.assert_allclose(found.matrix, dense[0], rtol=1e-5, atol=1e-6)
    assert np.abs(found.matrix - found.matrix.T).max() > 1e-4  # a transpose would be seen
    assert found.sample == 4
    np.testing.assert_allclose(found.input, x[0], rtol=1e-6)


def test_what_is_stored_is_read_and_not_measured_again(tmp_path, counted) -> None:
    path = tmp_path / "deep" / "heatmap.parquet"
    first = stored_jacobian(SETTINGS, path)
    again = stored_jacobian(SETTINGS, path)
    assert len(counted) == 1
    np.testing.assert_array_equal(again.matrix, first.matrix)
    np.testing.assert_array_equal(again.input, first.input)
    assert (again.sample, again.about) == (first.sample, first.about)


def test_another_attribution_or_network_is_measured_anew(tmp_path, counted, monkeypatch) -> None:
    path = tmp_path / "heatmap.parquet"
    first = stored_jacobian(SETTINGS, path)
    stored_jacobian(replace(SETTINGS, attributions=(ab.IntegratedGradients(steps=3),)), path)
    assert len(counted) == 2
    retrained = MLP(64, (4,))  # under the same name
    load = records.load_model
    monkeypatch.setattr(
        records, "load_model", lambda *args: replace(load(*args), model=retrained.eval())
    )
    other = stored_jacobian(SETTINGS, path)
    assert len(counted) == 3
    assert not np.allclose(other.matrix, first.matrix)


def test_without_the_model_what_is_stored_is_enough_if_it_is_of_these_settings(
    tmp_path, counted, monkeypatch
) -> None:
    path = tmp_path / "heatmap.parquet"
    first = stored_jacobian(SETTINGS, path)

    def gone(*args):
        raise ab.InputError("model", expected="a file", got="none", remedy="find it")

    monkeypatch.setattr(records, "load_model", gone)
    np.testing.assert_array_equal(stored_jacobian(SETTINGS, path).matrix, first.matrix)
    with pytest.raises(ab.InputError, match="model: expected a file"):
        stored_jacobian(replace(SETTINGS, seed=1), path)
    with pytest.raises(ab.InputError, match="model: expected a file"):
        stored_jacobian(SETTINGS, tmp_path / "other.parquet")


def test_a_damaged_file_is_named(tmp_path, counted) -> None:
    path = tmp_path / "heatmap.parquet"
    write_jacobian(stored_jacobian(SETTINGS, path), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ab.InputError, match=r"heatmap\.parquet: expected a Jacobian"):
        read_jacobian(path)
