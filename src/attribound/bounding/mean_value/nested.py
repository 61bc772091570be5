"""The mean-value bound over nested balls.

g(x + delta) - g(x) is the mean over t in [0, 1] of J(x + t delta) delta, and x + t delta
lies in the ball of radius t epsilon. With S(r) = sup over |z| <= r of the largest
|J(x + z) delta'| over delta' in the whole ball, the deviation is at most the integral of
S(t epsilon), and so at most the mean of S(k epsilon / K), k = 1 ... K, because S grows
with r. K = 1 is the plain mean-value bound.

The theorem is exact; S is searched from below, so that the bound is as good as
the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from rich.progress import Progress
from torch import Tensor

from attribound.attacks import Attack, AttributionAscent
from attribound.attacks.objectives import Problem
from attribound.attributions import Attribution
from attribound.balls import Ball, LpBall
from attribound.basics.errors import InputError, KinkError, ModelError
from attribound.basics.numbers import check_whole
from attribound.bounding.first_order import FirstOrder, first_order
from attribound.bounding.mean_value.secants import secants
from attribound.bounding.mean_value.supremum import Climb
from attribound.bounding.method import Method, Question
from attribound.bounding.restate import restate
from attribound.networks.inputs import Target, check_inputs
from attribound.results import Attacked, Bound, Claim, Moves, Status, register_claim
from attribound.values import NO_SETTING

SOURCE = "mean value"
_ROUNDING = 1e-5  # the attack's deviation and ours are rounded differently


@dataclass(frozen=True)
class MeanValue(Method):
    """How the supremum is searched. More rounds, restarts or attacks can only raise the bound.

    Attributes:
        shells: K; more are tighter and cost more.
        rounds: ascent steps from each start.
        restarts: random starts in each shell, besides one from every attack.
        attack: run first to seed the search; None to use only attacks that are handed in.
        first_order: how operator norms are computed.
        seed: of the random starts.
        progress: show a progress bar on the terminal.
    """

    shells: int = 4
    rounds: int = 2
    restarts: int = 0
    attack: Attack | None = field(default_factory=lambda: AttributionAscent(random_starts=8))
    first_order: FirstOrder = field(default_factory=FirstOrder)
    seed: int = 0
    progress: bool = field(default=False, compare=False, metadata=NO_SETTING)
    uses_attacks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a search without shells or with negative effort."""
        for name, least in {"shells": 1, "rounds": 0, "restarts": 0}.items():
            remedy = "the defaults are 4 shells, 2 rounds, 0 restarts"
            check_whole(name, getattr(self, name), least, remedy)

    def bound(self, question: Question) -> Bound:
        """The bound over nested balls, not below the attacks that are known."""
        first = question.bound(self.first_order)
        known = Known(question.attacked, first, question.shared.get(self))
        asked = question.attribution, question.x, question.ball, question.target
        return mean_value_bound(*asked, self, known)

    def prepare(self, questions: Sequence[Question]) -> None:
        """Balls of one shape share the heights of their shells."""
        shapes: list[tuple[Ball, Heights]] = []
        for question in questions:
            ball = question.ball
            if isinstance(ball, LpBall) and not ball.limited:
                unit = ball.at_radius(1.0)
                same = next((heights for shape, heights in shapes if shape == unit), None)
                if same is None:
                    same = Heights(len(question.x))
                    shapes.append((unit, same))
                question.shared[self] = same


MEAN_VALUE = register_claim(
    Claim(
        "mean_value",
        title="mean-value (searched)",
        order=40,
        promise="Upper bound by the mean value theorem; the supremum inside it was searched, not "
        "proved.",
        method=MeanValue,
        rests_on=("first_order",),
        held="The theorem behind it is exact; that its search found the worst point is supported "
        "by these attacks, not proved.",
        exceeded="On these samples the search inside it missed the worst point: search longer.",
        moves=Moves.NESTED,
        colour="#0072b2",
        symbol="triangle-up",
    )
)


