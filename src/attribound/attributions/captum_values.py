"""Any of Captum's methods, by its values alone."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attribound.attributions.base import Linearization, ModelAttribution
from attribound.basics.errors import InputError, ModelError
from attribound.networks.probe import probe_determinism, probe_separation
from attribound.values import register

_AT_ONCE = 16


@register("captum")
@dataclass(frozen=True, eq=False)  # compared by settings, of which one is a dictionary
class CaptumValues(ModelAttribution):
    """What a method of Captum says; its Jacobian is not known, as its results must not be
    differentiated. Bounds that need values alone, such as ``ab.Smoothed()``, and attacks without
    slopes use it.

    Attributes:
        method: its name in ``captum.attr``, e.g. ``GuidedBackprop``.
        layer: the name of the layer of the model, for methods that take one.
        options: what is passed to ``attribute`` beside inputs and target.
    """

    method: str = field(default="GuidedBackprop", kw_only=True)
    layer: str | int | None = field(default=None, kw_only=True)
    options: dict[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        """A layer that is called by a number is a number, as it is read from a text."""
        super().__post_init__()
        if isinstance(self.layer, str) and self.layer.isdigit():
            object.__setattr__(self, "layer", int(self.layer))

    @property
    def name(self) -> str:
        """The method, with its layer."""
        return self.label or (self.method if self.layer is None else f"{self.method} {self.layer}")

    def check(self, x: Tensor, *, smooth: bool) -> None:
        """Refuse a method whose answers change, or depend on the examples beside."""
        if smooth:
            self._refuse_slopes()
        self.classifier.check(x, smooth=False)
        one = x[:1]
        target = self.classifier.targets(one)

        def value(points: Tensor) -> Tensor:
            return self._value(points.detach(), target.expand(len(points)))

        probe_determinism(f"attribution {self.name}", value, one)
        probe_separation(f"attribution {self.name}", value, one)

    def examples_at_once(self, x: Tensor) -> int:  # noqa: ARG002
        """A few."""
        return _AT_ONCE

    def explainer(self) -> Any:
        """The object of Captum."""
        network = self.classifier.model
        given: tuple[Any, ...] = (network,)
        if self.layer is not None:
            given = network, _layer(network, str(self.layer))
        return _method(self.method)(*given)

    def _value(self, x: Tensor, target: Tensor) -> Tensor:
        explainer = self.explainer()
        with torch.enable_grad():
            points = x.detach().clone().requires_grad_()
            found = explainer.attribute(points, target=target, **self.options)
        if not isinstance(found, Tensor) or found.dim() < 2 or len(found) != len(x):
            got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ModelError(
                f"attribution {self.name}",
                expected=f"scores of shape ({len(x)}, ...), some for each example",
                got=str(got),
                remedy="use a method that explains each example, and one tensor of inputs",
            )
        return found.detach()

    def _linearize(self, x: Tensor, target: Tensor) -> Linearization:  # noqa: ARG002
        self._refuse_slopes()
        raise AssertionError

    def _refuse_slopes(self) -> None:
        raise ModelError(
            f"attribution {self.name}",
            expected="one with derivatives",
            got="values of Captum, which must not be differentiated",
            remedy="use attribound.Smoothed(), which needs values alone, or write the method as a "
            "function for attribound.FunctionAttribution(fn)",
        )


def _method(name: str) -> Any:
    found = getattr(importlib.import_module("captum.attr"), name, None)
    if found is None:
        raise InputError(
            "method",
            expected="the name of one in captum.attr",
            got=repr(name),
            remedy="e.g. GuidedBackprop",
        )
    return found


def _layer(network: object, name: str) -> nn.Module:
    known: dict[str, nn.Module] = {}
    if isinstance(network, nn.Module):
        known = dict(network.named_modules())
    if name not in known:
        raise InputError(
            "layer",
            expected="the name of a layer of the model",
            got=repr(name),
            remedy="see model.named_modules()",
        )
    return known[name]
