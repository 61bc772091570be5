"""Tiny ReLU networks with everything that could go wrong, and the truth about them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

import attribound as ab

GRID = 41  # points along a side of a square, 11 along one of a cube


@dataclass(frozen=True, eq=False)
class Case:
    """A network, one input, a ball around it."""

    net: nn.Sequential
    x: Tensor
    ball: ab.LpBall

    @property
    def deltas(self) -> Tensor:
        """A dense grid of the ball, in the dtype of x, its border included."""
        side = torch.linspace(-1, 1, GRID if self.x.shape[1] == 2 else 11, dtype=torch.float64)
        grid = torch.tensor([*itertools.product(side.tolist(), repeat=self.x.shape[1])])
        border = torch.nn.functional.normalize(grid + 1e-9, dim=1)
        every = torch.cat([grid, border]).to(self.x) * self.ball.epsilon
        return self.ball.project(every, self.x.expand(len(every), -1))

    def deviation(self, attribution: ab.Attribution, target: Tensor) -> float:
        """The largest on the grid, as a user would measure it."""
        points = self.x + self.deltas
        maps = attribution(points, target.expand(len(points)))
        return (maps - attribution(self.x, target)).norm(dim=1).max().item()


def case(seed: int, p: float | None = None) -> Case:
    """One of many kinds of network: ties, no biases, doubled rows, dead layers, large inputs."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 4))
    widths = [size, *rng.integers(2, 6, size=int(rng.integers(1, 5))).tolist(), 2]
    kind = str(rng.choice(["plain", "integers", "unbiased", "doubled", "dead", "far", "leaky"]))
    dtype = torch.float32 if rng.random() < 0.5 else torch.float64
    net = nn.Sequential()
    for number, (inside, outside) in enumerate(itertools.pairwise(widths)):
        layer = nn.Linear(inside, outside)
        with torch.no_grad():
            layer.weight.copy_(_numbers(rng, (outside, inside), kind) * 1.5)
            layer.bias.copy_(_numbers(rng, (outside,), kind) * 0.3)
            if kind == "unbiased":
                layer.bias.zero_()
            if kind == "doubled":
                layer.weight[-1] = -layer.weight[0]
                layer.bias[-1] = -layer.bias[0]
            if kind == "dead" and number == 1:
                layer.bias.sub_(2)
        net.append(layer)
        if number < len(widths) - 2:
            net.append(nn.LeakyReLU(0.2) if kind == "leaky" else nn.ReLU())
    x = torch.tensor(rng.random((1, size)))
    if kind == "integers":
        x = x.round()
    limited = bool(rng.random() < 0.4) and kind != "far"
    if limited and rng.random() < 0.5:
        x[0, 0] = 0.0
    if kind == "far":
        x = 1000 * x
    scale = None
    if rng.random() < 0.3:
        scale = torch.tensor(rng.random(size) + 0.2)
        scale[int(rng.integers(size))] = 0.0
    order = p or float(rng.choice([2.0, math.inf, 2.0, math.inf, 1.0, 3.0]))
    epsilon = float(rng.choice([0.01, 0.1, 0.4, 1.0])) * (1000 if kind == "far" else 1)
    ends = {"low": 0.0, "high": 1.0} if limited else {}
    ball = ab.LpBall(epsilon, order, scale=scale, **ends)
    return Case(net.to(dtype).eval(), x.to(dtype), ball)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Tensor:
    if kind == "integers":
        return torch.tensor(rng.integers(-2, 3, size=shape)).double()
    return torch.tensor(rng.standard_normal(shape))


def enumerated(network: object, x: Tensor, target: int, ball: ab.LpBall) -> float:
    """The largest deviation of the gradient in a cube: every region, by linear programs.

    A region counts if its inside is not empty.
    """
    low, high = (end[0].double().numpy() for end in ball.limits(x))
    start = network.gradients(x.double(), target)[0]  # type: ignore[attr-defined]
    worst = 0.0
    size = x.shape[1]
    stack = [(0, np.eye(size), x[0].double().numpy(), [], [])]
    while stack:
        layer, slope, value, rows, masks = stack.pop()
        stage = network.stages[layer]  # type: ignore[attr-defined]
        weight = stage.linear(torch.eye(stage.sizes[0]).double()).T.numpy()
        offset = stage.value(torch.zeros(1, stage.sizes[0]).double())[0].numpy()
        z, jacobian = weight @ value + offset, weight @ slope
        if layer == len(network.stages) - 1:  # type: ignore[attr-defined]
            worst = max(worst, float(np.linalg.norm(jacobian[target] - start.numpy())))
            continue
        for signs in itertools.product([-1, 1], repeat=len(z)):
            sign = np.array(signs)
            more = [
                *rows,
                *(np.append(-s * j, -s * v) for s, j, v in zip(sign, jacobian, z, strict=True)),
            ]
            if _inside(more, low, high):
                low_slope = network.slopes[layer]  # type: ignore[attr-defined]
                mask = np.where(sign > 0, 1.0, low_slope)
                stack.append((layer + 1, mask[:, None] * jacobian, mask * z, more, [*masks, mask]))
    return worst


def _inside(rows: list[np.ndarray], low: np.ndarray, high: np.ndarray) -> bool:
    """Whether -(s j) delta < s z holds for all rows somewhere, with room."""
    every = np.array(rows)
    matrix = np.hstack([every[:, :-1], np.ones((len(every), 1))])  # s j delta + s z >= room
    found = linprog(
        np.append(np.zeros(len(low)), -1.0),
        A_ub=matrix,
        b_ub=-every[:, -1],
        bounds=[*zip(low, high, strict=True), (None, 1.0)],
    )
    return bool(found.status == 0 and found.x[-1] > 1e-7)
