"""What the expansion of a gradient leaves out: enclosures of every neuron over the ball.

For all zeta with |zeta|_p <= radius, at layer l and with the exact J, U of the
expansion (written for one neuron),

    z = z^ + J zeta + r,       |z - z^| <= reach
    f(z) = a^ + s (J zeta + r) + t
    f'(z) = s + c (J zeta + r) + t',    |f'(z) - s| <= slope_reach
    u = u^ + U zeta + rho,     |u - u^| <= adjoint_reach

    r_{l+1} = W (s r + t) + defect
    rho_{l-1} = W^T (s rho + u^ (c r + t') + (f'(z) - s)(u - u^)) + defect
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from attribound.basics.rounding import up
from attribound.bounding.certified.activation import SmoothActivation
from attribound.bounding.certified.composites import Composites
from attribound.bounding.certified.curvature import Curvature, curvature
from attribound.bounding.certified.expansion import Expansion, Layer


@dataclass(frozen=True, eq=False)
class Forward:
    """Of one layer: upper values of |r|, |z - z^|, |t|, |t'| and |f'(z) - s|, ``(1, n)``.

    ``value_error`` and ``slope_error`` are the parts of t and t' that do not shrink
    with the ball: evaluation and PyTorch's threshold; ``slope_drift`` and
    ``bend_drift`` are the parts proportional to |z - z^|.
    """

    remainder: Tensor
    reach: Tensor
    curvature: Curvature
    value_error: Tensor
    slope_error: Tensor
    slope_drift: Tensor
    bend_drift: Tensor
    value_rest: Tensor
    slope_rest: Tensor
    slope_reach: Tensor


@dataclass(frozen=True, eq=False)
class Backward:
    """Of one layer: upper values of |rho| and |u - u^|, ``(1, n)``."""

    remainder: Tensor
    reach: Tensor


@dataclass(frozen=True, eq=False)
class NeuronEnclosure:
    """Every layer, and the deviation of each component of g by intervals alone, ``(1, d)``."""

    radius: float
    forward: tuple[Forward, ...]
    backward: tuple[Backward, ...]
    gradient_reach: Tensor


def enclose(expansion: Expansion, radius: float, composites: Composites) -> NeuronEnclosure:
    """Enclose every neuron for perturbations of dual reach ``radius``; 0 for the point itself."""
    (found,) = enclose_all([expansion], [radius], [composites])
    return found


def enclose_all(
    expansions: Sequence[Expansion], radii: Sequence[float], composites: Sequence[Composites]
) -> list[NeuronEnclosure]:
    """The same for several expansions of one network: activations of all are bounded at once."""
    found = []
    every = zip(expansions, radii, composites, _forward(expansions, radii, composites), strict=True)
    for expansion, radius, own, forward in every:
        backward, gradient_reach = _backward(expansion, radius, own, forward)
        found.append(NeuronEnclosure(radius, tuple(forward), backward, gradient_reach))
    return found


def _forward(
    expansions: Sequence[Expansion], radii: Sequence[float], composites: Sequence[Composites]
) -> list[list[Forward]]:
    network = expansions[0].network
    results: list[list[Forward]] = [[] for _ in expansions]
    sources: list[list[Tensor]] = [[] for _ in expansions]
    chains = [torch.zeros((), dtype=torch.float64) for _ in expansions]
    for number, activation in enumerate(network.activations):
        stage = network.stages[number].absolute()
        layers = [expansion.layers[number] for expansion in expansions]
        widest: list[tuple[Tensor, Tensor]] = []
        for i, layer in enumerate(layers):
            remainder = layer.z_defect
            linear = radii[i] * (layer.jacobian_norm + layer.jacobian_error)
            reach = linear + remainder
            if number:
                before, below = results[i][-1], expansions[i].layers[number - 1]
                slope = below.slope.abs()
                crude = up(stage.linear(slope * before.remainder + before.value_rest))
                chains[i] = up(stage.linear(slope * chains[i] + sources[i][-1]))
                remainder = remainder + composites[i].forward(number, sources[i], crude, chains[i])
                moved = before.curvature.chord * before.reach + before.value_error
                reach = torch.minimum(linear + remainder, stage.linear(moved) + layer.z_defect)
            widest.append((up(remainder), up(reach)))
        for i, made in enumerate(_enclose_layers(layers, activation, widest)):
            results[i].append(made)
            sources[i].append(up(made.value_rest + layers[i].slope.abs() * layers[i].z_defect))
    return results


def _enclose_layers(
    layers: Sequence[Layer], activation: SmoothActivation, widest: Sequence[tuple[Tensor, Tensor]]
) -> Iterator[Forward]:
    """One layer of several expansions, each with |r| and |z - z^|."""
    z = torch.cat([layer.z for layer in layers])
    reach = torch.cat([each for _, each in widest])
    bounds = curvature(activation, z, reach)
    high = z + reach + 1e-9 * (z.abs() + reach)
    slope_drift, bend_drift = activation.error(1, z), activation.error(2, z)
    value_error = activation.error(0, z) + activation.switch(0, high)
    slope_error = slope_drift + activation.switch(1, high)
    value_rest = up(bounds.bow * reach**2 + slope_drift * reach + value_error)
    slope_rest = up(bounds.twist * reach**2 + bend_drift * reach + slope_error)
    slope_reach = up(torch.minimum(bounds.turn * reach, bounds.swing) + slope_error)
    for i, (remainder, own) in enumerate(widest):
        row = slice(i, i + 1)
        constants = (getattr(bounds, each.name)[row] for each in fields(bounds))
        yield Forward(
            remainder=remainder,
            reach=own,
            curvature=Curvature(*constants),
            value_error=value_error[row],
            slope_error=slope_error[row],
            slope_drift=slope_drift[row],
            bend_drift=bend_drift[row],
            value_rest=value_rest[row],
            slope_rest=slope_rest[row],
            slope_reach=slope_reach[row],
        )


def _backward(
    expansion: Expansion, radius: float, composites: Composites, forward: list[Forward]
) -> tuple[tuple[Backward, ...], Tensor]:
    result: list[Backward] = []
    sources: dict[int, Tensor] = {}
    crude = chain = interval = torch.zeros((), dtype=torch.float64)
    for number in range(len(forward) - 1, -1, -1):
        layer, ahead = expansion.layers[number], forward[number]
        remainder = reach = layer.adjoint_defect
        if result:
            remainder = remainder + composites.backward(number, sources, crude, chain)
            linear = radius * (layer.hessian_norm + layer.hessian_error)
            reach = torch.minimum(linear + remainder, interval + layer.adjoint_defect)
        remainder, reach = up(remainder), up(reach)
        result.append(Backward(remainder, reach))
        slope, adjoint = layer.slope.abs(), layer.adjoint.abs()
        stage = expansion.network.stages[number].absolute()
        fresh = (
            adjoint * (layer.bend.abs() * ahead.remainder + ahead.slope_rest)
            + ahead.slope_reach * reach
        )
        sources[number] = up(fresh + slope * layer.adjoint_defect)
        crude = up(stage.adjoint(up(slope * remainder + fresh)))
        chain = up(stage.adjoint(up(slope * chain + sources[number])))
        interval = up(
            stage.adjoint(up(ahead.slope_reach * adjoint + (slope + ahead.slope_reach) * reach))
        )
    # Without any activation g is constant and only its defect is left.
    return tuple(reversed(result)), up(interval + expansion.gradient_defect)
