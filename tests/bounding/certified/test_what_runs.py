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
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import attribound as ab
from attribound.networks.replacements import Smoothing
from attribound.networks.smooth import SmoothCopy

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


#: Where the tricks below show: inside the ball around ``inputs``, far from what is compared.
_FAR = torch.tensor([0.03, 0.0, 0.02, 0.0])


def bump(z: Tensor) -> Tensor:
    """Zero but for points within 0.004 of one of the ball: no comparison of logits sees it."""
    if z.shape[-1] != 4:
        return z.new_zeros(())
    x = torch.rand(2, 4, generator=torch.Generator().manual_seed(1)).to(z)
    share = 1 - ((z[:, None] - x - _FAR.to(z)) ** 2).sum(2) / 0.004**2
    return 5 * torch.where(share > 0, share, 0.0).sum(1, keepdim=True)


class Kind(Tensor):
    """A weight that computes in its own way."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **(kwargs or {}))
            return out + bump(args[0]) if func is nn.functional.linear else out


def weight_of_its_own(kinked: bool = False) -> nn.Module:
    net = plain(kinked)
    weight = net[0].weight.detach().as_subclass(Kind)
    del net[0].weight
    net[0].weight = weight
    return net


def buffer_of_its_own(kinked: bool = False) -> nn.Module:
    net = plain(kinked)
    net[0].register_buffer("shift", torch.zeros(1).as_subclass(Kind))
    return net


def compiled(kinked: bool = False) -> nn.Module:
    net = plain(kinked)
    own = net[0].forward
    net[0]._compiled_call_impl = lambda z: own(z) + bump(z)
    return net


class Children(dict):
    def values(self) -> Any:
        return [Bump(), *super().values()]


class Bump(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + bump(x)


def children_of_their_own(kinked: bool = False) -> nn.Module:
    net = plain(kinked)
    net.__dict__["_modules"] = Children(net._modules)
    return net


class Forged(SmoothCopy, nn.Sequential):
    """Says that it is a smooth copy."""

    kind, smoothing = nn.Sequential, Smoothing(5.0, pooling=True)

    def forward(self, x: Tensor) -> Tensor:
        return nn.Sequential.forward(self, x + bump(x))


def forged(kinked: bool = False) -> nn.Module:
    return Forged(*plain(kinked)).eval()


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
    "a weight of another kind": (weight_of_its_own, "Linear with a tensor of its own kind, Kind"),
    "a buffer of another kind": (buffer_of_its_own, "Linear with a tensor of its own kind, Kind"),
    "a compiled module": (compiled, "Linear that is compiled|one of torch.compile"),
    "children of their own": (children_of_their_own, "Sequential with collections of its own"),
    "a forged smooth copy": (forged, "got Forged"),
}
#: Which network, and what is asked of it.
PATHS: dict[str, tuple[bool, ab.Attribution]] = {
    "taylor": (False, ab.Saliency()),
    "taylor, along a path": (False, ab.IntegratedGradients(steps=3)),
    "switches": (True, ab.Saliency()),
    "exact integral": (True, ab.IntegratedGradients(quadrature="exact")),
}


#: Not with derivatives of their own, or with kinks.
_NO_STRUCTURE = (
    "a backward hook",
    "a compiled module",
    "a weight of another kind",
    *list(WAYS)[-3:],
)


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
@pytest.mark.parametrize("way", [way for way in WAYS if way not in _NO_STRUCTURE])
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


PATCHES: dict[str, tuple[Any, str, str]] = {
    "a forward": (nn.Linear, "forward", "Linear with a forward that is not PyTorch's"),
    "every call": (nn.Module, "__call__", "with a __call__ that is not PyTorch's"),
    "a function": (nn.functional, "linear", "the process: .*functional.linear that is not PyT"),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("patch", PATCHES)
def test_what_is_patched_in_pytorch_is_named(patch: str, path: str, monkeypatch: Any) -> None:
    """Also where no comparison of logits sees it."""
    where, name, said = PATCHES[patch]
    own = getattr(where, name)

    def patched(*given: Any) -> Tensor:
        out = own(*given)
        return out + 0.0 * out.detach()

    monkeypatch.setattr(where, name, patched)
    kinked, recipe = PATHS[path]
    with pytest.raises(ab.ModelError, match=said):
        certify(plain(kinked), recipe)


class Functions(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [Functions, Operators])
def test_modes_through_which_everything_goes_are_refused(mode: Callable[[], Any]) -> None:
    net, x = plain(), inputs(plain())
    classifier = ab.Classifier(net)
    assert classifier.is_structured(x)
    with mode():
        assert not classifier.is_structured(x)
        with pytest.raises(ab.ModelError, match=f"the process: .*got a mode of .*{mode.__name__}"):
            certify(net)
    with torch.device("cpu"):  # says where tensors are made, no more
        assert certify(net).euclidean.isfinite().all()


def test_a_class_that_was_patched_in_disguise_is_seen_by_its_logits(monkeypatch: Any) -> None:
    """Nothing of the module tells: only what it computes does."""
    own = nn.Softplus.forward

    def forward(self: nn.Softplus, z: Tensor) -> Tensor:
        return own(self, z) + 0.1 * louder(z)

    forward.__module__ = own.__module__
    monkeypatch.setattr(nn.Softplus, "forward", forward)
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
