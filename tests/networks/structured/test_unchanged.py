"""What a network reads beside its input may change: then its structure is another, and is seen."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attribound as ab
from attribound.networks.structured.unchanged import Unchanged, outside

SCALE = 1.0


class Settings:
    scale = 1.0


@dataclass(frozen=True)
class Holds:
    scale: list[float]


def scaled(z: Tensor) -> Tensor:
    return SCALE * z


def rebound(z: Tensor) -> Tensor:
    return z


def seven(z: Tensor) -> Tensor:
    return 7 * z


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def middle(self, z: Tensor) -> Tensor:
        return z

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.middle(self.first(x))))


class ByClass(Base):
    def middle(self, z: Tensor) -> Tensor:
        return Settings.scale * z


class ByCalled(Base):
    def middle(self, z: Tensor) -> Tensor:
        return scaled(z)


class ByRebound(Base):
    def middle(self, z: Tensor) -> Tensor:
        return rebound(z)


class ByList(Base):
    scale = [1.0]  # noqa: RUF012 - a list is the point

    def middle(self, z: Tensor) -> Tensor:
        return self.scale[0] * z


class ByHeld(Base):
    def __init__(self) -> None:
        super().__init__()
        self.held = Holds([1.0])

    def middle(self, z: Tensor) -> Tensor:
        return self.held.scale[0] * z


class ByDefault(Base):
    def middle(self, z: Tensor, scale: list[float] = [1.0]) -> Tensor:  # noqa: B006
        return scale[0] * z


class ByProperty(Base):
    @property
    def scale(self) -> float:
        return SCALE

    def middle(self, z: Tensor) -> Tensor:
        return self.scale * z


class ByStatic(Base):
    @staticmethod
    def scaled(z: Tensor) -> Tensor:
        return SCALE * z

    def middle(self, z: Tensor) -> Tensor:
        return self.scaled(z)


class ByCall(Base):
    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(SCALE * x)


class ByAttribute(Base):
    def __getattr__(self, name: str) -> object:
        return SCALE if name == "scale" else super().__getattr__(name)

    def middle(self, z: Tensor) -> Tensor:
        return self.scale * z


class ByInner(Base):
    def middle(self, z: Tensor) -> Tensor:
        return next(SCALE * each for each in [z])


class ByImport(Base):
    def middle(self, z: Tensor) -> Tensor:
        import test_unchanged_settings as settings  # noqa: PLC0415

        return settings.scale * z


class ByFunctionsAttribute(Base):
    def middle(self, z: Tensor) -> Tensor:
        return seven.scale * z  # type: ignore[attr-defined]


class ByPyTorch(Base):
    def middle(self, z: Tensor) -> Tensor:
        return F.silu(z)


Change = Callable[[pytest.MonkeyPatch], None]


def of_module(name: str, value: object) -> Change:
    return lambda patch: patch.setitem(globals(), name, value)


def of(where: object, name: str, value: object) -> Change:
    return lambda patch: patch.setattr(where, name, value)


def of_first(numbers: list[float]) -> Change:
    return lambda _: numbers.__setitem__(0, 7.0)


IMPORTED = SimpleNamespace(scale=1.0)
CHANGES: dict[type[Base], Change] = {
    ByClass: of(Settings, "scale", 7.0),
    ByCalled: of_module("SCALE", 7.0),
    ByRebound: of_module("rebound", seven),
    ByList: of_first(ByList.scale),
    ByDefault: of_first(ByDefault.middle.__defaults__[0]),
    ByProperty: of_module("SCALE", 7.0),
    ByStatic: of_module("SCALE", 7.0),
    ByCall: of_module("SCALE", 7.0),
    ByAttribute: of_module("SCALE", 7.0),
    ByInner: of_module("SCALE", 7.0),
    ByImport: of(IMPORTED, "scale", 7.0),
    ByFunctionsAttribute: lambda patch: patch.setattr(seven, "scale", 7.0),
    ByPyTorch: of(F, "silu", seven),
}


def truth(model: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    point = x.clone().requires_grad_()
    score = model(point).gather(1, target.unsqueeze(1)).sum()
    return torch.autograd.grad(score, point)[0]


@pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.__name__)
def test_what_changes_around_a_network_is_seen(
    kind: type[Base], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seven, "scale", 1.0, raising=False)
    monkeypatch.setitem(__import__("sys").modules, "test_unchanged_settings", IMPORTED)
    torch.manual_seed(0)
    model, x, target = kind().double().eval(), torch.rand(2, 4).double(), torch.tensor([0, 1])
    classifier = ab.Classifier(model)
    assert classifier.is_structured(x) is (kind in {ByRebound, ByPyTorch})
    before = classifier.linearise(x, target)[0]
    CHANGES[kind](monkeypatch)
    now = truth(model, x, target)
    assert not torch.allclose(before, now)
    torch.testing.assert_close(classifier.linearise(x, target)[0], now)
    torch.testing.assert_close(ab.Saliency(classifier)(x, target), now)


def test_what_a_frozen_value_holds_may_change() -> None:
    model, x, target = ByHeld().double().eval(), torch.rand(2, 4).double(), torch.tensor([0, 1])
    classifier = ab.Classifier(model)
    classifier.linearise(x, target)
    model.held.scale[0] = 7.0
    torch.testing.assert_close(classifier.linearise(x, target)[0], truth(model, x, target))


def test_a_cell_may_be_given_another_value() -> None:
    act = torch.tanh

    def squashed(z: Tensor) -> Tensor:
        return act(z)  # noqa: F821

    model = Base()
    model.own = squashed
    assert [read.value for read in outside([model]) or []].count(torch.tanh) == 1
    same = Unchanged(list(model.modules()))
    assert same()
    act = torch.sigmoid
    assert not same()
    del act
    assert not same()
    assert outside([model]) is None  # an empty cell


def test_names_that_are_gone_are_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    same = Unchanged([ByRebound()])
    assert same()
    monkeypatch.delitem(globals(), "rebound")
    assert not same()


def test_elsewhere_nothing_is_known_of_them() -> None:
    same = Unchanged([nn.Linear(2, 3)])
    assert same()
    assert not pickle.loads(pickle.dumps(same))()


class Counts(Base):
    def __init__(self) -> None:
        super().__init__()
        self.calls, self.on, self.seen = 0, False, torch.zeros(1)

    def forward(self, x: Tensor) -> Tensor:
        self.calls, self.seen = self.calls + 1, x.detach()
        out = super().forward(x)
        return out.relu() if self.on else out


def test_what_running_changes_is_no_change() -> None:
    model, x = Counts(), torch.rand(1, 4)
    same = Unchanged(list(model.modules()))
    model(x)
    assert not same()
    same.but_for_running()
    model(x)
    assert same()
    model.on = True
    assert not same()


def test_a_network_that_changed_is_probed_again() -> None:
    """Another layer, or a flag: what was found out is of the network as it was."""
    x, ball = torch.rand(2, 4), ab.L2Ball(0.1)
    net = nn.Sequential(nn.Linear(4, 6), nn.Softplus(), nn.Linear(6, 3)).eval()
    flagged = Counts().eval()
    for model, change in (
        (net, lambda: net.__setitem__(1, nn.ReLU())),
        (flagged, lambda: setattr(flagged, "on", True)),
    ):
        saliency = ab.Saliency(model)
        for claim in ("first_order", "mean_value"):
            ab.bound(saliency, x, ball, claim=claim)
        change()
        for claim in ("first_order", "mean_value"):
            with pytest.raises(ab.KinkError, match="expected a smooth network, got relu"):
                ab.bound(saliency, x, ball, claim=claim)


def test_a_head_that_was_exchanged_has_its_own_classes() -> None:
    x = torch.rand(2, 4)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).eval()
    saliency = ab.Saliency(net)
    saliency(x, 1)
    net[2] = nn.Linear(6, 10)
    assert saliency(x, 9).isfinite().all()
    net.append(nn.Softmax(1))
    assert ab.Status.PROBABILITIES in ab.bound(saliency, x, ab.L2Ball(0.1)).status[0]
    assert math.isfinite(ab.bound(saliency, x, ab.L2Ball(0.1)).euclidean[0])


@pytest.mark.parametrize("how", ["module", "method", "part", "function"])
def test_compiled_networks_are_named(how: str) -> None:
    """They have no second derivatives, or zeros for them."""
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).eval()
    if how == "method":
        net.compile(backend="eager")
    if how == "part":
        net[1] = torch.compile(net[1], backend="eager")
    model = {
        "module": lambda: torch.compile(net, backend="eager"),
        "function": lambda: torch.compile(net.forward, backend="eager"),
    }.get(how, lambda: net)()
    with pytest.raises(ab.ModelError, match=r"twice, got one of torch.compile; pass what was"):
        ab.Saliency(model).linearize(torch.rand(2, 4))
