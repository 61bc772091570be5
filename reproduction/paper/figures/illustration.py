"""Figure 1a: the bound in two dimensions, computed from a small trained network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

import attribound as ab
from reproduction.paper.figures.drawing import (
    BLUE,
    GREEN,
    GREY,
    PAGE,
    RED,
    blank,
    note,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = NDArray[np.float64]
_ANGLES = 361
_WHOLE = {"shrinkA": 0, "shrinkB": 0}  # from end to end
_RINGS = 12  # circles of rising radius whose images fill that of the disc


@dataclass(frozen=True, eq=False)
class Illustration:
    """A ball of two-dimensional inputs and what an attribution makes of it.

    Attributes:
        x: the input ``(2,)``; ``value`` is its attribution.
        epsilon: radius of the ball.
        circle: its boundary ``(n, 2)``; ``image`` is the boundary's image under g.
        disc: images of circles inside the ball ``(rings, n, 2)``.
        ellipse: the boundary's image under the linearisation of g.
        direction: the worst perturbation of the linearisation.
        worst: the attribution that an attack reached.
        bound, degrees: T_e and T_c, to first order.
        searched: the bound by the mean value theorem, which assumes no linearity.
    """

    x: Points
    value: Points
    epsilon: float
    circle: Points
    image: Points
    disc: Points
    ellipse: Points
    direction: Points
    worst: Points
    bound: float
    degrees: float
    searched: float

    @property
    def reached(self) -> float:
        """The deviation that the attack reached."""
        return float(np.linalg.norm(self.worst - self.value))


def illustrate(attribution: ab.Attribution, x: Tensor, epsilon: float) -> Illustration:
    """Compute the ball around ``x``, its image, its linearised image and the bounds.

    The bound is first-order: the image may leave it, and then the figure shows that.

    Args:
        attribution: of a model with two inputs.
        x: one input, shape ``(1, 2)``.
        epsilon: radius of the ball.

    Raises:
        InputError: ``x`` is not one point of the plane.
    """
    if x.shape != (1, 2):
        raise ab.InputError(
            "x", expected="shape (1, 2)", got=str(tuple(x.shape)), remedy="give one point"
        )
    ball = ab.L2Ball(epsilon)
    at_x = attribution.linearize(x)
    found = ab.bound(attribution, x, ball, at_x.target)
    attack = ab.attacks.AttributionAscent()(attribution, x, ball, at_x.target)
    searched = ab.bound(attribution, x, ball, at_x.target, claim="mean_value")
    turn = torch.linspace(0, 2 * math.pi, _ANGLES, dtype=x.dtype)
    circle = epsilon * torch.stack([turn.cos(), turn.sin()], dim=1)
    columns = torch.stack([at_x.jacobian.matvec(unit[None])[0] for unit in torch.eye(2).to(x)], 1)
    radii = torch.linspace(0, 1, _RINGS + 1, dtype=x.dtype)[1:]
    rings = torch.cat([x + radius * circle for radius in radii])
    labels = at_x.target.expand(len(rings))
    disc = attribution(rings, labels).view(_RINGS, _ANGLES, 2)
    return Illustration(
        x=_points(x[0]),
        value=_points(at_x.value[0]),
        epsilon=epsilon,
        circle=_points(x + circle),
        image=_points(disc[-1]),
        disc=_points(disc),
        ellipse=_points(at_x.value + circle @ columns.T),
        direction=_points(epsilon * found.direction[0]),
        worst=_points(attribution(x + attack.delta, at_x.target)[0]),
        bound=float(found.euclidean[0]),
        degrees=float(found.degrees[0]),
        searched=float(searched.euclidean[0]),
    )


def two_moons(points: int = 200, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two interleaved half circles with noise: inputs ``(points, 2)`` and labels."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(points) % 2
    turn = math.pi * torch.rand(points, generator=draw).double()
    side = 1 - 2 * labels.double()
    x = torch.stack([1.5 - 0.5 * side + side * turn.cos(), 1.25 - 0.25 * side + side * turn.sin()])
    return x.T + 0.1 * torch.randn(points, 2, generator=draw).double(), labels


def moons_network(seed: int = 0, steps: int = 120) -> nn.Module:
    """A softplus network trained on :func:`two_moons`; takes about a second."""
    x, labels = two_moons(seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ab.models.MLP(2, (16, 16), 2, lambda: nn.Softplus(beta=5)).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimiser.zero_grad()
        loss: Any = F.cross_entropy(model(x), labels)
        loss.backward()
        optimiser.step()
    return model.eval()


def standard(epsilon: float = 0.25) -> Illustration:
    """The illustration of the paper's figure: integrated gradients of a point of the moons."""
    attribution = ab.IntegratedGradients(moons_network())
    return illustrate(attribution, torch.tensor([[1.5, 0.6]], dtype=torch.float64), epsilon)


