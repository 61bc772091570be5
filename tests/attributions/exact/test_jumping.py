"""Where integrated gradients jump, and that it is said."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import attribound as ab
from attribound.attributions.exact import jumping
from attributions.exact import reference
from attributions.exact.reference import exact


class _Flags:
    def __init__(self, ig: ab.IntegratedGradients, x: Tensor) -> None:
        found = ig.linearize(x).reservations()
        self.on_kink, self.jumps = found[ab.Status.ON_KINK], found[ab.Status.JUMPS]


def deep(bias: float) -> nn.Module:
    """(h - 1.3 + bias)+ with h = (x1 + .5)+ - (x1 - .5)+ + (x1 - x2 + .3)+.

    Where x1 > .5 and x1 - x2 > -.3 that is (x1 - x2 + bias)+.
    """
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1), nn.ReLU(), nn.Linear(1, 2))
    numbers = [[[1.0, 0], [1, 0], [1, -1]], [0.5, -0.5, 0.3], [[1.0, -1, 1]], [bias - 1.3]]
    numbers += [[[1.0], [0.0]], [0.0, 0.0]]
    for parameter, value in zip(net.double().parameters(), numbers, strict=True):
        parameter.data = torch.tensor(value, dtype=torch.float64)
    return net.eval()


@pytest.mark.parametrize("side", [1, -1])
def test_a_deep_neuron_that_is_zero_at_the_baseline_on_a_later_piece(side) -> None:
    """All arguments at the baseline differ from zero; the value jumps by 1.5 all the same."""
    x = torch.tensor([[2.0, 2.0 + side * 1e-9]], dtype=torch.float64)
    net = deep(0.0)
    ig = ab.IntegratedGradients(net, quadrature="exact")
    expected = torch.tensor([[0.0, 0.0]] if side > 0 else [[1.5, -1.5]]).double()
    torch.testing.assert_close(ig(x, 0), expected, rtol=0, atol=1e-6)
    assert _Flags(ig, x).jumps.all()


@pytest.mark.parametrize("bias", [0.1, 0.01])
def test_without_that_it_is_steep_but_does_not_jump(bias) -> None:
    net = deep(bias)
    ig = ab.IntegratedGradients(net, quadrature="exact")
    x = torch.tensor([[2.0, 2.05]]).double()
    assert not _Flags(ig, x).jumps.any()


def test_dead_neurons_and_flat_inputs_are_no_jumps() -> None:
    """Zero for want of anything that feeds them: no input switches them there."""
    net, x = reference.without_deep_biases(), reference.rows()
    assert not _Flags(exact(net), x).on_kink.any()
    flags = _Flags(exact(reference.cnn()), reference.images(flat=True))
    assert not flags.on_kink.any()
    assert not flags.jumps.any()


def test_of_long_paths_the_first_cell_is_looked_at(monkeypatch) -> None:
    monkeypatch.setattr(jumping, "_LOOKED_AT", 2)
    net, x = reference.without_biases(), reference.rows()
    net[0].bias.data[3] = 0.1  # one crossing
    net[0].bias.data[4] = -0.1
    assert _Flags(exact(net, 0.0), x).jumps.all()
    assert not _Flags(exact(reference.mlp((12, 10))), x).jumps.any()
