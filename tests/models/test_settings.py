from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

import attribound as ab
from attribound.models import MLP, Activation, SmallCNN


@pytest.mark.parametrize("beta", [0.5, 5, 20.0])
def test_softplus_is_the_formula(beta) -> None:
    x = torch.linspace(-1, 1, 21, dtype=torch.float64)
    formula = torch.log(1 + torch.exp(beta * x)) / beta
    torch.testing.assert_close(Activation(beta)()(x), formula)
    assert not torch.allclose(Activation(beta + 1)()(x), formula)


def test_relu_is_the_limit_of_softplus() -> None:
    x = torch.linspace(-1, 1, 21)
    assert torch.equal(Activation.relu()()(x), x.clamp(min=0))
    assert (Activation(1000.0)()(x) - Activation.relu()()(x)).abs().max() <= math.log(2) / 1000


def test_every_call_makes_a_module_of_its_own() -> None:
    """A shared one would confuse whoever looks at modules one by one."""
    make = Activation()
    assert make() is not make()
    assert isinstance(make(), nn.Softplus)


@pytest.mark.parametrize("network", [MLP, SmallCNN])
def test_serves_where_a_network_asks_for_an_activation(network) -> None:
    net = network(activation=Activation.relu())
    assert any(isinstance(module, nn.ReLU) for module in net.modules())
    assert not any(isinstance(module, nn.Softplus) for module in net.modules())


@pytest.mark.parametrize(
    ("activation", "text"),
    [(Activation.relu(), '"relu"'), (Activation(5.0), '{"softplus": 5.0}')],
)
def test_goes_through_json(activation, text) -> None:
    assert json.dumps(activation.to_json()) == text
    assert Activation.from_json(json.loads(text)) == activation


def test_values_are_told_apart() -> None:
    assert len({Activation(), Activation(20.0), Activation(5.0), Activation.relu()}) == 3


@pytest.mark.parametrize("beta", [0, -1.0, math.inf, math.nan, "20", True])
def test_refuses_another_sharpness(beta) -> None:
    with pytest.raises(ab.InputError, match="beta: expected a finite number above 0"):
        Activation(beta)


@pytest.mark.parametrize("data", ["tanh", None, {"softplus": None}, {"softplus": 1, "x": 2}, 20])
def test_refuses_json_of_no_activation(data) -> None:
    with pytest.raises(ab.InputError, match='activation: expected "relu" or'):
        Activation.from_json(data)
