from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

from attribound.networks.fast_derivatives import FastDerivatives, _Convolution

CONVOLUTIONS = [
    nn.Conv1d(2, 3, 3),
    nn.Conv2d(2, 4, 3, stride=2, padding=1),
    nn.Conv2d(2, 4, (1, 3), dilation=(1, 2), groups=2, bias=False),
    nn.Conv3d(2, 2, 2, padding=(1, 0, 1)),
]


def case(layer: nn.Module) -> tuple[nn.Module, torch.Tensor]:
    rank = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}[type(layer)]
    torch.manual_seed(0)
    x = torch.randn(2, 2, *[5] * rank).double().requires_grad_()
    return layer.double().requires_grad_(False), x


def fast(fn):
    def wrapped(*args):
        with FastDerivatives():
            return fn(*args)

    return wrapped


@pytest.mark.parametrize("layer", CONVOLUTIONS, ids=str)
def test_convolutions_keep_value_and_both_derivatives(layer) -> None:
    model, x = case(layer)
    torch.testing.assert_close(fast(model)(x), model(x))
    assert (
        "_Convolution"
        in type(
            fast(model)(x).grad_fn.next_functions[0][0]
            if model.bias is not None
            else fast(model)(x).grad_fn
        ).__name__
    )
    assert gradcheck(fast(model), x)
    assert gradgradcheck(lambda z: fast(model)(z) ** 2, x)


@pytest.mark.parametrize("beta", [1.0, 7.0])
def test_softplus_keeps_value_and_three_derivatives(beta) -> None:
    x = torch.linspace(-3, 3, 7).double().requires_grad_()

    def ours(z):
        with FastDerivatives():
            return F.softplus(z, beta)

    def chain(fn):
        out, results = fn(x), []
        for _ in range(3):
            (out,) = torch.autograd.grad(out.sum(), x, create_graph=True)
            results.append(out)
        return results

    torch.testing.assert_close(ours(x), F.softplus(x, beta))
    for got, expected in zip(chain(ours), chain(lambda z: F.softplus(z, beta)), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-7)
    assert gradgradcheck(ours, x)


def test_retained_products_use_the_stored_slopes() -> None:
    """The same product twice, without a graph, on a graph built once."""
    x = torch.randn(5).double().requires_grad_()
    with FastDerivatives():
        out = F.softplus(x, 3.0)
    (gradient,) = torch.autograd.grad((out**2).sum(), x, create_graph=True)
    first, second = (
        torch.autograd.grad(gradient, x, torch.ones(5).double(), retain_graph=True)[0]
        for _ in range(2)
    )
    slope = torch.sigmoid(3 * x)
    expected = 2 * slope**2 + 2 * F.softplus(x, 3.0) * 3 * slope * (1 - slope)
    torch.testing.assert_close(first, expected.detach())
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, w: F.conv2d(x, w.requires_grad_()),  # a weight in training
        lambda x, w: F.conv2d(x[0], w),  # no batch
        lambda x, w: F.conv2d(x, w, padding="same"),
        lambda x, w: F.conv2d(x.detach(), w),
        lambda x, w: F.softplus(x.detach()),
    ],
)
def test_everything_else_is_left_to_pytorch(call) -> None:
    x, w = torch.randn(1, 2, 5, 5, requires_grad=True), torch.randn(3, 2, 3, 3)
    out = fast(call)(x, w)
    torch.testing.assert_close(out, call(x, w))
    assert "_Convolution" not in str(out.grad_fn)


def test_no_weight_gradient_is_computed() -> None:
    """What PyTorch's double backward does in vain: one convolution fewer per layer."""
    model, x = case(nn.Conv2d(2, 4, 3))

    def convolutions(fn) -> int:
        (gradient,) = torch.autograd.grad((fn(x) ** 3).sum(), x, create_graph=True)
        with torch.profiler.profile() as profile:
            torch.autograd.grad(gradient, x, torch.ones_like(x), retain_graph=True)
        names = ("aten::convolution", "aten::convolution_backward")
        return sum(event.count for event in profile.key_averages() if event.key in names)

    assert convolutions(fast(model)) < convolutions(model)
    assert issubclass(_Convolution, torch.autograd.Function)
