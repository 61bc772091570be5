"""Arguments of kinked functions, found while the network runs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attribound.networks.classifier import Classifier
from attribound.networks.hinges import hinges


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(F.relu(self.one(x))).abs()


def test_of_modules_functions_and_in_place() -> None:
    torch.manual_seed(0)
    x = torch.rand(5, 3).requires_grad_()
    net = Functional().eval()
    first, second = hinges(Classifier(net), x)
    torch.testing.assert_close(first, net.one(x))
    torch.testing.assert_close(second, net.two(F.relu(net.one(x))))
    in_place = nn.Sequential(net.one, nn.ReLU(inplace=True), net.two).eval()
    (only,) = hinges(Classifier(in_place), x)
    torch.testing.assert_close(only, net.one(x))
    (slope,) = torch.autograd.grad(only[:, 1].sum(), x)
    torch.testing.assert_close(slope, net.one.weight[1].expand(5, 3))


def test_convolutions_are_flat() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.LeakyReLU(), nn.Flatten(), nn.Linear(8, 2)).eval()
    (only,) = hinges(Classifier(net), torch.rand(3, 1, 4, 4))
    assert only.shape == (3, 8)


def test_none_in_a_smooth_network() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.Linear(4, 2)).eval()
    assert hinges(Classifier(net), torch.rand(2, 3)) == []
