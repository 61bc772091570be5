from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attribound as ab
from attribound.networks.kinks import find_kinks
from cases import Functional

X = torch.linspace(-3, 8, 48, dtype=torch.float64).reshape(2, 2, 3, 4)
SLOPES = torch.tensor([0.25, -0.5], dtype=torch.float64)


def softplus(x: Tensor, beta: float) -> Tensor:
    return torch.logaddexp(torch.zeros_like(x), beta * x) / beta


def leaky(slope: float | Tensor):
    return lambda x, b: slope * x + (1 - slope) * softplus(x, b)


def between(low: float, high: float):
    return lambda x, b: low + softplus(x - low, b) - softplus(x - high, b)


def at_most(high: float):
    return lambda x, b: high - softplus(high - x, b)


def prelu(parameters: int) -> nn.Module:
    module = nn.PReLU(parameters)
    module.weight.data = SLOPES[:parameters].clone()
    return module


RELU = {
    "nn.ReLU": nn.ReLU(),
    "nn.ReLU in place": nn.Sequential(nn.Identity(), nn.ReLU(inplace=True)),
    "nn.Threshold": nn.Threshold(0.0, 0.0),
    "F.relu": F.relu,
    "F.relu in place": lambda x: F.relu(x, inplace=True),
    "F.relu in place, by position": lambda x: F.relu(x, True),
    "F.relu_": F.relu_,
    "F.relu by keyword": lambda x: F.relu(input=x),
    "torch.relu": torch.relu,
    "torch.relu by keyword": lambda x: torch.relu(input=x),
    "torch.relu_": torch.relu_,
    "Tensor.relu": lambda x: x.relu(),
    "Tensor.relu_": lambda x: x.relu_(),
    "aten": torch.ops.aten.relu.default,
    "Tensor.clamp_min": lambda x: x.clamp_min(0),
    "Tensor.clamp_min_": lambda x: x.clamp_min_(0),
    "torch.clamp_min": lambda x: torch.clamp_min(x, min=0.0),
    "Tensor.clamp": lambda x: x.clamp(min=0),
    "Tensor.clamp by position": lambda x: x.clamp(0),
    "Tensor.clamp_": lambda x: x.clamp_(min=0),
    "torch.clamp": lambda x: torch.clamp(x, min=0),
    "torch.clamp by keyword": lambda x: torch.clamp(input=x, min=0),
    "torch.clamp of tensors": lambda x: torch.clamp(x, min=torch.zeros_like(x)),
    "torch.clip": lambda x: torch.clip(x, min=0),
    "Tensor.clip": lambda x: x.clip(min=0),
    "Tensor.clip_": lambda x: x.clip_(min=0),
    "F.threshold": lambda x: F.threshold(x, 0, 0),
    "F.threshold in place": lambda x: F.threshold(x, 0, 0, inplace=True),
    "F.threshold_": lambda x: F.threshold_(x, 0, 0),
    "torch.threshold": lambda x: torch.threshold(x, 0, 0),
}
CASES = {
    **{name: (fn, softplus) for name, fn in RELU.items()},
    "nn.ReLU6": (nn.ReLU6(), between(0, 6)),
    "F.relu6": (F.relu6, between(0, 6)),
    "F.relu6 in place": (lambda x: F.relu6(x, inplace=True), between(0, 6)),
    "nn.LeakyReLU": (nn.LeakyReLU(0.2), leaky(0.2)),
    "nn.LeakyReLU in place": (nn.LeakyReLU(0.2, inplace=True), leaky(0.2)),
    "F.leaky_relu": (F.leaky_relu, leaky(0.01)),
    "F.leaky_relu by position": (lambda x: F.leaky_relu(x, 0.3, True), leaky(0.3)),
    "F.leaky_relu_": (lambda x: F.leaky_relu_(x, 0.3), leaky(0.3)),
    "nn.PReLU": (prelu(1), leaky(0.25)),
    "nn.PReLU of channels": (prelu(2), leaky(SLOPES.view(2, 1, 1))),
    "F.prelu": (lambda x: F.prelu(x, SLOPES), leaky(SLOPES.view(2, 1, 1))),
    "Tensor.prelu": (lambda x: x.prelu(SLOPES[:1]), leaky(0.25)),
    "nn.RReLU": (nn.RReLU(0.1, 0.5), leaky(0.3)),
    "F.rrelu": (F.rrelu, leaky(11 / 48)),
    "F.rrelu_": (F.rrelu_, leaky(11 / 48)),
    "nn.Hardtanh": (nn.Hardtanh(), between(-1, 1)),
    "F.hardtanh": (lambda x: F.hardtanh(x, -2, 3), between(-2, 3)),
    "F.hardtanh_": (lambda x: F.hardtanh_(x, max_val=3), between(-1, 3)),
    "clamp(0, 1)": (lambda x: x.clamp(0, 1), between(0, 1)),
    "clamp(min=2)": (lambda x: x.clamp(min=2), lambda x, b: 2 + softplus(x - 2, b)),
    "clamp(max=1)": (lambda x: x.clamp(max=1), at_most(1)),
    "clamp_max(1)": (lambda x: x.clamp_max(1), at_most(1)),
    "clamp(-inf, 1)": (lambda x: x.clamp(-math.inf, 1), at_most(1)),
    "clamp(0, inf)": (lambda x: x.clamp(0, math.inf), softplus),
}


