from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import attribound as ab
from attribound.data import read_idx
from attribound.kinks import find_kinks
from attribound.models import SmallCNN
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


def test_trades_weights_classify_mnist(weights) -> None:
    net = SmallCNN(nn.ReLU, pooling="max").eval()
    net.load_state_dict(weights)
    images = read_idx(shared("mnist", "t10k-images-idx3-ubyte.gz"))[:1000].unsqueeze(1) / 255
    labels = read_idx(shared("mnist", "t10k-labels-idx1-ubyte.gz"))[:1000]
    with torch.no_grad():
        right = net(images).argmax(1) == labels
    assert right.double().mean() >= 0.99
