from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import attribound as ab
from attribound.data import read_idx
from attribound.models import Activation, SmallCNN, SmallCNNConfig, load
from attribound.networks.kinks import find_kinks
from shared import shared


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


def test_is_smooth_unless_told_otherwise() -> None:
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
