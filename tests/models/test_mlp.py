from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import softplus

import attribound as ab
from attribound.models import MLP
from attribound.networks.kinks import find_kinks


@pytest.mark.parametrize("shape", [(784,), (1, 28, 28), (28, 4, 7)])
def test_gives_one_row_of_logits_per_input_of_any_shape(shape) -> None:
    assert MLP()(torch.rand(3, *shape)).shape == (3, 10)


def test_computes_what_its_weights_say() -> None:
    net = MLP(6, (5, 4), 3).double()
    x = torch.rand(2, 2, 3, dtype=torch.float64)
    first, second, last = (layer for layer in net if isinstance(layer, nn.Linear))
    expected = x.flatten(1)
    for layer in (first, second):
        expected = softplus(expected @ layer.weight.T + layer.bias, beta=20.0)
    torch.testing.assert_close(net(x), expected @ last.weight.T + last.bias)
    wrong = softplus(x.flatten(1) @ first.weight.T + first.bias, beta=5.0)
    wrong = softplus(wrong @ second.weight.T + second.bias, beta=5.0)
    assert not torch.allclose(net(x), wrong @ last.weight.T + last.bias)


def test_without_hidden_layers_it_is_linear() -> None:
    net = MLP(4, (), 2)
    assert [type(layer) for layer in net] == [nn.Flatten, nn.Linear]
    assert not ab.Saliency(net).linearize(torch.rand(2, 4)).jacobian.matvec(torch.rand(2, 4)).any()


def test_is_smooth_unless_told_otherwise() -> None:
    x = torch.rand(1, 1, 28, 28)
    assert find_kinks(MLP().eval(), x) == ()
    assert {kink.operator for kink in find_kinks(MLP(activation=nn.ReLU).eval(), x)} == {"relu"}


def test_every_activation_is_a_module_of_its_own() -> None:
    """A shared one would confuse whoever looks at modules one by one."""
    net = MLP(4, (3, 3, 3), 2)
    assert len({id(layer) for layer in net}) == 8


@pytest.mark.parametrize("widths", [(0, (3,), 2), (4, (3, 0), 2), (4, (3,), 0), (4.0, (3,), 2)])
def test_refuses_empty_layers(widths) -> None:
    with pytest.raises(ab.InputError, match="widths: expected 1 or more in every layer"):
        MLP(*widths)
