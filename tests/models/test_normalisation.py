from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

import attribound as ab
import cases
from attribound.models import MLP, Normalisation
from attribound.models.normalisation import Normalise, Normalised

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
