"""Attributions made of gradients on a path: where, with what weight, times what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions import Attribution, InputXGradient, IntegratedGradients, Saliency
from attribound.attributions.quadrature import rule
from attribound.basics.errors import ModelError

_KINDS = (Saliency, InputXGradient, IntegratedGradients)


@dataclass(frozen=True, eq=False)
class GradientPath:
    """``displacement * sum_k weights[k] gradient(base + nodes[k] (x - base))``, one example.

    Flat ``(1, d)`` in float64, of which x, base, nodes and weights are exact; no
    displacement means the factor one. When x moves by delta, the points move by
    ``nodes[k] delta`` and the displacement by delta.

    Attributes:
        factor: the displacement where it is given, in units of its own; a few roundings off.
    """

    x: Tensor
    base: Tensor
    nodes: tuple[float, ...]
    weights: tuple[float, ...]
    multiplied: bool
    factor: Tensor | None = None

    @property
    def displacement(self) -> Tensor:
        """X - base, or ones; rounded once."""
        if self.factor is not None:
            return self.factor
        return self.x - self.base if self.multiplied else torch.ones_like(self.x)

    @property
    def spread(self) -> Tensor:
        """Size of the numbers the points are computed from."""
        return self.x.abs() + self.base.abs()

    def points(self) -> Iterator[tuple[float, float, Tensor]]:
        """Node, weight and point, one after the other."""
        for node, weight in zip(self.nodes, self.weights, strict=True):
            yield node, weight, self.base + node * (self.x - self.base)

    def in_units(self, units: Tensor) -> GradientPath:
        """The same attribution of inputs that are counted in ``units (1, d)`` above 0.

        With w = x / units the gradient is units times as large and the displacement as much
        smaller: their product, the attribution, is the same.
        """
        x, base = self.x / units, self.base / units
        factor = self.displacement / units
        return GradientPath(x, base, self.nodes, self.weights, self.multiplied, factor)


def paths(attribution: Attribution, x: Tensor) -> Iterator[GradientPath]:
    """The path of each example; attributions that are not of this kind are refused.

    Nodes and weights are those that the attribution uses for ``x``, rounded to its dtype.
    """
    kind = next((k for k in _KINDS if isinstance(attribution, k)), None)
    if kind is None or type(attribution)._value is not kind._value:
        raise ModelError(
            "attribution",
            expected="Saliency, InputXGradient or IntegratedGradients",
            got=attribution.name,
            remedy="certify one of these, or use another bound",
        )
    base = torch.zeros_like(x)
    nodes = weights = torch.ones(1)
    multiplied = isinstance(attribution, InputXGradient)
    if isinstance(attribution, IntegratedGradients):
        base = attribution._baseline(x)
        rule_nodes, rule_weights = rule(attribution.quadrature, attribution.steps)
        nodes, weights = rule_nodes.to(x.dtype), rule_weights.to(x.dtype)
        multiplied = attribution.multiply_by_inputs
    flat, start = (t.flatten(1).to("cpu", torch.float64) for t in (x, base))
    for row in range(len(x)):
        yield GradientPath(
            flat[row : row + 1],
            start[row : row + 1],
            tuple(nodes.double().tolist()),
            tuple(weights.double().tolist()),
            multiplied,
        )
