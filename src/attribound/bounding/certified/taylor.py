"""Bound the remainder of a gradient's expansion: a quadratic form and what is of higher order.

With sources t, t' and products entering at the layers, the remainder is exactly

    R = sum_l U_l^T t_l + J_l^T (u_l t'_l + (f'(z_l) - s_l)(u_l(x + zeta) - u_l)) + defects,

because a disturbance of f(z_l) reaches g through U_l^T (second derivatives are
symmetric) and one of f'(z_l) u_l through J_l^T. Its weighted Euclidean norm is bounded
neuron by neuron; with x = |J zeta|, y = |U zeta| and x y <= (kappa x^2 + y^2 / kappa) / 2,

    |R| <= zeta^T Q zeta + sum_j c_j x_j + constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, up
from attribound.bounding.certified.expansion import Expansion, Layer
from attribound.bounding.certified.quadratic import Form
from attribound.bounding.certified.remainder import Backward, Forward, NeuronEnclosure

#: Below this, derivatives of a neuron are as good as zero; a margin still counts them.
_SMALLEST = 1e-30


@dataclass(frozen=True, eq=False)
class TaylorRemainder:
    """|R| <= zeta^T quadratic zeta + (theta / 2) zeta^T cross zeta + linear / (2 theta) + constant.

    For every theta > 0: c x <= (theta c / X) x^2 / 2 + c X / (2 theta), ``cross`` the sum of
    (c_j / X_j) x_j^2 and ``linear`` of c_j X_j, with X_j the largest x_j in the ball.
    """

    quadratic: Form
    cross: Form
    linear: float
    constant: float


def weighted_norms(layer: Layer, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Upper values of the Euclidean norms of J_j and U_j, components times ``weights``."""
    largest = weights.max()
    column = weights.reshape(-1, 1)
    jacobian, hessian = (
        up(torch.linalg.vector_norm(matrix * column, dim=0, keepdim=True) + largest * error)
        for matrix, error in (
            (layer.jacobian, layer.jacobian_error),
            (layer.hessian, layer.hessian_error),
        )
    )
    return jacobian, hessian


def remainder(
    expansion: Expansion, enclosure: NeuronEnclosure, weights: Tensor, p: float
) -> TaylorRemainder:
    """Bound ``|weights * R(zeta)|_2`` for all |zeta|_p <= radius of the enclosure."""
    size = expansion.gradient.shape[1]
    quadratic, cross = Form.zero(size), Form.zero(size)
    linear = constant = 0.0
    for layer, forward, backward in zip(
        expansion.layers, enclosure.forward, enclosure.backward, strict=True
    ):
        norms = weighted_norms(layer, weights)
        terms = _terms(layer, forward, backward, norms, enclosure.radius)
        constant += terms.constant.item()
        if enclosure.radius == 0:
            continue
        rows = (
            (layer.jacobian, layer.jacobian_norm, terms.squares[0], terms.firsts[0]),
            (layer.hessian, layer.hessian_norm, terms.squares[1], terms.firsts[1]),
        )
        for matrix, lengths, square, first in rows:
            if matrix.any():
                top = (enclosure.radius * lengths).clamp_min(_SMALLEST)
                quadratic = quadratic + Form.of(matrix, up(square)[0], p)
                cross = cross + Form.of(matrix, up(first / top)[0], p)
                linear += up(first * top).sum().item()
    constant += up(weights * expansion.gradient_defect).norm().item()
    return TaylorRemainder(quadratic, cross, linear, constant)


def constant(expansion: Expansion, enclosure: NeuronEnclosure, weights: Tensor) -> float:
    """The constant of :func:`remainder`, which costs nothing but norms, without defects of g."""
    layers = zip(expansion.layers, enclosure.forward, enclosure.backward, strict=True)
    return sum(
        _terms(*each, weighted_norms(each[0], weights), enclosure.radius).constant.item()
        for each in layers
    )


@dataclass(frozen=True, eq=False)
class _Terms:
    squares: tuple[Tensor, Tensor]
    firsts: tuple[Tensor, Tensor]
    constant: Tensor


