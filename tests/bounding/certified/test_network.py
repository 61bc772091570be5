"""Modules as affine stages and activations: same function, same products, or refused by name."""

from __future__ import annotations

from collections import OrderedDict
from fractions import Fraction

import pytest
import torch
from torch import nn

import attribound as ab
from attribound.bounding.certified.network import unroll
from attribound.models import SmallCNN
from attribound.models.normalisation import Normalisation, Normalise
from bounding.certified import reference


def affine_modules() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    torch.manual_seed(0)
    modules: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
        "linear": (nn.Linear(5, 3), (5,)),
        "linear on rows": (nn.Linear(5, 3), (2, 5)),
        "no bias": (nn.Linear(5, 3, bias=False), (5,)),
        "conv": (nn.Conv2d(2, 3, 3), (2, 6, 5)),
        "stride": (nn.Conv2d(2, 3, 3, stride=(2, 3), padding=(1, 2)), (2, 6, 7)),
        "groups": (nn.Conv2d(4, 6, 2, groups=2, dilation=2, bias=False), (4, 6, 5)),
        "same": (nn.Conv2d(2, 2, (2, 3), padding="same"), (2, 5, 4)),
        "valid": (nn.Conv2d(2, 2, 2, padding="valid"), (2, 5, 4)),
        "pool": (nn.AvgPool2d(2), (2, 5, 4)),
        "overlap": (nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False), (1, 5, 4)),
        "ceil": (nn.AvgPool2d((2, 3), ceil_mode=True), (1, 5, 4)),
        "divisor": (nn.AvgPool2d(2, divisor_override=-3), (1, 4, 4)),
        "flatten": (nn.Flatten(), (2, 3)),
        "flatten some": (nn.Flatten(2), (2, 3, 2)),
        "batch norm": (nn.BatchNorm2d(3), (3, 2, 2)),
        "plain batch norm": (nn.BatchNorm1d(4, affine=False), (4,)),
        "normalise": (Normalise(Normalisation((0.3, -0.2), (0.5, 2.0))), (2, 3, 2)),
        "normalise all alike": (Normalise(Normalisation((0.3,), (0.5,))), (2, 3)),
    }
    for module, _ in modules.values():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.2, 3)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
        module.double().eval()
    return modules


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", affine_modules())
def test_stage_is_the_module_and_its_products(name) -> None:
    """Values, linear part, transpose and absolute values, against the dense matrix."""
    module, shape = affine_modules()[name]
    stage = unroll(nn.Sequential(module, nn.Flatten()), shape).stages[0]
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        expected = module(x).flatten(1)
        zero = module(torch.zeros_like(x)).flatten(1)[:1]
        basis = torch.eye(x[0].numel()).double().view(-1, *shape)
        matrix = (module(basis).flatten(1) - zero).T
    close = {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(stage.value(x), expected, **close)
    torch.testing.assert_close(stage.linear(x), x.flatten(1) @ matrix.T, **close)
    u = torch.randn(4, len(matrix), generator=torch.Generator().manual_seed(2)).double()
    torch.testing.assert_close(stage.adjoint(u), u @ matrix, **close)
    absolute = stage.absolute()
    torch.testing.assert_close(
        absolute.linear(x.abs()), x.abs().flatten(1) @ matrix.abs().T, **close
    )
    torch.testing.assert_close(absolute.adjoint(u.abs()), u.abs() @ matrix.abs(), **close)
    assert (stage.magnitude(x.abs()) >= expected.abs() * (1 - 1e-12)).all()


def test_magnitude_counts_what_cancels() -> None:
    """A mean and a bias of batch norm that cancel still leave the rounding of both."""
    norm = nn.BatchNorm1d(1).double().eval()
    with torch.no_grad():
        norm.running_mean.fill_(1e6)
        norm.bias.fill_(1e6)
    stage = unroll(nn.Sequential(norm, nn.Flatten()), (1,)).stages[0]
    assert stage.magnitude(torch.zeros(1, 1).double()).item() > 1.9e6


def test_errors_of_a_sum_are_within_the_margin() -> None:
    """Against exact rationals, on a sum that cancels."""
    torch.manual_seed(0)
    layer = nn.Linear(200, 1).double()
    x = torch.randn(1, 200).double() * 10 ** torch.linspace(-8, 8, 200).double()
    stage = unroll(nn.Sequential(layer), (200,)).stages[0]
    pairs = zip(layer.weight[0].tolist(), x[0].tolist(), strict=True)
    exact = sum(
        (Fraction(w) * Fraction(v) for w, v in pairs),
        Fraction(layer.bias.item()),
    )
    error = abs(Fraction(stage.value(x).item()) - exact)
    assert 0 < error <= Fraction((stage.margin * stage.magnitude(x.abs())).item())


@pytest.mark.parametrize("seed", range(3))
def test_random_networks_are_the_same_function(seed) -> None:
    net = reference.image_network(["tanh", "softplus6"], 1.0, seed)
    x = torch.randn(3, 1, 4, 5).double()
    with torch.no_grad():
        torch.testing.assert_close(
            unroll(net, (1, 4, 5)).logits(x.flatten(1)), net(x), rtol=1e-8, atol=1e-8
        )


def test_small_cnn_and_its_smoothed_form_are_the_same_function() -> None:
    torch.manual_seed(0)
    net = SmallCNN(nn.ReLU).double().eval()
    nn.init.normal_(net.classifier[-1].weight)
    x = torch.rand(2, 1, 28, 28).double()
    for each in (ab.smooth(net, beta=7.0), SmallCNN().double().eval()):
        network = unroll(each, (1, 28, 28))
        assert network.widths == (32 * 26 * 26, 32 * 24 * 24, 6400, 4096, 200, 200)
        with torch.no_grad():
            torch.testing.assert_close(network.logits(x), each(x), rtol=1e-7, atol=1e-7)


def test_a_module_used_twice_counts_twice() -> None:
    shared = nn.Tanh()
    net = nn.Sequential(nn.Linear(2, 2), shared, nn.Linear(2, 2), shared, nn.Linear(2, 2))
    assert len(unroll(net, (2,)).activations) == 2


@pytest.mark.parametrize("slope", [0.0, 0.2, 1.0])
def test_kinked_networks_have_the_logits_and_gradients_of_torch(slope) -> None:
    """Of every target, on both sides of the kinks; at a kink the slope is that below."""
    torch.manual_seed(0)
    act = nn.ReLU if slope == 0 else lambda: nn.LeakyReLU(slope)
    net = nn.Sequential(nn.Linear(4, 6), act(), nn.Linear(6, 5), act(), nn.Linear(5, 3)).double()
    network = unroll(net, (4,))
    assert (network.widths, network.slopes) == ((6, 5), (slope, slope))
    x = torch.randn(9, 4).double().requires_grad_()
    torch.testing.assert_close(network.logits(x.detach()), net(x).detach())
    for target in range(3):
        (expected,) = torch.autograd.grad(net(x)[:, target].sum(), x)
        torch.testing.assert_close(network.gradients(x.detach(), target), expected)
    image = nn.Sequential(nn.Conv2d(1, 2, 2), nn.AvgPool2d(2), nn.Flatten(), act())
    assert unroll(nn.Sequential(image, nn.Linear(2, 3)).double(), (1, 3, 3)).widths == (2,)
    with torch.no_grad():
        net[0].bias.zero_()
    at_kinks = unroll(net[:3], (4,))
    below = slope * torch.ones(6).double() @ torch.diag(net[2].weight[1]) @ net[0].weight
    found = at_kinks.gradients(torch.zeros(1, 4).double(), 1)
    torch.testing.assert_close(found[0], below.detach())


def test_weights_are_taken_as_they_are() -> None:
    net = nn.Sequential(nn.Linear(3, 2))
    network = unroll(net, (3,))
    assert torch.equal(network.stages[0].maps[0].weight, net[0].weight.double())


class Custom(nn.Linear):
    def forward(self, x):
        return super().forward(x).sin()


def hooked() -> nn.Module:
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda *_: None)
    return layer


