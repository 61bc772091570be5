"""The first-order expansion of a network's gradient at one point, with its defects.

Every number is float64 and taken as it was computed; what rounding did to it is a
*defect* with a bound. With W the stages, f the activations, and s, c the computed
slopes and curvatures,

    z_0 = W_0 x + b_0,  z_{l+1} = W_{l+1} f(z_l) + b,  u_{l-1} = W_l^T (s_l u_l),  g = u_{-1},

J_l = dz_l/dx and U_l = du_l/dx are built with the computed s, c and u: as exact
products of those they obey the symmetry that the remainder needs, and the dense
matrices kept here are that close to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.rounding import up
from attribound.bounding.certified.network import Network


@dataclass(frozen=True, eq=False)
class Layer:
    """One activation: flat vectors ``(1, n)`` of its neurons, dense ``(d, n)`` derivatives.

    Attributes:
        z, slope, bend, adjoint: computed z, f'(z), f''(z) and u = df_target/df(z).
        z_defect, adjoint_defect: distance of the computed sum from the exact sum of the
            computed numbers before it.
        jacobian, hessian: J and U, transposed: row i is the derivative in direction i.
        jacobian_norm, hessian_norm: of each neuron, dual to the ball.
        jacobian_error, hessian_error: of each neuron, in the dual and the Euclidean norm.
    """

    z: Tensor
    slope: Tensor
    bend: Tensor
    adjoint: Tensor
    z_defect: Tensor
    adjoint_defect: Tensor
    jacobian: Tensor
    hessian: Tensor
    jacobian_norm: Tensor
    hessian_norm: Tensor
    jacobian_error: Tensor
    hessian_error: Tensor


@dataclass(frozen=True, eq=False)
class Expansion:
    """g and its Jacobian at a point, and all that the remainder is made of.

    Attributes:
        gradient: ``(1, d)``; ``gradient_defect`` as for the layers.
        jacobian: of g, transposed, ``(d, d)``.
        jacobian_norm, jacobian_error: of each component of g, as for the layers.
    """

    network: Network
    layers: tuple[Layer, ...]
    gradient: Tensor
    gradient_defect: Tensor
    jacobian: Tensor
    jacobian_norm: Tensor
    jacobian_error: Tensor


def dual_order(p: float) -> float:
    """The order q of the norm with |v . delta| <= |v|_q for all |delta|_p <= 1.

    For 1 < p < 2 the Euclidean norm, by inclusion in the l2 ball: powers above two
    would underflow.
    """
    if p == 1:
        return float("inf")
    return 2.0 if p <= 2 else 1 / (1 - 1 / p)


def error_stretch(p: float, size: int) -> float:
    """What turns dual norms into numbers that bound the Euclidean norm, too."""
    return math.sqrt(size) if p == 1 else 1.0


def row_norms(columns: Tensor, order: float) -> Tensor:
    """Norm of each column of ``(d, n)``, from above, ``(1, n)``."""
    length: Tensor = torch.linalg.vector_norm(columns, ord=order, dim=0, keepdim=True)
    return up(length)


def expand(network: Network, point: Tensor, spread: Tensor, target: int, p: float) -> Expansion:
    """Expand the gradient of the target's logit at ``point``, ``(1, d)``.

    ``spread`` bounds the size of the numbers that ``point`` was computed from, by a
    handful of roundings each: what it may be off by is a defect of the first layer.
    """
    stages, activations = network.stages, network.activations
    values, defects = [], []
    a, size = point, 4 * spread + point.abs()
    for stage, activation in zip(stages[:-1], activations, strict=True):
        values.append(stage.value(a))
        defects.append(up(stage.margin * stage.magnitude(size)))
        a = activation.derivative(0, values[-1])
        size = a.abs()
    pairs = [*zip(activations, values, strict=True)]
    slopes = [activation.derivative(1, z) for activation, z in pairs]
    bends = [activation.derivative(2, z) for activation, z in pairs]
    adjoints, adjoint_defects = _adjoints(network, slopes, target, stages[-1].sizes[-1])
    jacobians = _jacobians(network, slopes, point, p)
    return _assemble(
        network,
        (values, defects, slopes, bends, adjoints, adjoint_defects),
        jacobians,
        p,
    )


def _adjoints(
    network: Network, slopes: list[Tensor], target: int, classes: int
) -> tuple[list[Tensor], list[Tensor]]:
    """u_{-1} (which is g), u_0, ..., u_{L-1} and their defects."""
    v = torch.zeros(1, classes, dtype=torch.float64)
    v[0, target] = 1.0
    adjoints, defects = [], []
    for number in range(len(network.stages) - 1, -1, -1):
        stage = network.stages[number]
        adjoints.append(stage.adjoint(v))
        defects.append(up(stage.margin * stage.absolute().adjoint(v.abs())))
        if number:
            v = slopes[number - 1] * adjoints[-1]
    return adjoints[::-1], defects[::-1]


def _jacobians(
    network: Network, slopes: list[Tensor], point: Tensor, p: float
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """J_l with the norms and errors of its neurons, layer by layer."""
    size = point.shape[1]
    tangent = torch.eye(size, dtype=torch.float64)
    length, error = torch.ones_like(point), torch.zeros_like(point)
    stretch = error_stretch(p, size)
    result = []
    for number, stage in enumerate(network.stages[:-1]):
        matrix = stage.linear(tangent)
        error = up(stage.absolute().linear(error + stage.margin * stretch * length))
        norms = row_norms(matrix, dual_order(p))
        result.append((matrix, norms, error))
        slope = slopes[number]
        tangent, length, error = matrix * slope, norms * slope.abs(), error * slope.abs()
    return result


def _assemble(
    network: Network,
    vectors: tuple[list[Tensor], ...],
    jacobians: list[tuple[Tensor, Tensor, Tensor]],
    p: float,
) -> Expansion:
    """Go back through the network with U_l."""
    values, defects, slopes, bends, adjoints, adjoint_defects = vectors
    order = dual_order(p)
    size = network.stages[0].sizes[0]
    layers = []
    last = network.stages[-1].sizes[0]
    hessian = torch.zeros(size, last, dtype=torch.float64)
    hessian_error = torch.zeros(1, last, dtype=torch.float64)
    for number in range(len(values) - 1, -1, -1):
        stage, slope = network.stages[number], slopes[number]
        adjoint = adjoints[number + 1]
        jacobian, norms, error = jacobians[number]
        hessian_norm = row_norms(hessian, order)
        layers.append(
            Layer(
                values[number],
                slope,
                bends[number],
                adjoint,
                defects[number],
                adjoint_defects[number + 1],
                jacobian,
                hessian,
                norms,
                hessian_norm,
                error,
                hessian_error,
            )
        )
        turn = bends[number] * adjoint
        hessian = stage.adjoint(torch.addcmul(hessian * slope, jacobian, turn))
        lengths = (slope.abs() * hessian_norm + turn.abs() * norms) * error_stretch(p, size)
        errors = slope.abs() * hessian_error + turn.abs() * error
        # One more rounding of the factor, two of the sum: twice the margin covers them.
        hessian_error = up(stage.absolute().adjoint(errors + 2 * stage.margin * lengths))
    return Expansion(
        network,
        tuple(reversed(layers)),
        adjoints[0],
        adjoint_defects[0],
        hessian,
        row_norms(hessian, order),
        hessian_error,
    )