def _terms(
    layer: Layer,
    forward: Forward,
    backward: Backward,
    norms: tuple[Tensor, Tensor],
    radius: float,
) -> _Terms:
    """Coefficients of x^2 and y^2, of x and y, and the rest, of all neurons of a layer.

    ``norms`` may have several rows, each of which is another question.
    """
    through_jacobian, through_hessian = norms
    bounds = forward.curvature
    adjoint, slope = layer.adjoint.abs(), layer.slope.abs()
    r = up(forward.remainder + radius * layer.jacobian_error)
    rho = up(backward.remainder + radius * layer.hessian_error)
    value, change = through_hessian * bounds.bow, through_jacobian * adjoint * bounds.twist
    product = through_jacobian * bounds.turn
    # x y <= (kappa x^2 + y^2 / kappa) / 2, for any kappa > 0; where one is zero, x y is.
    both = (layer.hessian_norm > _SMALLEST) & (layer.jacobian_norm > _SMALLEST)
    kappa = torch.where(both, layer.hessian_norm / layer.jacobian_norm, torch.ones_like(r))
    mixed = torch.where(both, product, torch.zeros_like(product)) / 2
    unmixed = (product - 2 * mixed) * radius**2 * layer.hessian_norm * layer.jacobian_norm
    squares = (value + change + mixed * kappa, mixed / kappa)
    # |f(z) - tangent| <= bow (x + r)^2 + drift (x + r) + error, and so on.
    firsts = (
        2 * (value + change) * r
        + through_hessian * forward.slope_drift
        + through_jacobian * adjoint * forward.bend_drift
        + product * rho,
        product * r + through_jacobian * forward.slope_error,
    )
    rest = (
        unmixed
        + (value + change) * r**2
        + through_hessian * (forward.slope_drift * r + forward.value_error)
        + through_jacobian * adjoint * (forward.bend_drift * r + forward.slope_error)
        + (product * r + through_jacobian * forward.slope_error) * rho
        + (slope * through_hessian + (layer.bend * layer.adjoint).abs() * through_jacobian)
        * layer.z_defect
        + slope * through_jacobian * layer.adjoint_defect
    )
    return _Terms(squares, firsts, up(rest).sum(1))


def remainders_along(
    expansion: Expansion, enclosure: NeuronEnclosure, directions: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Bound ``|a . R(zeta)|`` for all zeta in the ball and each direction a, ``(n, d)``.

    By ``zeta^T Q zeta + rest``: the forms Q, ``(n, d, d)``, their masses and rests, ``(n,)``.
    """
    size, length = directions.abs(), directions.norm(dim=1, keepdim=True)
    count, width = directions.shape
    forms = torch.zeros(count, width, width, dtype=torch.float64)
    mass = torch.zeros(count, dtype=torch.float64)
    rest = size @ expansion.gradient_defect[0]
    for layer, forward, backward in zip(
        expansion.layers, enclosure.forward, enclosure.backward, strict=True
    ):
        pieces = (
            (layer.jacobian, layer.jacobian_error, layer.jacobian_norm),
            (layer.hessian, layer.hessian_error, layer.hessian_norm),
        )
        through_jacobian, through_hessian = (
            up((directions @ matrix).abs() + SLACK * (size @ matrix.abs()) + length * error)
            for matrix, error, _ in pieces
        )
        norms = through_jacobian, through_hessian
        terms = _terms(layer, forward, backward, norms, enclosure.radius)
        rest = rest + terms.constant
        rows = zip(pieces, terms.squares, terms.firsts, strict=True)
        for (matrix, _, lengths), square, first in rows:
            weights = up(square)
            forms = forms + (matrix * weights.unsqueeze(1)) @ matrix.T
            mass = up(mass + (weights * lengths**2).sum(1))
            rest = rest + up(first * (enclosure.radius * lengths)).sum(1)
    return forms, mass, up(rest)


def sources(
    expansion: Expansion, enclosure: NeuronEnclosure
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Matrices ``(d, n)`` through which sources reach R, their errors, the sources ``(1, n)``."""
    for layer, forward, backward in zip(
        expansion.layers, enclosure.forward, enclosure.backward, strict=True
    ):
        slope, turn = layer.slope.abs(), (layer.bend * layer.adjoint).abs()
        yield layer.hessian, layer.hessian_error, forward.value_rest + slope * layer.z_defect
        by_jacobian = (
            layer.adjoint.abs() * forward.slope_rest
            + forward.slope_reach * backward.reach
            + turn * layer.z_defect
            + slope * layer.adjoint_defect
        )
        yield layer.jacobian, layer.jacobian_error, by_jacobian


def componentwise(expansion: Expansion, enclosure: NeuronEnclosure) -> Tensor:
    """Upper values of each component of |R|, ``(1, d)``."""
    total = expansion.gradient_defect
    for matrix, error, source in sources(expansion, enclosure):
        total = total + up(source @ matrix.abs().T + (source * error).sum())
    return up(total)