REFUSED = {
    "ReLU6": (nn.ReLU6(), "module 'body.inner': expected nested nn.Sequential.*got ReLU6"),
    "steep": (nn.LeakyReLU(2.0), "LeakyReLU with negative_slope=2.0"),
    "mixture": (
        nn.Sequential(nn.Tanh(), nn.ReLU()),
        "the model: expected .*got smooth activations and ReLUs in one network",
    ),
    "GELU": (nn.GELU(), "got GELU"),
    "custom forward": (Custom(2, 2), "got Custom"),
    "hooks": (hooked(), "with hooks"),
    "padding": (nn.Conv2d(1, 1, 1, padding_mode="circular"), "Conv2d with padding_mode='circular'"),
    "vector convolved": (nn.Conv2d(1, 1, 1), r"Conv2d on one example of shape \(2,\)"),
    "vector pooled": (nn.AvgPool2d(1), r"AvgPool2d on one example of shape \(2,\)"),
    "examples mixed": (nn.Flatten(0), r"Flatten that mixes the examples \(start_dim=0\)"),
    "train mode": (nn.BatchNorm1d(2), "BatchNorm1d that takes its statistics from the batch"),
    "no statistics": (
        nn.BatchNorm1d(2, track_running_stats=False).eval(),
        "BatchNorm1d that takes its statistics from the batch",
    ),
    "dropout": (nn.Dropout(), "Dropout in train mode"),
    "channels": (
        Normalise(Normalisation((0.0,) * 3, (1.0,) * 3)),
        r"Normalise of 3 channels on one example of shape \(2,\)",
    ),
    "copied": (
        ab.smooth(nn.Sequential(nn.LeakyReLU(inplace=True)), 5.0),
        "LeakyReLU in a smooth copy",
    ),
    "negative beta": (nn.Softplus(beta=-1.0), "Softplus with beta=-1.0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_by_name(name) -> None:
    module, message = REFUSED[name]
    net = nn.Sequential(OrderedDict(body=nn.Sequential(OrderedDict(inner=module))))
    with pytest.raises(ab.ModelError, match=message):
        unroll(net, (2,))


def test_refuses_what_is_no_sequence() -> None:
    class Residual(nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(ab.ModelError, match="the model, Residual,: expected nested"):
        unroll(Residual(), (2,))
    with pytest.raises(ab.ModelError, match=r"the model: expected nested .* got a function"):
        unroll(lambda x: x, (2,))


def test_refuses_inputs_of_the_wrong_shape() -> None:
    with pytest.raises(ab.ModelError, match="module '0': expected an input of the shape it gets"):
        unroll(nn.Sequential(nn.Linear(3, 2)), (2,))


def test_refuses_outputs_that_are_no_logits() -> None:
    with pytest.raises(ab.ModelError, match="model output: expected logits of shape"):
        unroll(nn.Sequential(nn.Conv2d(1, 1, 1)), (1, 2, 2))


def test_refuses_sums_longer_than_the_margin_covers() -> None:
    net = nn.Sequential(nn.Linear(1, 2**20 + 1), nn.Tanh(), nn.Flatten())
    with pytest.raises(ab.ModelError, match="the model: expected sums of at most 1048576 terms"):
        unroll(net, (1,))
