"""Small networks and their settings."""

from __future__ import annotations

import json
import math

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import softplus

import attribound as ab
import cases
from attribound.data import read_idx
from attribound.models import MLP, Activation, Normalisation, SmallCNN, SmallCNNConfig, load
from attribound.models.normalisation import Normalise, Normalised
from attribound.networks.kinks import find_kinks
from shared import shared


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


def test_is_smooth_unless_told_otherwise_of_mlp() -> None:
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


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    """The published TRADES weights for MNIST."""
    return load_file(shared("checkpoints", "mnist-smallcnn-trades.safetensors"))


@pytest.mark.parametrize("classes", [10, 3])
@pytest.mark.parametrize("pooling", ["average", "max"])
def test_gives_one_row_of_logits_per_image(pooling, classes) -> None:
    net = SmallCNN(pooling=pooling, classes=classes).eval()
    assert net(torch.rand(2, 1, 28, 28)).shape == (2, classes)


def test_starts_with_equal_logits() -> None:
    """As in the TRADES code: the last layer is zero."""
    assert not SmallCNN().eval()(torch.rand(2, 1, 28, 28)).any()


def test_is_smooth_unless_told_otherwise_of_small_cnn() -> None:
    x = torch.rand(1, 1, 28, 28)
    assert find_kinks(SmallCNN().eval(), x) == ()
    kinks = find_kinks(SmallCNN(nn.ReLU, pooling="max").eval(), x)
    assert {kink.operator for kink in kinks} == {"relu", "max_pool2d_with_indices"}


def test_refuses_an_unknown_pooling() -> None:
    with pytest.raises(ab.InputError, match="pooling: expected 'average' or 'max', got 'mean'"):
        SmallCNN(pooling="mean")


def test_parameters_are_those_of_trades(weights) -> None:
    own = {name: value.shape for name, value in SmallCNN().state_dict().items()}
    assert own == {name: value.shape for name, value in weights.items()}


def test_trades_weights_have_their_accuracy() -> None:
    """On all of MNIST's test images, as measured by whoever provided the weights."""
    config = SmallCNNConfig(activation=Activation.relu(), pooling="max")
    net = load(shared("checkpoints", "mnist-smallcnn-trades.safetensors"), config)
    images = read_idx(shared("mnist", "t10k-images-idx3-ubyte.gz")).unsqueeze(1) / 255
    labels = read_idx(shared("mnist", "t10k-labels-idx1-ubyte.gz"))
    assert abs(accuracy(net, images, labels) - 0.9948) <= 0.0002
    net.feature_extractor.pool1 = nn.AvgPool2d(2)  # the check sees another network
    assert abs(accuracy(net, images[:1000], labels[:1000]) - 0.9948) > 0.0002


@torch.no_grad()
def accuracy(net: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    net = net.to(memory_format=torch.channels_last)
    parts = zip(images.split(500), labels.split(500), strict=True)
    right = sum(int((net(x).argmax(1) == y).sum()) for x, y in parts)
    return right / len(images)


@pytest.mark.parametrize("classes", [0, 2.0, "10"])
def test_refuses_what_is_no_number_of_classes(classes) -> None:
    with pytest.raises(ab.InputError, match="classes: expected a whole number, 1 or more"):
        SmallCNN(classes=classes)


COLOURS = Normalisation(mean=(0.5, 0.25, 0.0), std=(0.25, 0.5, 2.0))


def test_takes_every_channel_off_its_mean() -> None:
    x = torch.rand(2, 3, 4, 5)
    expected = torch.stack([(x[:, 0] - 0.5) / 0.25, (x[:, 1] - 0.25) / 0.5, x[:, 2] / 2.0], dim=1)
    torch.testing.assert_close(Normalise(COLOURS)(x), expected)
    swapped = Normalise(Normalisation(COLOURS.mean[::-1], COLOURS.std[::-1]))(x)
    assert not torch.allclose(swapped, expected)


@pytest.mark.parametrize("shape", [(2, 7), (2, 1, 4, 4), (2, 3, 4, 4), (2, 4, 4)])
def test_one_number_serves_every_channel(shape) -> None:
    x = torch.rand(shape)
    torch.testing.assert_close(Normalise(Normalisation((0.5,), (0.25,)))(x), 4 * x - 2)


def test_the_curvature_is_that_of_the_network_over_the_variance() -> None:
    """Bounds are for pixels: by the chain rule, J = H(normalised x) / std**2."""
    torch.manual_seed(0)
    network = MLP(6, (5,), 3).double().eval()
    model = Normalised(Normalisation((0.5,), (0.25,)), network).double().eval()
    x, v, target = torch.rand(2, 6).double(), torch.rand(2, 6).double(), torch.tensor([0, 2])
    inner = ab.Saliency(network).linearize(4 * x - 2, target).jacobian.matvec(v)
    outer = ab.Saliency(model).linearize(x, target).jacobian.matvec(v)
    torch.testing.assert_close(outer, 16 * inner)
    assert not torch.allclose(outer, 4 * inner)
    dense = cases.dense_jacobian(lambda p: cases.gradient(model, p, target), x)
    torch.testing.assert_close(outer, torch.einsum("bij,bj->bi", dense, v))


def test_follows_the_model_and_is_not_saved_with_it() -> None:
    model = Normalised(COLOURS, nn.Sequential(nn.Conv2d(3, 2, 1))).double()
    assert model(torch.rand(1, 3, 2, 2, dtype=torch.float64)).dtype == torch.float64
    assert set(model.state_dict()) == {"network.0.weight", "network.0.bias"}
    assert "std=(0.25, 0.5, 2.0)" in repr(model)


def test_goes_through_json_and_becomes_tuples() -> None:
    data = json.loads(json.dumps(COLOURS.to_json()))
    assert data == {"mean": [0.5, 0.25, 0.0], "std": [0.25, 0.5, 2.0]}
    assert Normalisation.from_json(data) == COLOURS
    assert hash(Normalisation([1], [2])) == hash(Normalisation((1.0,), (2.0,)))


def test_refuses_images_with_other_channels() -> None:
    """Grey ones would be broadcast to colour, and classified."""
    with pytest.raises(ab.InputError, match=r"x: expected 3 channels.*got shape \(2, 1, 4, 4\)"):
        Normalise(COLOURS)(torch.rand(2, 1, 4, 4))


@pytest.mark.parametrize("mean", [0.5, (), "0", (math.nan,), (None,), (True,), ("0.5",)])
def test_refuses_what_are_not_numbers(mean) -> None:
    with pytest.raises(ab.InputError, match="mean of the normalisation: expected a list of finite"):
        Normalisation(mean, (1.0,))
    with pytest.raises(ab.InputError, match="std of the normalisation: expected a list of finite"):
        Normalisation((1.0,), mean)


@pytest.mark.parametrize("std", [(1.0,), (1.0, 0.0), (1.0, -1.0), (1.0, 1.0, 1.0)])
def test_refuses_deviations_that_cannot_divide(std) -> None:
    with pytest.raises(ab.InputError, match="std of the normalisation: expected 2 numbers above 0"):
        Normalisation((0.0, 0.0), std)


@pytest.mark.parametrize("data", [None, [0.5], {"mean": [0.5]}, {"mean": [0], "std": [1], "x": 1}])
def test_refuses_json_of_no_normalisation(data) -> None:
    with pytest.raises(ab.InputError, match=r'normalisation: expected \{"mean"'):
        Normalisation.from_json(data)