@dataclass(frozen=True, eq=False)
class Heights:
    """S(r) / epsilon of every example at the radii that were searched, by radius.

    A norm's balls are multiples of each other, so that this is the same in all of them.
    """

    batch: int
    by_radius: dict[str, Tensor] = field(default_factory=dict)

    def at(self, radius: float, rows: slice) -> Tensor | None:
        """That of some examples, if it was searched."""
        found = self.by_radius.get(f"{radius:.9g}")
        return None if found is None or found[rows].isnan().any() else found[rows]

    def keep(self, radius: float, rows: slice, heights: Tensor) -> None:
        """Enter what was found."""
        nothing = heights.new_full((self.batch,), torch.nan)
        self.by_radius.setdefault(f"{radius:.9g}", nothing)[rows] = heights


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of the same inputs and targets beforehand.

    Attributes:
        attacked: results of attacks in the same ball; the bound is not lower than any of them.
        first: the first-order bound in it, which saves computing it.
        heights: of shells of other balls of its norm, which need not be searched again.
    """

    attacked: Sequence[Attacked] = ()
    first: Bound | None = None
    heights: Heights | None = None


def mean_value_bound(
    attribution: Attribution,
    x: Tensor,
    ball: Ball,
    target: Target = None,
    method: MeanValue | None = None,
    known: Known | None = None,
) -> Bound:
    """Bound how far the attribution of each example can move, by the mean value theorem.

    No linearity is assumed. What can fail is the search for the supremum: the claim
    is "mean-value (searched)". It never lies below the first-order bound nor below an
    attack in ``known`` or the method's own.

    Args:
        attribution: g; its network must be smooth.
        x: inputs ``(batch, *features)``.
        ball: the perturbations.
        target: labels to explain; default: the predicted class.
        method: effort of the search.
        known: attacks and the first-order bound, if there are any already.
    """
    settings = method or MeanValue()
    x = check_inputs(x)
    labels = attribution.targets(x, target)
    known = known or Known()
    first = known.first or first_order(attribution, x, ball, labels, settings.first_order)
    attacked = [*known.attacked]
    if attribution.kinked:
        raise KinkError(
            "model",
            expected="a smooth network: where the attribution jumps there is no mean value theorem",
            got="one with kinks, let through by allow_kinks",
            remedy="use attribound.smooth and bound the smooth copy",
        )
    if any(Status.JUMPS in status for status in first.status):
        raise ModelError(
            "attribution",
            expected="one that does not jump: there is no mean value theorem across jumps",
            got="integrated gradients from a baseline at which some neuron is exactly zero",
            remedy="use another baseline, or the claim certified",
        )
    if settings.attack is not None:
        attacked.append(settings.attack(attribution, x, ball, labels))
    seeds = [_perturbations(found, x, ball) for found in attacked]
    values, spent = [], []
    with Progress(disable=not settings.progress) as bar:
        groups = [*attribution.groups(x)]
        task = bar.add_task("searching", total=len(groups) * settings.shells)
        for part, rows in groups:
            own = ball.rows(x, rows)
            problem = Problem(part, x[rows], labels[rows], part.revalue(x[rows], labels[rows]))
            segments = [
                _Segments(problem, [delta[rows] for delta in deltas], settings.shells)
                for deltas in seeds
            ]
            total, products = torch.zeros_like(first.euclidean[rows]), first.products[rows].clone()
            supremum = first.euclidean[rows]
            for k in range(settings.shells):
                shell = own.at_radius(own.epsilon * (k + 1) / settings.shells)
                heights = known.heights
                height = None if heights is None else heights.at(shell.epsilon, rows)
                if height is not None:
                    supremum = torch.maximum(supremum, own.epsilon * height)
                else:
                    starts = [segment.steepest(k) for segment in segments]
                    starts += [
                        shell.project(shell.sample(problem.x, settings.seed + i), problem.x)
                        for i in range(settings.restarts)
                    ]
                    climb = Climb(problem, own, shell, settings.first_order)
                    for start in starts:
                        found = climb(start, settings.rounds)
                        supremum = torch.maximum(supremum, found.value)
                        products += found.products
                for segment in segments:
                    supremum = torch.maximum(supremum, segment.floor(k) * (1 + _ROUNDING))
                if heights is not None:
                    heights.keep(shell.epsilon, rows, supremum / own.epsilon)
                total += supremum
                bar.advance(task)
            values.append(total / settings.shells)
            spent.append(products)
    value = torch.cat(values)
    return restate(
        first,
        value,
        MEAN_VALUE,
        (SOURCE,) * len(x),
        torch.cat(spent),
        adjusted=torch.maximum(value, first.adjusted),
    )


def _perturbations(found: Attacked, x: Tensor, ball: Ball) -> list[Tensor]:
    """The perturbation of every trial, checked to be one of these inputs in this ball."""
    trials = found.trials or (found,)
    for trial in trials:
        if trial.delta.shape != x.shape or not bool(ball.contains(trial.delta, x, 1e-4).all()):
            raise InputError(
                "attacked",
                expected=f"perturbations of shape {tuple(x.shape)} in {ball}",
                got=f"shape {tuple(trial.delta.shape)}, or outside the ball",
                remedy="attack the same inputs in the same ball",
            )
    return [trial.delta.to(x) for trial in trials]


class _Segments:
    """The segments from x to the perturbed inputs of one attack, cut at the shells."""

    def __init__(self, problem: Problem, deltas: list[Tensor], shells: int) -> None:
        self._deltas, self._shells = deltas, shells
        self._rise = torch.stack([secants(problem, delta, shells) for delta in deltas])

    def floor(self, k: int) -> Tensor:
        """What the supremum in shell ``k`` is at least."""
        return self._rise[:, k].amax(0)

    def steepest(self, k: int) -> Tensor:
        """Of each example the point on the sphere of shell ``k`` whose segment rises most there."""
        points = torch.stack(self._deltas) * ((k + 1) / self._shells)
        which = self._rise[:, k].argmax(0)
        return points[which, torch.arange(points.shape[1], device=points.device)]
