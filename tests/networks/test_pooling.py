from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import attribound as ab
from attribound.networks import LogSumExpPool
from attribound.networks.kinks import find_kinks
from attribound.networks.pooling import Window, log_sum_exp_pool, spread

MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
MODULES = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}


@st.composite
def poolings(draw) -> tuple[Tensor, int, Window]:
    """An input and a window that fits it, with another setting for every dimension."""
    rank = draw(st.integers(1, 3))

    def sizes(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    kernel, dilation = sizes(1, 3), sizes(1, 2)
    stride = sizes(1, 3) if draw(st.booleans()) else None
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    extra = sizes(0, 3)
    shape = [g * (k - 1) + 1 + e for g, k, e in zip(dilation, kernel, extra, strict=True)]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    x = torch.randn(2, 2, *shape, generator=generator, dtype=torch.float64)
    return x, rank, Window(kernel, stride, padding, dilation, draw(st.booleans()))


def max_pool(x: Tensor, rank: int, w: Window) -> Tensor:
    return MAX_POOL[rank](x, w.kernel_size, w.stride, w.padding, w.dilation, w.ceil_mode)


@settings(max_examples=50, deadline=None)
@given(poolings())
def test_converges_to_max_pooling(pooling) -> None:
    x, rank, window = pooling
    smoothed = log_sum_exp_pool(x, rank, 1e5, window)
    torch.testing.assert_close(smoothed, max_pool(x, rank, window), rtol=0, atol=1e-4)


@settings(max_examples=50, deadline=None)
@given(poolings(), st.floats(0.1, 50))
def test_lies_between_the_maximum_and_its_excess(pooling, beta) -> None:
    x, rank, window = pooling
    excess = log_sum_exp_pool(x, rank, beta, window) - max_pool(x, rank, window)
    assert (excess >= -1e-12).all()
    assert (excess <= math.log(math.prod(window.kernel_size)) / beta + 1e-12).all()


@settings(max_examples=20, deadline=None)
@given(poolings())
def test_gradients_and_second_derivatives_are_finite(pooling) -> None:
    """The padding is -inf, and 0 * inf is no number."""
    x, rank, window = pooling
    x.requires_grad_()
    value = log_sum_exp_pool(x, rank, 3.0, window).square().sum()
    (first,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    assert torch.isfinite(first).all()
    assert torch.isfinite(second).all()


def test_derivatives_with_padding() -> None:
    pool = LogSumExpPool(nn.MaxPool2d(2, 2, padding=1), beta=2.0)
    x = torch.randn(1, 1, 3, 3, generator=torch.Generator().manual_seed(0)).double()
    assert torch.autograd.gradcheck(pool, x.requires_grad_())
    assert torch.autograd.gradgradcheck(pool, x)


def test_window_by_hand() -> None:
    x = torch.tensor([[1.0, -2.0, 0.5, 3.0, 0.0]]).double()
    pooled = log_sum_exp_pool(x, 1, 2.0, Window(2, stride=2, padding=1))
    expected = [1.0] + [
        math.log(math.exp(2 * a) + math.exp(2 * b)) / 2 for a, b in [(-2.0, 0.5), (3.0, 0.0)]
    ]
    torch.testing.assert_close(pooled, torch.tensor([expected]).double())


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{}, {"stride": 1, "padding": 1}, {"dilation": 2}, {"ceil_mode": True}]
)
def test_modules_are_replaced_with_their_window(rank, options) -> None:
    pool = MODULES[rank](3, **options)
    x = torch.randn(2, 2, *[7, 6, 8][:rank], generator=torch.Generator().manual_seed(0)).double()
    smoothed = ab.smooth(nn.Sequential(pool), 1e5)
    assert isinstance(smoothed[0], LogSumExpPool)
    torch.testing.assert_close(smoothed(x), pool(x), rtol=0, atol=1e-4)
    assert find_kinks(smoothed, x) == ()


def test_inputs_without_a_batch() -> None:
    x = torch.rand(3, 4, 4).double()
    pool = LogSumExpPool(nn.MaxPool2d(2), beta=20.0)
    assert torch.equal(pool(x), pool(x[None])[0])


def test_repr_says_window_and_sharpness() -> None:
    pool = LogSumExpPool(nn.MaxPool2d(3, stride=2), beta=20.0)
    assert repr(pool) == "LogSumExpPool(kernel_size=3, stride=2, beta=20.0)"


@pytest.mark.parametrize(
    ("size", "rank", "sizes"), [(2, 3, [2, 2, 2]), ((4,), 2, [4, 4]), ((1, 2), 2, [1, 2])]
)
def test_spread(size, rank, sizes) -> None:
    assert spread(size, rank) == sizes
