"""Audits of tables: units of radii, scalers, frozen categories, names."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

import attribound as ab
from attribound.auditing.batches import Batch
from attribound.auditing.settings import read_settings
from attribound.auditing.tables import tabled
from attribound.data import Layout, arrays, load
from attribound.models import Normalisation
from attribound.models.normalisation import Normalised

ROWS = [
    f"p{row},{20 + row},{1000 + 37 * row % 500},{['own', 'rent', 'free'][row % 3]},{row % 2}"
    for row in range(12)
]
FEATURES = ("age", "income", "housing=free", "housing=own", "housing=rent")


@pytest.fixture
def table(tmp_path):
    (tmp_path / "people.csv").write_text("\n".join(["who,age,income,housing,y", *ROWS]))
    return tmp_path / "people.csv"


def network(features: int = 5) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(features, 6), nn.Softplus(), nn.Linear(6, 2))


def settings(**given):
    return read_settings({"model": "given:net", "data": "d", **given})


def written_out(data, module=None, **given):
    examples = load(data, layout=Layout("y", "who"))
    return tabled(settings(**given), module or network(), examples)


def moments(table):
    x = arrays(load(table, layout=Layout("y", "who")))[0].double()
    return x.mean(0), x.std(0, correction=0)


class TestUnits:
    def test_deviations_of_the_data_and_categories_frozen(self, table) -> None:
        (ball,) = written_out(table, balls="l2:epsilon=0.5").balls
        std = moments(table)[1]
        torch.testing.assert_close(ball.scale, torch.tensor([std[0], std[1], 0, 0, 0]).double())

    def test_those_of_a_scaler_before_them(self, table) -> None:
        inner = Normalised(Normalisation([0.0] * 5, [1.0, 2, 3, 4, 5]), network())
        (ball,) = written_out(table, inner).balls
        assert ball.scale.tolist() == [1, 2, 0, 0, 0]
        (ball,) = written_out(table, inner, table={"scaler": {"income": [3.0, 7.0]}}).balls
        assert ball.scale.tolist() == [1, 7, 0, 0, 0]

    def test_units_of_columns_others_by_name_and_none(self, table) -> None:
        said = {"unit": "column", "scale": {"income": 500.0, "housing": 0.25}, "freeze": ["age"]}
        (ball,) = written_out(table, table=said).balls
        assert ball.scale.tolist() == [0, 500, 0.25, 0.25, 0.25]

    def test_limits(self, table) -> None:
        (ball,) = written_out(table, table={"low": {"age": 18.0}, "high": {"age": 99.0}}).balls
        assert ball.low.tolist() == [18, *[-torch.inf] * 4]
        assert ball.high.tolist() == [99, *[torch.inf] * 4]

    def test_plain_units_are_no_scale(self, tmp_path) -> None:
        (tmp_path / "a.csv").write_text("a,y\n1,0\n3,1\n")
        for unit in ("column", "std"):  # a deviation of one, too
            whole = tabled(settings(table={"unit": unit}), network(1), load(tmp_path / "a.csv"))
            assert whole.balls == (ab.L2Ball(0.1),)

    def test_a_ball_of_its_own_units_stays(self, table) -> None:
        own = ab.L2Ball(0.1, scale=torch.ones(5))
        assert written_out(table, balls=[own]).balls == (own,)

    def test_written_out_settings_stay(self, table) -> None:
        once = written_out(table, table={"scaler": "data", "freeze": ["age"]})
        examples = load(table, layout=Layout("y", "who"))
        assert tabled(once, network(), examples).document() == once.document()


class TestAttributions:
    def test_from_the_mean_summed_by_column(self, table) -> None:
        (made,) = written_out(table, attributions="ig:steps=3").attributions
        assert isinstance(made, ab.Grouped)
        assert made.labels.tolist() == [0, 1, 2, 2, 2]
        torch.testing.assert_close(made.base.baseline, moments(table)[0].float())
        assert made.name == "ig:steps=3 in 3 groups"

    def test_other_baselines_groups_and_none(self, table) -> None:
        own = ab.Grouped(ab.IntegratedGradients(baseline=2.0), torch.arange(5))
        (made,) = written_out(table, attributions=[own]).attributions
        assert made.labels.tolist() == own.labels.tolist()
        assert made.base.baseline == 2.0
        said = {"baseline": "zero", "group": False}
        (made,) = written_out(table, attributions="ig", table=said).attributions
        assert made.baseline == 0.0
        (made,) = written_out(
            table, attributions=[ab.Grouped(ab.IntegratedGradients(), torch.arange(5))]
        ).attributions
        assert made.base.baseline.shape == (5,)


class TestScaler:
    def test_of_the_data(self, table) -> None:
        found = written_out(table, table={"scaler": "data"}).table.scaler
        assert tuple(found) == FEATURES
        mean, std = moments(table)
        torch.testing.assert_close(
            torch.tensor([*found.values()]).double(), torch.stack([mean, std], 1)
        )

    def test_of_another_table_with_fewer_categories(self, table, tmp_path) -> None:
        train = tmp_path / "train.csv"
        lines = table.read_text().splitlines()
        train.write_text("\n".join([lines[0], *(line for line in lines[1:] if "free" not in line)]))
        said = {"scaler": str(train), "label": "y", "id": "who"}
        found = written_out(table, table=said).table.scaler
        assert tuple(found) == FEATURES
        assert found["housing=free"] == (0.0, 1.0)  # the same in all rows

    def test_it_is_part_of_the_network(self, table) -> None:
        """An audit in deviations is one of standardised inputs by hand."""
        mean, std = moments(table)
        said = {"label": "y", "id": "who", "scaler": "data", "group": False}
        common = {
            "attributions": "ig:steps=4",
            "claims": ["first_order", "certified"],
            "attacks": {},
            "dtype": "float64",
        }
        run = ab.audit(network(), str(table), balls="l2:epsilon=0.2", table=said, **common)
        x, y = arrays(load(table, layout=Layout("y", "who")))
        scale = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0])
        by_hand = ab.audit(
            network(), (((x - mean) / std), y), balls=ab.L2Ball(0.2, scale=scale), **common
        )
        found, expected = (
            torch.tensor(each.bounds()["euclidean"].to_pylist()) for each in (run, by_hand)
        )
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)
        assert run.manifest.data["columns"] == ["age", "income", "housing"]
        assert run.manifest.data["features"] == [*FEATURES]
        assert run.rows()["id"].to_pylist() == [f"p{row}" for row in range(12)]

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"scaler": {"wat": [0.0, 1.0]}}, "column: expected one of age, income, housing"),
            ({"scaler": {"age": [0.0]}}, "scaler: expected mean and standard deviation of each"),
            ({"scaler": {"age": [0.0, 0.0]}}, "std of the normalisation"),
            ({"scale": {"wat": 1.0}}, "column: expected one of age, income, housing"),
        ],
    )
    def test_refuses_other_columns(self, table, said, message) -> None:
        with pytest.raises(ab.InputError, match=message):
            written_out(table, table=said)

    def test_refuses_other_data(self, table, tmp_path) -> None:
        other = tmp_path / "other.csv"
        other.write_text("who,age,housing,y\na,1,own,0\nb,2,rent,1\n")
        said = {"scaler": str(other), "label": "y", "id": "who"}
        with pytest.raises(ab.InputError, match="expected data with the features age, income"):
            written_out(table, table=said)
        with pytest.raises(ab.InputError, match="got data without named columns"):
            written_out(table, table={"scaler": "fashion-mnist-sample"})

    def test_data_without_columns(self) -> None:
        with pytest.raises(ab.InputError, match=r"data with named columns, .* got tensors, which"):
            ab.audit(network(), torch.ones(2, 5), table={"freeze": ["a"]})


def test_a_factory_is_told_the_number_of_features(table, tmp_path, monkeypatch) -> None:
    (tmp_path / "nets_of_tables.py").write_text(
        "from torch import nn\n"
        "def build(features, width=3):\n"
        "    return nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, 2))\n"
        "def fixed():\n"
        "    return build(5)\n"
        "class Odd:\n"
        "    __signature__ = 3\n"
        "    def __call__(self):\n"
        "        return build(5)\n"
        "odd = Odd()\n"
    )
    monkeypatch.chdir(tmp_path)
    said = {"label": "y", "id": "who", "scaler": "data"}
    common = {"attributions": "saliency", "claims": ["first_order"], "attacks": {}, "limit": 1}
    for name, resolved in {
        "nets_of_tables:build": 'nets_of_tables:build?{"features": 5}',
        'nets_of_tables:build?{"width": 2}': 'nets_of_tables:build?{"width": 2, "features": 5}',
        'nets_of_tables:build?{"features": 5}': 'nets_of_tables:build?{"features": 5}',
        "nets_of_tables:fixed": "nets_of_tables:fixed",
        "nets_of_tables:odd": "nets_of_tables:odd",
    }.items():
        run = ab.audit(name, str(table), table=said, **common)
        assert run.manifest.settings["model"] == resolved
        assert run.rows()["error"].to_pylist() == [None]
    del sys.modules["nets_of_tables"]


def test_what_is_no_p_ball_freezes_nothing() -> None:
    class Odd(ab.Ball):
        epsilon = 1.0
        project = maximiser = contains = at_radius = None

    Odd.__abstractmethods__ = frozenset()
    x = torch.ones(1, 2)
    batch = Batch(0, torch.tensor([0]), x, torch.tensor([0]), free=torch.tensor([[True, False]]))
    with pytest.raises(ab.InputError, match="expected a p-ball, in which the padding"):
        batch.held(Odd(), x)
    assert batch.held(ab.L2Ball(0.1, scale=2.0), x).scale.tolist() == [[2, 0]]
    assert [half.free.tolist() for half in batch.halves()][1] == [[True, False]]
