"""Trained networks: our values against dense Jacobians computed with plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import attribound as ab
import cases
import fashion
from attribound.data import read_idx
from attribound.models import SmallCNN
from shared import needed, shared

IMAGES = 16
TIGHT = ab.FirstOrder(ab.SpectralSolver(tolerance=1e-5))


def trades() -> tuple[nn.Module, Tensor]:
    """TRADES' own MNIST network, smoothed: softplus and log-sum-exp pooling."""
    model = SmallCNN(activation=nn.ReLU, pooling="max")
    model.load_state_dict(load_file(shared("checkpoints", "mnist-smallcnn-trades.safetensors")))
    pixels = read_idx(shared("mnist", "t10k-images-idx3-ubyte.gz"))[:IMAGES]
    return ab.smooth(model.eval(), beta=20), pixels.unsqueeze(1).float() / 255


def fashion_network(name: str) -> tuple[nn.Module, Tensor]:
    needed(fashion.FASHION, "install Debian's dataset-fashion-mnist")
    return fashion.network(name), fashion.images("t10k")[0][:IMAGES]


def saliency(model: nn.Module, target: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: cases.gradient(model, x, target)


def integrated(model: nn.Module, target: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: cases.integrated_gradients(model, x, target, [0.5, 1.0], [0.5, 0.5])


@pytest.mark.parametrize(
    ("network", "attribution", "oracle"),
    [
        (lambda: fashion_network("nat"), ab.Saliency, saliency),
        (lambda: fashion_network("at"), lambda m: ab.IntegratedGradients(m, steps=2), integrated),
        (trades, ab.Saliency, saliency),
    ],
    ids=["fashion nat saliency", "fashion at ig", "trades saliency"],
)
@pytest.mark.parametrize("images", [2, pytest.param(IMAGES, marks=pytest.mark.slow)])
def test_values_agree_with_the_dense_computation(network, attribution, oracle, images) -> None:
    model, x = network()
    x = x[:images]
    model.requires_grad_(False)
    target = model(x).argmax(1)
    matrix = cases.dense_jacobian(oracle(model, target), x).double()
    xi = torch.linalg.svdvals(matrix)[:, 0]
    theorem_2 = (matrix.mT @ matrix).abs().sum((1, 2)).sqrt()

    g = attribution(model)
    l2 = ab.bound(g, x, ab.L2Ball(0.1), method=TIGHT)
    torch.testing.assert_close(l2.xi.lower.double(), xi, rtol=1e-4, atol=0)
    torch.testing.assert_close(l2.euclidean.double(), 0.1 * xi, rtol=1e-4, atol=0)

    paper = replace(TIGHT, norm=None)
    linf = ab.bound(g, x, ab.LinfBall(0.1), method=paper)
    smallest = torch.minimum(theorem_2, 28 * xi)
    torch.testing.assert_close(linf.euclidean.double(), 0.1 * smallest, rtol=1e-4, atol=0)

    default = ab.bound(g, x, ab.L2Ball(0.1))
    excess = default.xi.upper.double() / xi - 1
    assert (excess >= -1e-6).all()
    assert (excess <= 0.015).all()
    assert (default.products <= 100).all()
