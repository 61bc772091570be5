"""The network that is certified is the one that runs: ways to certify another are refused.

Each of these networks moves its attribution far beyond the certificate of the modules that it
is made of; a test shows that, too, so that the refusals are about something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attribound as ab

LOUD = 40.0


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Softplus(5), nn.Linear(6, 3)).eval()


def louder(value: Tensor) -> Tensor:
    return torch.sin(LOUD * value)


def instance_forward() -> nn.Module:
    net = plain()
    net[1].forward = lambda z: louder(nn.functional.softplus(z))
    return net


def model_forward() -> nn.Module:
    net = plain()
    own = net.forward
    net.forward = lambda z: own(louder(z))
    return net


class Convolution(nn.Conv2d):
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return louder(super()._conv_forward(input, weight, bias))


def convolution_of_its_own() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), Convolution(1, 2, 1), nn.Flatten(), nn.Linear(8, 3)
    ).eval()


class Called(nn.Linear):
    def __call__(self, x: Tensor) -> Tensor:
        return louder(super().__call__(x))


def call_of_its_own() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Called(4, 6), nn.Softplus(5), nn.Linear(6, 3)).eval()


class Backwards(nn.Sequential):
    def __iter__(self) -> Iterator[nn.Module]:
        yield from super().__iter__()
        yield Sine()


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return louder(x)


def iteration_of_its_own() -> nn.Module:
    return Backwards(*plain()).eval()


def hooked() -> nn.Module:
    net = plain()
    net[0].register_forward_hook(lambda module, given, out: louder(out))
    return net


def gradient_hooked() -> nn.Module:
    net = plain()
    net[0].register_full_backward_hook(lambda module, given, out: tuple(3 * g for g in given))
    return net


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def parametrised() -> nn.Module:
    net = plain()
    nn.utils.parametrize.register_parametrization(net[0], "weight", Doubled())
    return net


WAYS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "forward of an instance": (instance_forward, "Softplus with a forward of its own"),
    "forward of the model": (model_forward, "Sequential with a forward of its own"),
    "_conv_forward of a subclass": (convolution_of_its_own, "got (Unflatten|Convolution)"),
    "__call__ of a subclass": (call_of_its_own, "got Called, a subclass of Linear"),
    "__iter__ of a Sequential": (iteration_of_its_own, "got Backwards"),
    "a forward hook": (hooked, "Linear with hooks"),
    "a backward hook": (gradient_hooked, "Linear with hooks"),
    "a parametrisation": (parametrised, "got ParametrizedLinear, a subclass of Linear"),
}


def certify(net: nn.Module) -> ab.Bound:
    x = torch.rand(2, 4, generator=torch.Generator().manual_seed(1))
    return ab.bound(ab.Saliency(net), x, ab.L2Ball(0.05), claim="certified")


@pytest.mark.parametrize(("make", "named"), WAYS.values(), ids=WAYS)
def test_refused(make: Callable[[], nn.Module], named: str) -> None:
    with pytest.raises(ab.ModelError, match=named):
        certify(make())


def test_a_subclass_of_a_convolution() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(Convolution(1, 2, 1), nn.Flatten(), nn.Linear(8, 3)).eval()
    x = torch.rand(1, 1, 2, 2)
    with pytest.raises(ab.ModelError, match="Convolution, a subclass of Conv2d"):
        ab.bound(ab.Saliency(net), x, ab.L2Ball(0.05), claim="certified")


def test_a_global_hook() -> None:
    handle = nn.modules.module.register_module_forward_pre_hook(
        lambda module, given: tuple(louder(z) for z in given)
    )
    try:
        with pytest.raises(ab.ModelError, match=r"the process.*hooks that are registered"):
            certify(plain())
    finally:
        handle.remove()
    assert certify(plain()).euclidean.isfinite().all()


def test_a_class_that_was_patched_is_seen_by_its_logits(monkeypatch: Any) -> None:
    """Nothing of the module tells: only what it computes does."""
    own = nn.Softplus.forward
    monkeypatch.setattr(nn.Softplus, "forward", lambda self, z: own(self, z) + 0.1 * louder(z))
    with pytest.raises(ab.ProbeError, match="a network that computes what its modules say"):
        certify(plain())


@pytest.mark.parametrize("make", [instance_forward, model_forward, hooked])
def test_what_is_refused_would_have_been_false(make: Callable[[], nn.Module]) -> None:
    bound = certify(plain())
    x = torch.rand(2, 4, generator=torch.Generator().manual_seed(1))
    found = ab.attacks.AttributionAscent(random_starts=4)(
        ab.Saliency(make()), x, ab.L2Ball(0.05), bound.target
    )
    assert (found.deviation > 5 * bound.euclidean).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_computes_what_it_says_is_certified(dtype: torch.dtype) -> None:
    class Made(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(*plain())

    x = torch.rand(2, 4, dtype=dtype)
    for net in (plain(), Made().eval(), ab.smooth(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), 20)):
        bound = ab.bound(ab.Saliency(net.to(dtype)), x, ab.L2Ball(0.05), claim="certified")
        assert bound.claim.name == "certified"
