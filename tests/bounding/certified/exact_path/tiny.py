"""Tiny ReLU networks with ties, zero biases, inputs on kinks; dense samples of their balls."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor, nn

import attribound as ab
from attribound.attributions.exact.piecewise import PiecewiseLinear, piecewise
from attribound.basics.rounding import UNIT
from attribound.bounding.certified.exact_path import items
from attribound.bounding.certified.exact_path.certificate import (
    IntegrationPath,
    PathCertificate,
    certify_path,
)
from attribound.bounding.certified.exact_path.flips import LayerFlips, flips
from attribound.bounding.certified.exact_path.items import NeuronItems
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


@cache
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


def opened(of: Case, rough: bool = False) -> tuple[Pieces, list[LayerFlips], list[NeuronItems]]:
    """What the certificate is made of: the pieces, what can switch there, items layer by layer."""
    network = piecewise(of.net, tuple(of.x.shape[1:]))
    network = reference.roughened(network) if rough else network
    found = pieces(network, torch.zeros_like(of.x), of.x, 0)
    moved = flips(found, of.ball)
    of_layers = enumerate(zip(found.layers, moved, strict=True))
    return found, moved, [items._of_layer(found, number, *each) for number, each in of_layers]


def agree(
    one: object,
    other: object,
    units: dict[str, float | Tensor],
    rtol: float = 1e-12,
    atol: float = 2.0**-300,
) -> None:
    """That attributes are the same, in other units."""
    for name, unit in units.items():
        close(getattr(one, name) * unit, getattr(other, name), rtol, atol)


def close(one: Tensor, other: Tensor, rtol: float = 1e-12, atol: float = 2.0**-300) -> None:
    torch.testing.assert_close(one, other.to(one), rtol=rtol, atol=atol)


def violated(of: Case, by: PathCertificate) -> bool:
    """Whether something that was proved is not so at one of the samples; NaN counts."""
    far = (of.moved - of.clean).norm(dim=1).max()
    spare = 1e-13 * (1 + of.clean.abs().max()) if of.clean.abs().max() > 1e-99 else 0.0
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


def slow_layers(network: PiecewiseLinear, found: Pieces, x: Tensor) -> list:
    """Of every cell and layer what :class:`LayerPieces` says, by dense products of that cell."""
    margin = found.margin
    w = [stage.linear(torch.eye(stage.sizes[0]).double()).T for stage in network.stages]
    b = [stage.value(torch.zeros(1, stage.sizes[0]).double())[0] for stage in network.stages]
    cells = []
    for start, end in zip(found.start, found.end, strict=True):
        a, masks = (start + end) / 2 * x[0], []
        for number, slope in enumerate(network.slopes):
            z = w[number] @ a + b[number]
            masks.append(torch.where(z > 0, 1.0, slope + 0 * z))
            a = masks[-1] * z
        rows, offset, each, chain = w[0], b[0], [], w[0].abs()
        points = torch.stack([start * x[0], end * x[0]])
        errors = 8 * UNIT * x.abs().expand_as(points)
        for number, mask in enumerate(masks):
            reach = []
            for before in range(number):
                along = w[before + 1]
                for middle in range(before + 1, number):
                    along = w[middle + 1] @ torch.diag(masks[middle]) @ along
                reach.append(along)
            adjoint, size = w[-1][0], w[-1][0].abs()
            for after in range(len(masks) - 1, number, -1):
                adjoint = (adjoint * masks[after]) @ w[after]
                size = size @ w[after].abs()
            at = {"on": mask == 1, "rows": rows, "reach": reach, "adjoint": adjoint}
            at |= {"low": offset + start * rows @ x[0], "high": offset + end * rows @ x[0]}
            errors = errors @ w[number].T.abs() + margin * (
                points.abs() @ w[number].T.abs() + b[number].abs()
            )
            at |= {"error": errors.amax(0), "row_error": margin * chain.sum(1)}
            each.append(SimpleNamespace(**at, adjoint_error=margin * size))
            points = mask * (points @ w[number].T + b[number])
            rows, chain = w[number + 1] @ (mask[:, None] * rows), w[number + 1].abs() @ chain
            offset = w[number + 1] @ (mask * offset) + b[number + 1]
        cells.append([*each, SimpleNamespace(gradient=rows[0], size=chain[0])])
    return cells


def slow_flips(of: Pieces, ball: PathBall) -> list[SimpleNamespace]:
    """What :func:`flips` says, cell by cell and neuron by neuron."""
    shapes = [layer.low.shape for layer in of.layers]
    names = ("up", "down", "most", "forward", "low", "high", "chain")
    out = [{name: torch.zeros(shape).double() for name in names} for shape in shapes]
    for own, layer in zip(out, of.layers, strict=True):
        ends = (layer.rows * ball.scale).norm(p=2 if ball.p == 2 else 1, dim=2) * ball.epsilon
        own["radius"] = ends + layer.row_error * ball.epsilon * ball.scale.max()
        own["can"] = torch.zeros(layer.low.shape, dtype=torch.bool)
    for k, (start, end) in enumerate(zip(of.start, of.end, strict=True)):
        for number, (own, layer) in enumerate(zip(out, of.layers, strict=True)):
            for j in range(layer.low.shape[1]):
                up = down = forward = 0.0
                for before in range(number):
                    reach, most = layer.reach[before][layer.run[k], j], out[before]["most"][k]
                    up += (reach.clamp_min(0) * most).sum()
                    down += ((-reach).clamp_min(0) * most).sum()
                if number:
                    last = out[number - 1]
                    forward = of.absolute[number][j] @ (last["forward"][k] + last["most"][k])
                spare = layer.error[k, j] + of.margin * forward
                far = own["radius"][layer.run[k], j]
                ends = (layer.low[k, j], start * far), (layer.high[k, j], end * far)
                beyond = max(z + r for z, r in ends) + up + spare
                if layer.on[k, j]:
                    beyond = down + spare - min(z - r for z, r in ends)
                own["up"][k, j], own["down"][k, j] = up + spare, down + spare
                own["forward"][k, j], own["can"][k, j] = forward, beyond >= 0
                own["most"][k, j] = (1 - of.slopes[number]) * max(beyond, 0.0)
        for number in range(len(out) - 1, -1, -1):
            own, layer = out[number], of.layers[number]
            raised, lowered, chain = 0.0, 0.0, 0.0
            for after in range(number + 1, len(out)):
                later, run = of.layers[after], of.layers[after].run[k]
                reach = later.reach[number][run]  # of neurons after by this one
                sign = (1 - of.slopes[after]) * torch.where(later.on[k], -1.0, 1.0)
                u = torch.stack([out[after]["low"][k], out[after]["high"][k]])
                w = torch.where(out[after]["can"][k], sign * u, 0.0)
                low, high = w.amin(0).clamp_max(0), w.amax(0).clamp_min(0)
                raised += torch.maximum(reach.T * low, reach.T * high).sum(1)
                lowered -= torch.minimum(reach.T * low, reach.T * high).sum(1)
                if after == number + 1:
                    size = torch.maximum(high, -low) + out[after]["chain"][k]
                    chain = size @ of.absolute[after]
            spare = layer.adjoint_error + of.margin * chain
            own["chain"][k] = chain
            own["low"][k] = layer.adjoint[k] - lowered - spare
            own["high"][k] = layer.adjoint[k] + raised + spare
    return [SimpleNamespace(**own) for own in out]


def slow_items(of: Pieces, number: int, flip: LayerFlips) -> SimpleNamespace:
    """What :class:`NeuronItems` says of one layer, in the order of runs and neurons."""
    layer, sums = of.layers[number], {}
    for k, j in flip.can.nonzero().tolist():
        start, end = of.start[k].item(), of.end[k].item()
        key = (layer.run[k].item(), j)
        u = [(1 - of.slopes[number]) * each[k, j].item() for each in (flip.low, flip.high)]
        edges = np.linspace(-1, 1, 49) * flip.radius[key].item()

        def positive(t: float, by: float, k=k, j=j, start=start, end=end) -> float:
            first, last = layer.low[k, j].item() + start * t, layer.high[k, j].item() + end * t
            first, last = first + by, last + by
            if min(first, last) > 0:
                return end - start
            if max(first, last) <= 0:
                return 0.0
            return (end - start) * max(first, last) / abs(first - last)

        for piece, (left, right) in enumerate(itertools.pairwise(edges)):
            most = positive(right, flip.up[k, j].item())
            least = positive(left, -flip.down[k, j].item())
            if layer.on[k, j]:
                least, most = -(end - start - least), -(end - start - most)
            products = [length * each for length in (least, most) for each in u]
            ends = sums.setdefault(key, np.zeros((48, 2)))
            ends[piece] += min(products), max(products)
    found = []
    for key in sorted(sums):
        low, high = sums[key].T
        edges = np.linspace(-1, 1, 49) * flip.radius[key].item()
        slope = np.polyfit((edges[1:] + edges[:-1]) / 2, (low + high) / 2, 1)[0]
        lines = np.stack([slope * edges[:-1], slope * edges[1:]])
        least, most = low - lines.max(0), high - lines.min(0)
        square = np.maximum(np.abs(least), np.abs(most)) ** 2
        nearest = np.minimum(np.abs(edges[:-1]), np.abs(edges[1:]))
        near = nearest <= 0.15 * edges[-1]
        at = {"slope": slope, "low": least.min(), "high": most.max(), "radius": edges[-1]}
        at |= {"least": low.min(), "most": high.max(), "constant": square[near].max()}
        beyond = (square - at["constant"])[~near] / nearest[~near] ** 2
        found.append({**at, "growth": max(beyond.max(), 0.0)})
    names = ("slope", "radius", "low", "high", "least", "most", "constant", "growth")
    return SimpleNamespace(**{n: torch.tensor([each[n] for each in found]) for n in names})


def in_size(of: object) -> Tensor:
    """Numbers of items in units of w, ``(7, N)``."""
    square = torch.stack([of.constant, of.growth * of.radius**2]).sqrt()
    return torch.stack([of.slope * of.radius, of.low, of.high, of.least, of.most, *square])