@pytest.mark.parametrize(("kinked", "formula"), CASES.values(), ids=CASES.keys())
def test_is_the_softplus_formula_and_converges_to_the_original(kinked, formula) -> None:
    model = Functional(kinked).eval()
    for beta in (1.5, 20.0):
        smoothed = ab.smooth(model, beta)
        # PyTorch's softplus is linear beyond beta * x = 20, which is off by exp(-20) / beta.
        torch.testing.assert_close(smoothed(X.clone()), formula(X, beta), rtol=0, atol=1e-8)
    original = model(X.clone())
    torch.testing.assert_close(ab.smooth(model, 1e4)(X.clone()), original, rtol=0, atol=2e-4)
    assert find_kinks(lambda x: smoothed(x.clone()), X) == ()


IN_PLACE = [name for name in CASES if name.endswith(("_", "in place")) and "nn." not in name]


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_functions_stay_in_place(name) -> None:
    kinked, formula = CASES[name]

    def mutated(x: Tensor) -> Tensor:
        out = kinked(x)
        assert out is x
        return x

    smoothed = ab.smooth(Functional(mutated).eval(), 2.0)
    torch.testing.assert_close(smoothed(X.clone()), formula(X, 2.0), rtol=0, atol=1e-8)


UNCHANGED = {
    "gelu": F.gelu,
    "nn.GELU": nn.GELU(),
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "elu": F.elu,
    "clamp_min(1e-12)": lambda x: (1 + x**2).clamp_min(1e-12),
    "clamp(min=1e-6)": lambda x: torch.clamp(1 + x**2, min=1e-6),
    "normalize": F.normalize,
    "integers": lambda x: x + x.long().clamp(0, 1),
    "threshold(1, 0)": lambda x: F.threshold(x, 1, 0),
    "threshold(0, 1)": lambda x: F.threshold(x, 0, 1),
}


@pytest.mark.parametrize("fn", UNCHANGED.values(), ids=UNCHANGED.keys())
def test_everything_else_stays(fn) -> None:
    assert torch.equal(ab.smooth(Functional(fn), 2.0)(X), fn(X))


def test_random_slopes_stay_in_training() -> None:
    smoothed = ab.smooth(Functional(nn.RReLU()).train(), 20)
    assert [kink.operator for kink in find_kinks(smoothed, X)] == ["rrelu_with_noise"]


def adaptive(rank: int, size, **options):
    return lambda x: getattr(F, f"adaptive_max_pool{rank}d")(x, size, **options)


@pytest.mark.parametrize(
    ("rank", "size"),
    [(1, 2), (1, 4), (2, (3, 2)), (2, 1), (2, (None, 2)), (2, (1, None)), (3, (1, 3, 2))],
)
def test_adaptive_max_pooling_of_equal_windows(rank, size) -> None:
    x = X[:, 0] if rank == 1 else X
    model = Functional(adaptive(rank, size))
    original = model(x)
    smoothed = ab.smooth(model, 20.0)
    window = x[0].numel() * len(x) / original.numel()
    excess = smoothed(x) - original
    assert (excess >= -1e-12).all()
    assert (excess <= math.log(window) / 20 + 1e-12).all()
    torch.testing.assert_close(ab.smooth(model, 1e5)(x), original, rtol=0, atol=1e-4)
    assert find_kinks(smoothed, x) == ()


def test_adaptive_max_pooling_modules() -> None:
    x = X[0, 0]
    smoothed = ab.smooth(nn.Sequential(nn.AdaptiveMaxPool1d(2)), 3.0)
    expected = torch.logsumexp(3 * x.reshape(3, 2, 2), -1) / 3
    torch.testing.assert_close(smoothed(x), expected)


LEFT = {
    "unequal windows": adaptive(2, (2, 2)),
    "more windows than inputs": adaptive(1, 8),
    "adaptive indices": lambda x: adaptive(2, (3, 2), return_indices=True)(x)[0],
    "indices": lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
    "module with indices": lambda x: nn.MaxPool2d(2, return_indices=True)(x)[0],
    "fractional": lambda x: F.fractional_max_pool2d(
        x, 2, output_size=2, _random_samples=torch.full((2, 2, 2), 0.5).to(x)
    ),
}


@pytest.mark.parametrize("fn", LEFT.values(), ids=LEFT.keys())
def test_other_max_pooling_is_left_as_a_kink(fn) -> None:
    x = X[:, 0] if fn is LEFT["more windows than inputs"] else X
    smoothed = ab.smooth(Functional(fn), 20)
    assert torch.equal(smoothed(x), fn(x))
    assert any("max_pool" in kink.operator for kink in find_kinks(smoothed, x))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: F.max_pool2d(x, 2),
        lambda x: torch.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, kernel_size=2, stride=1, padding=1),
        nn.MaxPool2d(2),
        adaptive(2, (3, 2)),
        adaptive(2, (3, 2), return_indices=False),
    ],
)
def test_pooling_is_smoothed_unless_told_otherwise(fn) -> None:
    assert find_kinks(ab.smooth(Functional(fn), 20), X) == ()
    kept = ab.smooth(Functional(fn), 20, pooling=False)
    assert torch.equal(kept(X), fn(X))
    assert any("max_pool" in kink.operator for kink in find_kinks(kept, X))