@styled
def draw_illustration(found: Illustration) -> Figure:
    """Inputs on the left, attributions on the right, with T_e, T_c and what an attack reached."""
    figure = blank(PAGE, 2.65)
    inputs, maps = figure.subplots(1, 2, width_ratios=(1, 1.6))
    _inputs(inputs, found)
    _attributions(maps, found)
    handles, labels = maps.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    factor = found.reached / found.bound
    verdict = "beyond" if factor > 1 else "within"
    note(
        figure,
        f"First-order bound of integrated gradients of a trained network, ε = {found.epsilon:g}: "
        f"the attack reached {factor:.2f} $T_e$, {verdict} the bound.",
    )
    return figure


def _inputs(axes: Axes, found: Illustration) -> None:
    axes.fill(*found.circle.T, color=BLUE, alpha=0.15, linewidth=0)
    axes.plot(*found.circle.T, color=BLUE)
    for sign in (1, -1):
        end = found.x + sign * found.direction
        axes.annotate(
            "", tuple(end), tuple(found.x), arrowprops={"arrowstyle": "->", "color": GREY, **_WHOLE}
        )
    names = {"$x$": found.x, r"$x + \varepsilon v$": found.x + found.direction}
    for name, at in names.items():
        axes.annotate(name, tuple(at), xytext=(5, -11), textcoords="offset points", color=GREY)
    axes.plot(*found.x, "o", color="black", markersize=4)
    axes.set_title("inputs")
    axes.set_xlabel("$x_1$")
    axes.set_ylabel("$x_2$")
    axes.set_aspect("equal")
    axes.margins(0.2)


def _attributions(axes: Axes, found: Illustration) -> None:
    turn = np.linspace(0, 2 * np.pi, _ANGLES)
    around = np.stack([np.cos(turn), np.sin(turn)])
    first, searched = (
        found.value[:, None] + radius * around for radius in (found.bound, found.searched)
    )
    for ring in found.disc:
        axes.fill(*ring.T, color=BLUE, alpha=0.06, linewidth=0)
    axes.plot(*found.image.T, color=BLUE, label="image of the ball, $g(x + \\delta)$")
    axes.plot(*found.ellipse.T, color=GREEN, linestyle="--", label="linearised, $g(x) + J\\delta$")
    axes.plot(*first, color=RED, linestyle="-.", label="$T_e$, first order")
    axes.plot(*searched, color=GREY, linewidth=0.8, label="mean value (searched)")
    if found.degrees < 180:
        _tangents(axes, found)
    axes.plot(*zip((0, 0), found.value, strict=True), color="black", linewidth=0.8)
    axes.plot(*found.value, "o", color="black", markersize=4, linestyle="", label="$g(x)$")
    axes.plot(*found.worst, "X", color="black", markersize=6, linestyle="", label="attack")
    axes.plot(0, 0, "+", color="black")
    axes.annotate("0", (0, 0), xytext=(4, 4), textcoords="offset points")
    axes.set_title("attributions")
    axes.set_xlabel("$g_1$")
    axes.set_ylabel("$g_2$")
    axes.set_aspect("equal")


def _tangents(axes: Axes, found: Illustration) -> None:
    """From the origin along the circle of T_e: directions at the angle T_c from g(x)."""
    length = math.sqrt(float(found.value @ found.value) - found.bound**2)
    middle = math.atan2(found.value[1], found.value[0])
    label = f"$T_c$ = {found.degrees:.1f}°"
    for sign in (1, -1):
        angle = middle + sign * math.radians(found.degrees)
        ends = [(0, 1.15 * length * each) for each in (math.cos(angle), math.sin(angle))]
        axes.plot(*ends, color=RED, linewidth=0.8, linestyle=":", label=label if sign > 0 else None)


def _points(values: Tensor) -> Points:
    found: Points = values.detach().cpu().double().numpy()
    return found
