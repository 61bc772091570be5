"""Tiny ReLU networks with ties, zero biases, inputs on kinks; dense samples of their balls."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import attribound as ab
from attribound.attributions.exact.piecewise import piecewise
from attribound.bounding.certified.exact_path.certificate import (
    IntegrationPath,
    PathCertificate,
    certify_path,
)
from attribound.bounding.certified.exact_path.flips import flips
from attribound.bounding.certified.exact_path.path_ball import PathBall
from attribound.bounding.certified.exact_path.pieces import Pieces, pieces
from bounding.certified import reference

_POINTS = 700


@dataclass(frozen=True, eq=False)
class Case:
    net: nn.Module
    x: Tensor
    ball: PathBall
    multiplied: bool
    moved: Tensor  # maps of perturbed inputs
    clean: Tensor
    points: Tensor  # these inputs


def case(seed: int, radius: float | None = None) -> Case:
    """Of 2 or 3 inputs and 1 to 4 hidden layers; biases normal, tiny or zero; some duplicated."""
    generator = torch.Generator().manual_seed(seed)
    size, depth = 2 + seed % 2, 1 + seed // 2 % 4
    bias = (1.0, 1e-3, 0.0, 1.0)[seed // 3 % 4]
    layers: list[nn.Module] = []
    before = size
    for _ in range(depth):
        layer = nn.Linear(before, 6).double()
        layer.weight.data = torch.randn(6, before, generator=generator, dtype=torch.float64)
        layer.bias.data = bias * torch.randn(6, generator=generator, dtype=torch.float64)
        if seed % 5 == 0:
            layer.weight.data[3:], layer.bias.data[3:] = layer.weight[:3], layer.bias[:3]
        layers += [layer, nn.LeakyReLU(0.2) if seed % 7 == 0 else nn.ReLU()]
        before = 6
    net = nn.Sequential(*layers, nn.Linear(6, 2).double()).eval()
    net[-1].weight.data = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    x = torch.randn(1, size, generator=generator, dtype=torch.float64)
    if seed % 6 == 0:  # on a kink
        row, offset = net[0].weight.data[0], net[0].bias.data[0]
        x = x - (row @ x[0] + offset) / (row @ row) * row
    if seed % 11 == 0:  # the baseline itself
        x = torch.zeros_like(x)
    p = 2.0 if seed % 4 < 2 else math.inf
    scale = torch.rand(size, generator=generator, dtype=torch.float64) + 0.5
    if seed % 3:
        scale = torch.ones_like(scale)
    if seed % 8 == 0:  # a frozen feature
        scale[0] = 0.0
    ball = PathBall(radius or (0.01, 0.1, 0.5, 1.5)[seed // 4 % 4], p, scale)
    multiplied = seed % 9 != 0
    ig = ab.IntegratedGradients(net, quadrature="exact", multiply_by_inputs=multiplied)
    unit = torch.randn(_POINTS, size, generator=generator, dtype=torch.float64)
    unit = unit / torch.linalg.vector_norm(unit, ord=p, dim=1, keepdim=True)
    share = torch.rand(_POINTS, 1, generator=generator, dtype=torch.float64)
    share[: _POINTS // 2] = 1.0
    moved = x + ball.epsilon * (1 - 1e-12) * ball.scale * share * unit
    target = torch.zeros(_POINTS, dtype=torch.long)
    return Case(
        net, x, ball, multiplied, ig.revalue(moved, target), ig.revalue(x, target[:1]), moved
    )


def certificate(of: Case, rough: bool = False) -> PathCertificate:
    """Of the case; on a machine with four digits, if so."""
    network = piecewise(of.net, tuple(of.x.shape[1:]))
    if rough:
        network = reference.roughened(network)
    path = IntegrationPath(torch.zeros_like(of.x), of.x, 0, of.multiplied)
    return certify_path(network, path, of.ball)


def violated(of: Case, by: PathCertificate) -> bool:
    """Whether something that was proved is not so at one of the samples; NaN counts."""
    far = (of.moved - of.clean).norm(dim=1).max()
    spare = 1e-13 * (1 + of.clean.abs().max())
    inside = bool((of.moved >= by.low - spare).all() and (of.moved <= by.high + spare).all())
    stays = True
    if by.top_that_stay(1):
        stays = bool((of.moved.abs().argmax(1) == of.clean[0].abs().argmax()).all())
    change = of.moved - of.clean
    size = change.shape[1]
    along = torch.cat([torch.eye(size), torch.eye(size) - torch.roll(torch.eye(size), 1, 0)])
    low, high = by.along(along.double())
    ends = change @ along.double().T
    between = bool((ends >= low - spare).all() and (ends <= high + spare).all())
    return not (far <= by.value + spare and inside and stays and between)


def wrongly_enclosed(of: Case, broken: Callable[[Pieces], Pieces] = lambda pieces: pieces) -> bool:
    """Whether a neuron switches that can't, or a derivative leaves its ends: four digits."""
    network = piecewise(of.net, tuple(of.x.shape[1:]))
    base = torch.zeros_like(of.x)
    found = broken(pieces(reference.roughened(network), base, of.x, 0))
    enclosed = flips(found, of.ball)
    for moved in (of.x, *of.points[::25].unsqueeze(1)):
        for share in (0.01, 0.5, 0.99):
            places = found.start + share * (found.end - found.start)
            values, a = [], places.unsqueeze(1) * moved
            for stage, slope in zip(network.stages[:-1], network.slopes, strict=True):
                values.append(stage.value(a))
                a = torch.where(values[-1] > 0, values[-1], slope * values[-1])
            u = network.stages[-1].adjoint(torch.eye(2).double()[:1].expand(len(a), -1))
            for number in range(len(values) - 1, -1, -1):
                layer, own = found.layers[number], enclosed[number]
                if bool((((values[number] > 0) != layer.on) & ~own.can).any()):
                    return True
                if bool(((u < own.low - 1e-13) | (u > own.high + 1e-13)).any()):
                    return True
                masked = torch.where(values[number] > 0, u, network.slopes[number] * u)
                u = network.stages[number].adjoint(masked)
    return False
