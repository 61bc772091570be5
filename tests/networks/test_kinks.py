from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attribound as ab
from attribound.networks.kinks import GUARD, Kink, find_kinks, is_guard, refuse_kinks
from cases import Functional

X = torch.linspace(-2, 2, 24, dtype=torch.float64).reshape(2, 3, 4)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.LeakyReLU())
        self.block = Functional(lambda x: F.relu(torch.relu(x)))

    def forward(self, x: Tensor) -> Tensor:
        return self.block(self.features(x)).abs()


def test_names_operator_and_module_in_order_and_once() -> None:
    assert [str(kink) for kink in find_kinks(Nested().double(), X)] == [
        "relu in 'features.1' (ReLU)",
        "leaky_relu in 'features.2' (LeakyReLU)",
        "relu in 'block' (Functional)",
        "abs in the model's forward",
    ]


def test_sees_plain_functions() -> None:
    assert find_kinks(torch.relu, X) == (Kink("relu", "the function given"),)


SMOOTH = {
    "gelu": F.gelu,
    "silu": F.silu,
    "mish": F.mish,
    "tanh": torch.tanh,
    "softplus": F.softplus,
    "softmax": lambda x: x.softmax(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "elu": nn.ELU(),
    "elu in place": lambda x: F.elu_(x.clone()),
    "celu": nn.CELU(),
    **{f"celu({alpha})": nn.CELU(alpha) for alpha in (0.3, 2.0, 49.0)},
    "elu(2) of x / 2": lambda x: torch.ops.aten.elu(x, 2.0, 1.0, 0.5),
    "guard": lambda x: 1 / x.square().clamp_min(1e-12),
    "guard, clamp": lambda x: 1 / x.square().clamp(min=GUARD),
    "normalize": F.normalize,
    "cosine_similarity": lambda x: F.cosine_similarity(x, x + 1),
    "layer_norm": nn.LayerNorm(4).double(),
    "average pooling": nn.AvgPool1d(2),
}


@pytest.mark.parametrize("fn", SMOOTH.values(), ids=SMOOTH.keys())
def test_smooth_functions_have_no_kinks(fn) -> None:
    assert find_kinks(fn, X) == ()


KINKED = {
    "elu(2)": (nn.ELU(2.0), "elu"),
    "selu": (nn.SELU(), "elu"),
    "hardswish": (nn.Hardswish(), "hardswish"),
    "hardsigmoid": (nn.Hardsigmoid(), "hardsigmoid"),
    "softshrink": (nn.Softshrink(), "softshrink"),
    "hardshrink": (nn.Hardshrink(), "hardshrink"),
    "hardtanh": (nn.Hardtanh(), "hardtanh"),
    "relu6": (nn.ReLU6(), "hardtanh"),
    "prelu": (nn.PReLU().double(), "_prelu_kernel"),
    "rrelu, train": (nn.RReLU(), "rrelu_with_noise"),
    "threshold": (nn.Threshold(1.0, 0.0), "threshold"),
    "relu rnn": (nn.RNN(4, 2, nonlinearity="relu").double(), "relu"),
    "abs": (torch.abs, "abs"),
    "sign": (torch.sign, "sign"),
    "floor": (torch.floor, "floor"),
    "maximum": (lambda x: torch.maximum(x, -x), "maximum"),
    "max": (lambda x: x.max(1).values, "max"),
    "amax": (lambda x: x.amax(1), "amax"),
    "median": (lambda x: x.median(1).values, "median"),
    "sort": (lambda x: x.sort(1).values, "sort"),
    "cdist": (lambda x: torch.cdist(x, x + 1, p=1), "_cdist_forward"),
    "rounded division": (lambda x: torch.div(x, 2, rounding_mode="floor"), "div"),
    "topk": (lambda x: x.topk(2).values, "topk"),
    "cummax": (lambda x: x.cummax(1).values, "cummax"),
    "clamp": (lambda x: x.clamp(0, 1), "clamp"),
    "clamp(0)": (lambda x: x.clamp(min=0), "clamp"),
    "clamp_min(0)": (lambda x: x.clamp_min(0), "clamp_min"),
    "clamp_max": (lambda x: x.clamp_max(1), "clamp_max"),
    "clamp, two-sided guard": (lambda x: x.clamp(1e-6, 1 - 1e-6), "clamp"),
    "relu_": (lambda x: x.mul(2).relu_(), "relu"),
    "max_pool1d": (nn.MaxPool1d(2), "max_pool2d_with_indices"),
    "max_pool2d": (nn.MaxPool2d(2), "max_pool2d_with_indices"),
    "max_pool3d": (lambda x: F.max_pool3d(x[None], 2), "max_pool3d_with_indices"),
    "adaptive_max_pool1d": (nn.AdaptiveMaxPool1d(2), "adaptive_max_pool2d"),
    "adaptive_max_pool2d": (nn.AdaptiveMaxPool2d(2), "adaptive_max_pool2d"),
}


@pytest.mark.parametrize(("fn", "operator"), KINKED.values(), ids=KINKED.keys())
def test_kinked_functions_are_named(fn, operator) -> None:
    assert operator in [kink.operator for kink in find_kinks(fn, X)]


DISGUISED = {
    "mask": lambda x: x * (x > 0),
    "where": lambda x: torch.where(x > 0, x, torch.zeros_like(x)),
    "winner": lambda x: x.gather(1, x.argmax(1, keepdim=True)),
    "1-norm": lambda x: x.norm(p=1, dim=1),
    "max-norm": lambda x: torch.linalg.vector_norm(x, math.inf, dim=1),
    "remainder": lambda x: x % 1,
}


@pytest.mark.parametrize("fn", DISGUISED.values(), ids=DISGUISED.keys())
def test_kinks_in_disguise_are_found(fn) -> None:
    assert find_kinks(fn, X)


def test_finds_kinks_of_a_network_that_works_in_place_on_its_input() -> None:
    net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2)).double()
    before = X.clone()
    assert [kink.operator for kink in find_kinks(net, X)] == ["relu"]
    assert torch.equal(X, before)


