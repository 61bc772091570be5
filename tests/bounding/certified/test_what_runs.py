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


def activation(kinked: bool) -> nn.Module:
    return nn.ReLU() if kinked else nn.Softplus(5)


def plain(kinked: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), activation(kinked), nn.Linear(6, 3)).eval()


def louder(value: Tensor) -> Tensor:
    return torch.sin(LOUD * value)


def instance_forward(kinked: bool = False) -> nn.Module:
    net = plain(kinked)
    net[1].forward = lambda z: louder(nn.functional.softplus(z))
    return net


def model_forward(kinked: bool = False) -> nn.Module:
    net = plain(kinked)
    own = net.forward
    net.forward = lambda z: own(louder(z))
    return net


class Convolution(nn.Conv2d):
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return louder(super()._conv_forward(input, weight, bias))


def convolution_of_its_own(kinked: bool = False) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        Convolution(1, 2, 1), activation(kinked), nn.Flatten(), nn.Linear(8, 3)
    ).eval()


class Called(nn.Linear):
    def __call__(self, x: Tensor) -> Tensor:
        return louder(super().__call__(x))


def call_of_its_own(kinked: bool = False) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Called(4, 6), activation(kinked), nn.Linear(6, 3)).eval()


class Longer(nn.Sequential):
    def __iter__(self) -> Iterator[nn.Module]:
        yield from super().__iter__()
        yield Sine()


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return louder(x)


def iteration_of_its_own(kinked: bool = False) -> nn.Module:
    return Longer(*plain(kinked)).eval()


def hooked(kinked: bool = False) -> nn.Module:
    net = plain(kinked)
    net[0].register_forward_hook(lambda module, given, out: louder(out))
    return net


def gradient_hooked(kinked: bool = False) -> nn.Module:
    net = plain(kinked)
    net[0].register_full_backward_hook(lambda module, given, out: tuple(3 * g for g in given))
    return net


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def parametrised(kinked: bool = False) -> nn.Module:
    net = plain(kinked)
    nn.utils.parametrize.register_parametrization(net[0], "weight", Doubled())
    return net


Make = Callable[[bool], nn.Module]
#: How it is made and how the refusal names it.
WAYS: dict[str, tuple[Make, str]] = {
    "forward of an instance": (instance_forward, "(Softplus|ReLU) with a forward of its own"),
    "forward of the model": (model_forward, "Sequential with a forward of its own"),
    "_conv_forward of a subclass": (convolution_of_its_own, "Convolution, a subclass of Conv2d"),
    "__call__ of a subclass": (call_of_its_own, "got Called, a subclass of Linear"),
    "__iter__ of a Sequential": (iteration_of_its_own, "got Longer"),
    "a hook of all modules": (plain, r"the process.*hooks that are registered for every"),
    "a forward hook": (hooked, "Linear with hooks"),
    "a backward hook": (gradient_hooked, "Linear with hooks"),
    "a parametrisation": (parametrised, "got ParametrizedLinear, a subclass of Linear"),
}
#: Which network, and what is asked of it.
PATHS: dict[str, tuple[bool, ab.Attribution]] = {
    "taylor": (False, ab.Saliency()),
    "taylor, along a path": (False, ab.IntegratedGradients(steps=3)),
    "switches": (True, ab.Saliency()),
    "exact integral": (True, ab.IntegratedGradients(quadrature="exact")),
}


@pytest.fixture
def everywhere(way: str) -> Iterator[None]:
    """The hook of all modules, where that is the way."""
    if way != "a hook of all modules":
        yield
        return
    handle = nn.modules.module.register_module_forward_pre_hook(
        lambda module, given: tuple(louder(z) for z in given)
    )
    yield
    handle.remove()


def inputs(net: nn.Module) -> Tensor:
    x = torch.rand(2, 4, generator=torch.Generator().manual_seed(1))
    return x.view(2, 1, 2, 2) if isinstance(net[0], nn.Conv2d) else x


def certify(net: nn.Module, recipe: ab.Attribution = ab.Saliency()) -> ab.Bound:  # noqa: B008
    return ab.bound(recipe.of(net), inputs(net), ab.L2Ball(0.05), claim="certified")


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("way", WAYS)
def test_refused(way: str, path: str) -> None:
    (make, named), (kinked, recipe) = WAYS[way], PATHS[path]
    with pytest.raises(ab.ModelError, match=named):
        certify(make(kinked), recipe)


@pytest.mark.parametrize("path", PATHS)
def test_the_same_network_without_them_is_certified(path: str) -> None:
    kinked, recipe = PATHS[path]
    assert certify(plain(kinked), recipe).euclidean.isfinite().all()


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("kinked", [False, True], ids=["smooth", "kinked"])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "a backward hook"])
def test_structure_is_that_of_what_runs(way: str, kinked: bool) -> None:
    """Left to autograd, or traced with all that is in the way: the module's own derivatives."""
    net = WAYS[way][0](kinked).double()
    x = inputs(net).double()
    classifier = ab.Classifier(net, allow_kinks=kinked)
    target = torch.tensor([0, 1])
    z = x.clone().requires_grad_()
    logits = net(z)
    (slope,) = torch.autograd.grad(logits.gather(1, target[:, None]).sum(), z, create_graph=True)
    v = torch.ones_like(x)
    (turned,) = torch.autograd.grad((slope * v).sum(), z)
    line = ab.Saliency(classifier).linearize(x, target)
    torch.testing.assert_close(line.value, slope.detach())
    torch.testing.assert_close(line.jacobian.matvec(v), turned)
    torch.testing.assert_close(classifier.logits(x), logits.detach())


def test_derivatives_that_a_hook_changes_are_refused_everywhere() -> None:
    with pytest.raises(ab.ProbeError, match="derivatives that agree with finite differences"):
        ab.Saliency(gradient_hooked()).linearize(inputs(plain()))


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
