"""Which attributions an audit looks at, as settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import nn

from attribound.attributions import (
    Attribution,
    Classifier,
    InputXGradient,
    IntegratedGradients,
    Saliency,
    SmoothGrad,
)
from attribound.auditing.strict import Strict, parse
from attribound.basics.errors import InputError

Model = Classifier | nn.Module


@dataclass(frozen=True)
class _Named(Strict, ABC):
    """An attribution with a name for tables: ``label``, or its kind and unusual settings."""

    @property
    def name(self) -> str:
        """What it is called in rows and reports, e.g. ``ig:steps=50``."""
        if label := getattr(self, "label", None):
            return str(label)
        own = [field for field in fields(self) if field.name not in ("kind", "label")]
        unusual = [
            f"{field.name}={getattr(self, field.name)}"
            for field in own
            if getattr(self, field.name) != field.default
        ]
        kind = str(getattr(self, "kind"))  # noqa: B009 - a field of every subclass
        return f"{kind}:{','.join(unusual)}" if unusual else kind

    @property
    @abstractmethod
    def factory(self) -> Callable[[Model], Attribution]:
        """Makes the attribution of a model."""


@dataclass(frozen=True)
class SaliencySettings(_Named):
    """The gradient."""

    kind: Literal["saliency"] = "saliency"
    label: str | None = None

    @property
    def factory(self) -> Callable[[Model], Attribution]:
        """Makes the attribution of a model."""
        return Saliency


@dataclass(frozen=True)
class InputXGradientSettings(_Named):
    """Input times gradient."""

    kind: Literal["input_x_gradient"] = "input_x_gradient"
    label: str | None = None

    @property
    def factory(self) -> Callable[[Model], Attribution]:
        """Makes the attribution of a model."""
        return InputXGradient


@dataclass(frozen=True)
class IGSettings(_Named):
    """Integrated gradients, with the settings of :class:`IntegratedGradients`."""

    kind: Literal["ig"] = "ig"
    steps: int = 20
    baseline: float = 0.0
    quadrature: Literal["riemann_right", "midpoint", "gauss_legendre"] = "riemann_right"
    multiply_by_inputs: bool = True
    label: str | None = None

    @property
    def factory(self) -> Callable[[Model], Attribution]:
        """Makes the attribution of a model."""
        return lambda model: IntegratedGradients(
            model, self.steps, self.baseline, self.quadrature, self.multiply_by_inputs
        )


@dataclass(frozen=True)
class SmoothGradSettings(_Named):
    """SmoothGrad, with the settings of :class:`SmoothGrad`."""

    kind: Literal["smooth_grad"] = "smooth_grad"
    samples: int = 16
    sigma: float = 0.1
    seed: int = 0
    label: str | None = None

    @property
    def factory(self) -> Callable[[Model], Attribution]:
        """Makes the attribution of a model."""
        return lambda model: SmoothGrad(model, self.samples, self.sigma, self.seed)


AnyAttribution = SaliencySettings | InputXGradientSettings | IGSettings | SmoothGradSettings
#: As a field of other settings: told apart by ``kind``.
AttributionSettings = Annotated[AnyAttribution, Field(discriminator="kind")]

_KINDS: dict[str, type[AnyAttribution]] = {
    "saliency": SaliencySettings,
    "input_x_gradient": InputXGradientSettings,
    "ig": IGSettings,
    "smooth_grad": SmoothGradSettings,
}


def parse_attribution(text: str) -> AnyAttribution:
    """An attribution as it is written on a command line: ``ig``, or ``ig:steps=50,baseline=0.5``.

    >>> parse_attribution("ig:steps=50").name
    'ig:steps=50'
    """
    kind, _, options = text.strip().partition(":")
    kind = kind.replace("-", "_")
    if kind not in _KINDS:
        raise InputError(
            "attribution",
            expected=f"one of {', '.join(_KINDS)}",
            got=repr(text),
            remedy="options follow a colon, e.g. ig:steps=50,quadrature=midpoint",
        )
    document: dict[str, Any] = {"kind": kind}
    for option in filter(None, options.split(",")):
        key, _, value = option.partition("=")
        document[key.strip()] = value.strip()
    found: AnyAttribution = parse(_KINDS[kind], document, f"attribution {text}")
    return found
