from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from attribound.networks.structured import UnstructuredError, trace
from attribound.networks.structured.linear import ConvolutionPiece, LayerWeights, MeanPiece, Scaling


class Reads(nn.Module):
    """A piece of a network that only some inputs fit."""

    def __init__(self, fn) -> None:
        super().__init__()
        self.fn = fn
        self.register_buffer("rows", torch.arange(6.0).view(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.fn(self, x).tanh()


@pytest.mark.parametrize(
    ("fn", "x"),
    [
        (lambda m, x: x + m.rows, torch.rand(2, 3)),  # a constant for each example
        (lambda m, x: x * m.rows[:1], torch.rand(2, 1)),  # makes the example larger
        (lambda m, x: x.mean(0, keepdim=True) + x, torch.rand(2, 3)),
        (lambda m, x: x.mean((1, 2), keepdim=True) + x, torch.rand(2, 3, 4)),
        (lambda m, x: x.view(-1, 4), torch.rand(2, 3)),
        (lambda m, x: x.tanh(), torch.rand(2, 3, 4)),
    ],
    ids=["per example", "larger", "over examples", "broadcast", "no such shape", "no logits"],
)
def test_inputs_that_do_not_fit_are_left_to_autograd(fn, x) -> None:
    network = trace(Reads(fn))
    assert network is not None
    with pytest.raises(UnstructuredError):
        network.gradient(x, torch.zeros(2, dtype=torch.long))


def test_a_norm_over_the_middle_dimension_is_not_folded() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Flatten()).eval()
    network = trace(model)
    with pytest.raises(UnstructuredError, match="channels of the batch norm"):
        network.logits(torch.rand(2, 4, 5))
    assert network.logits(torch.rand(2, 5)).shape == (2, 4)


def test_a_convolution_wants_a_batch() -> None:
    weights = LayerWeights(torch.rand(2, 1, 3), None)
    with pytest.raises(ValueError, match="no batch"):
        ConvolutionPiece(lambda: weights, (1,), (0,), (1,), 1).at(torch.rand(1, 5))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
def test_few_channels_are_scattered_as_pytorch_would(stride, padding, dilation) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(3, 5, (3, 2), stride, padding, dilation).double()
    x = torch.rand(4, 3, 9, 8).double().requires_grad_()
    out = layer(x)
    g = torch.rand_like(out)
    (expected,) = torch.autograd.grad(out, x, g)
    two = (stride,) * 2, (padding,) * 2, (dilation,) * 2
    piece = ConvolutionPiece(lambda: LayerWeights(layer.weight.detach(), None), *two, 1)
    _, here = piece.at(x.detach())
    torch.testing.assert_close(here.pull(g), expected)


def test_pieces_refuse_what_mixes_examples() -> None:
    with pytest.raises(ValueError, match="a mean over examples"):
        MeanPiece((0,), keep=False).at(torch.rand(2, 3))
    with pytest.raises(ValueError, match="change the shape"):
        Scaling(lambda x: (torch.rand(3), 0.0)).at(torch.rand(2, 1))
    with pytest.raises(ValueError, match="differ between examples"):
        Scaling(lambda x: (torch.rand(2, 3), 0.0)).at(torch.rand(2, 3))