class Constants(nn.Module):
    """Kinked functions of everything but x."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", X.clone())

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.shape[-1]).clamp(max=2)
        return x[..., positions] * self.table.abs().relu()


class Scale(nn.Module):
    """A learned scale, kept below one half."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1).double())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale.clamp(max=0.5)


@pytest.mark.parametrize("kind", [Constants, Scale])
def test_ignores_kinks_in_what_does_not_depend_on_x(kind) -> None:
    assert find_kinks(kind(), X) == ()


def test_works_without_gradients_and_leaves_no_trace() -> None:
    net = Nested().double()
    with torch.no_grad():
        assert len(find_kinks(net, X)) == 4
    assert not X.requires_grad
    assert all(parameter.grad is None for parameter in net.parameters())
    assert_no_hooks(net)


def test_removes_its_hooks_after_a_failure() -> None:
    net = Nested().double()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        find_kinks(net, X[..., :3])
    assert_no_hooks(net)


def assert_no_hooks(net: nn.Module) -> None:
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


@pytest.mark.parametrize(
    ("low", "high", "guard"),
    [
        (1e-12, None, True),
        (GUARD, None, True),
        (2 * GUARD, None, False),
        (0, None, False),
        (-1e-6, None, False),
        (1e-6, 1.0, False),
        (None, 1e-6, False),
    ],
)
def test_is_guard(low, high, guard) -> None:
    assert is_guard(torch.ones(2), low, high) is guard


def test_a_clamp_that_is_active_is_no_guard() -> None:
    assert not is_guard(torch.tensor([1.0, -1.0]), 1e-6, None)
    assert is_guard(torch.ones(2), torch.tensor(1e-8), None)


def test_refusal_names_every_kink_and_the_remedies() -> None:
    kinks = find_kinks(Nested().double(), X)
    with pytest.raises(
        ab.KinkError, match=r"relu in 'block'.* abs in the model's forward"
    ) as caught:
        refuse_kinks(kinks)
    assert "attribound.choose_beta(model, x)" in str(caught.value)
    assert "allow_kinks=True" in str(caught.value)


def test_nothing_to_refuse() -> None:
    refuse_kinks(())


def test_a_check_for_nan_is_no_kink() -> None:
    def guarded(x: Tensor) -> Tensor:
        assert not torch.isnan(x).any()
        return x**2

    assert find_kinks(guarded, X) == ()
