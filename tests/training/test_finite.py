"""Where a NaN came from."""

from __future__ import annotations

import torch
from torch import nn

from attribound.balls import LinfBall
from attribound.training.finite import bad_examples, bad_layer, bad_parameters, not_finite
from attribound.training.objective import Step
from attribound.training.objectives import CE


class Logarithm(nn.Module):
    def forward(self, x):
        return x.log()


def problem(model: nn.Module, x: torch.Tensor) -> Step:
    return Step(model, x, torch.zeros(len(x), dtype=torch.long), LinfBall(0.1), 0)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), Logarithm(), nn.Dropout(), nn.Linear(3, 2))


def test_the_examples_and_the_layer_are_found() -> None:
    model = network()
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(3))
        model[0].bias.zero_()
    x = torch.rand(6, 3) + 0.1
    x[2, 1], x[5, 0] = -1.0, -2.0
    step = problem(model, x)
    assert bad_examples(CE(), step, x) == [2, 5]
    assert bad_layer(model, (x.abs(), x)) == "1"
    assert bad_layer(model, (x.abs(),)) is None
    assert model.training
    rows = torch.tensor([10, 11, 12, 13, 14, 15])
    message = str(not_finite("step 3, epoch 1: ce is nan", CE(), step, x, rows))
    assert "step 3, epoch 1: ce is nan; 2 of 6 examples" in message
    assert "training examples 12, 15; first layer with a non-finite output: 1;" in message


def test_a_gradient_alone_can_be_bad() -> None:
    """The root of zero is zero, its slope infinite."""

    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return torch.cat([(x * self.scale).sqrt(), x], 1)

    model, x = Root(), torch.ones(2, 1)
    step = problem(model, x)
    assert bad_examples(CE(), step, x) == [0, 1]
    assert bad_layer(model, (x,)) is None
    sum(CE().losses(step, x).values()).backward()
    assert bad_parameters(model) == ["scale"]
    assert bad_parameters(network()) == []


def test_weights_that_are_not_finite_are_named() -> None:
    model = network()
    with torch.no_grad():
        model[3].bias[0] = torch.inf
    x = torch.rand(20, 3)
    message = str(not_finite("x", CE(), problem(model, x), x, torch.arange(20)))
    assert "weights that are not finite: 3.bias" in message
    assert "20 of 20 examples" in message
    assert "training examples 0, 1, 2, 3, 4, 5, 6, 7, ...;" in message


def test_a_healthy_step_accuses_nobody() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 2)), torch.rand(4, 3)
    message = str(not_finite("x", CE(), problem(model, x), x, torch.arange(4)))
    assert "0 of 4 examples are not finite on their own; first layer" in message
    assert "non-finite output: none" in message
