"""Settings that networks share: the activation and the pooling as values, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import nn

from attribound.basics.errors import InputError
from attribound.basics.numbers import check_choice, is_finite

Pooling = Literal["average", "max"]


@dataclass(frozen=True)
class Activation:
    """Makes activation modules: softplus (1/beta) log(1 + exp(beta x)), or ReLU.

    Wherever a network takes a function that makes activations, this is one. The
    bounds need second derivatives, which softplus has and ReLU has not.

    Args:
        beta: sharpness of the softplus; None is ReLU, its limit.

    >>> Activation(beta=5.0)(), Activation.relu()()
    (Softplus(beta=5.0, threshold=20.0), ReLU())
    """

    beta: float | None = 20.0

    def __post_init__(self) -> None:
        if self.beta is not None and not (is_finite(self.beta) and self.beta > 0):
            raise InputError(
                "beta",
                expected="a finite number above 0, or None for ReLU",
                got=repr(self.beta),
                remedy="use e.g. Activation(beta=20)",
            )

    def __call__(self) -> nn.Module:
        """A new module."""
        return nn.ReLU() if self.beta is None else nn.Softplus(beta=float(self.beta))

    @classmethod
    def relu(cls) -> Activation:
        """ReLU: for training and for weights trained with it; smooth before bounding."""
        return cls(beta=None)

    def to_json(self) -> object:
        """``"relu"`` or ``{"softplus": beta}``."""
        return "relu" if self.beta is None else {"softplus": self.beta}

    @classmethod
    def from_json(cls, data: object) -> Activation:
        """What :meth:`to_json` gave."""
        if data == "relu":
            return cls.relu()
        if isinstance(data, Mapping) and set(data) == {"softplus"} and data["softplus"] is not None:
            return cls(beta=data["softplus"])
        raise InputError(
            "activation",
            expected='"relu" or {"softplus": beta}',
            got=repr(data),
            remedy='use e.g. {"softplus": 20}',
        )


#: The default everywhere.
SOFTPLUS = Activation()


def check_pooling(pooling: object) -> None:
    """Refuse what is not a pooling."""
    check_choice(
        "pooling", pooling, ("average", "max"), "use 'average': the bounds refuse max-pooling"
    )
