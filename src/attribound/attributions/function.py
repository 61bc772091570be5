"""Any differentiable function as an attribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from attribound.attributions.autograd import AutogradAttribution
from attribound.attributions.base import Model
from attribound.basics.errors import InputError
from attribound.networks.classifier import Classifier
from attribound.networks.inputs import Target, check_targets
from attribound.values import register


@register("function")
@dataclass(frozen=True, init=False)
class FunctionAttribution(AutogradAttribution):
    """``fn(x, target)``, differentiated by JVP and VJP; see :class:`AutogradAttribution`.

    Attributes:
        fn: maps ``(batch, *features)`` and labels ``(batch,)`` to ``(batch, *scores)``. Which
            network it explains is its own business. Without derivatives (NumPy inside) it serves
            claims that need values alone, such as ``ab.Smoothed()``.
        model: the classifier behind it, if there is one: for the default target and
            the label constraint, and to look for kinks.
    """

    fn: Callable[[Tensor, Tensor], Tensor] = field(kw_only=True)
    follows_model: ClassVar[bool] = False

    def __init__(
        self,
        fn: Callable[[Tensor, Tensor], Tensor],
        model: Model | None = None,
        *,
        label: str | None = None,
    ) -> None:
        own: dict[str, object] = {
            "fn": fn,
            "model": model,
            "label": label,
            "_probed": set(),
            "_bytes": {},
            "_jumping": {},
        }
        for name, value in own.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    @property
    def classifier(self) -> Classifier | None:  # type: ignore[override]
        """The model behind it, if known."""
        return self._known

    @property
    def _known(self) -> Classifier | None:
        return self.model if isinstance(self.model, Classifier) else None

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.label or str(getattr(self.fn, "__name__", type(self.fn).__name__))

    @property
    def called(self) -> str:
        """What errors call it."""
        return f"attribution function {self.name}"

    def map(self, x: Tensor, target: Tensor) -> Tensor:
        """What the function says; one without autograd inside, e.g. with NumPy, gets plain numbers.

        Such a function has no Jacobian, and where one is asked for, it is refused.
        """
        try:
            found: object = self.fn(x, target)
        except RuntimeError as error:
            if "requires grad" not in str(error):
                raise
            found = self.fn(x.detach(), target)
        if isinstance(found, np.ndarray):
            return torch.as_tensor(found, dtype=x.dtype, device=x.device)
        return found  # type: ignore[return-value]  # looked at by the caller

    def targets(self, x: Tensor, target: Target = None) -> Tensor:
        """The label of each example: as given, else the predicted class."""
        if self._known is not None:
            return self._known.targets(x, target)
        if target is None:
            raise InputError(
                "target",
                expected="labels, because the function comes without a classifier",
                got="None",
                remedy="pass target=..., or FunctionAttribution(fn, model=...)",
            )
        return check_targets(target, x, None)
