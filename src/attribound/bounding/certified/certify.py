"""Certify how far attributions can move: a bound that holds for every perturbation in the ball."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from rich.progress import track
from torch import Tensor

from attribound.attributions import Absolute, Attribution, Grouped
from attribound.balls import Ball, enclosure
from attribound.basics.errors import InputError, MemoryLimitError, ModelError
from attribound.basics.tensors import round_up
from attribound.bounding.certified.deviation import deviations
from attribound.bounding.certified.exact_path import SOURCE as EXACT_PATH
from attribound.bounding.certified.exact_path import certify_exact, is_exact, without_offsets
from attribound.bounding.certified.expanding import dense_bytes
from attribound.bounding.certified.network import Network, unroll
from attribound.bounding.certified.path import paths
from attribound.bounding.certified.rectified import Rectified
from attribound.bounding.certified.relu.bound import Spending, rectified_bound
from attribound.bounding.certified.relu.region import regions
from attribound.bounding.certified.sums import of_sums
from attribound.bounding.certified.units import in_units
from attribound.bounding.first_order import FirstOrder
from attribound.bounding.method import Method, Question
from attribound.bounding.restate import Reservations, restate
from attribound.networks.plain import refuse_another
from attribound.results import Bound, Claim, Moves, Status, register_claim
from attribound.values import NO_SETTING

TAYLOR, INTERVAL = "taylor model", "interval propagation"


@dataclass(frozen=True)
class Certified(Method):
    """How certificates are computed: in float64 on the CPU, one example after the other.

    Attributes:
        memory_limit: bytes for the dense derivatives of every layer; more is refused.
        widest: layers of more neurons get by with absolute values of weights, which is
            looser in deep networks and much quicker. Of smooth networks.
        nodes: parts of a ball that may be bounded for one example; 1 for no branching. Of
            ReLU networks, as the next.
        seconds: that go into a better bound of one example: after them no further part is begun,
            and what is searched for ends. The sweep through the network, once for each point of a
            path, without which there is no bound at all, is always made.
        progress: show a progress bar on the terminal.
    """

    memory_limit: int = 2**32
    widest: int = 8192
    nodes: int = 100
    seconds: float = 60.0
    progress: bool = field(default=False, compare=False, metadata=NO_SETTING)
    may_not_apply: ClassVar[bool] = True
    of_kinked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse limits that allow nothing."""
        given = (self.memory_limit, self.widest, self.nodes, self.seconds)
        limits = all(isinstance(each, (int, float)) for each in given)
        limits = limits and self.memory_limit > 0 and self.widest >= 0
        if not (limits and self.nodes >= 1 and self.seconds >= 0):
            raise InputError(
                "Certified",
                expected="memory_limit > 0, widest >= 0, nodes >= 1 and seconds >= 0",
                got=f"memory_limit={self.memory_limit!r}, widest={self.widest!r}, "
                f"nodes={self.nodes!r}, seconds={self.seconds!r}",
                remedy="use e.g. memory_limit=2**32, widest=8192, nodes=100, seconds=60",
            )

    def bound(self, question: Question) -> Bound:
        """The certificate; of a smooth network with all else from the first-order bound."""
        if isinstance(question.attribution, (Grouped, Absolute)):
            return of_sums(question, question.attribution, self)
        if is_exact(question.attribution):
            same = without_offsets(question.attribution, question.x)
            return self._of_integral(question) if same is None else self._of_same(question, same)
        asked = question.attribution, question.x, question.ball, question.target
        opened = unrolled_network(*asked[:3])
        if isinstance(opened, Rectified):
            effort = Spending(self.memory_limit, self.nodes, self.seconds, self.progress)
            return rectified_bound(question, opened, effort, CERTIFIED)
        found = certify(*asked, self, opened)
        first = question.by(FirstOrder)
        return restate(
            first,
            found.value,
            CERTIFIED,
            found.source,
            first.products,
            reservations=Reservations(Status.ITERATION_LIMIT, Status.VACUOUS),
        )

    def _of_same(self, question: Question, attribution: Attribution) -> Bound:
        """Of another attribution that has the same values."""
        return self.bound(replace(question, attribution=attribution, made={}, seconds={}))

    def _of_integral(self, question: Question) -> Bound:
        """Of exact integrated gradients, which need no smooth network."""
        asked = question.attribution, question.x, question.ball, question.target
        proved = certify_exact(*asked, self.memory_limit, self.progress)
        first = question.by(FirstOrder)
        outdated = Status.ITERATION_LIMIT | Status.ON_KINK | Status.JUMPS
        source = (EXACT_PATH,) * len(question.x)
        reservations = Reservations(outdated, Status.VACUOUS)
        return restate(
            first, proved.value, CERTIFIED, source, first.products, reservations=reservations
        )


CERTIFIED = register_claim(
    Claim(
        "certified",
        title="certified",
        order=50,
        promise="Proved for every perturbation in the ball, the rounding of the proof included. "
        "The rounding of a smooth network as it is evaluated is not covered, that of maps of ReLU "
        "networks is estimated.",
        method=Certified,
        rests_on=("first_order",),
        held="It is proved for every perturbation; the attacks agree.",
        exceeded="That must not happen: either the run was changed or attribound has an error; "
        "please report it.",
        proves=True,
        arithmetic="Smooth networks and exact integrals: the real function that the stored weights "
        "define; the rounding of the proof's own computation is covered, that of evaluating the "
        "network in floating point is not. Other maps of ReLU networks: masks as the network "
        "evaluates them; the rounding of the values of maps at x + delta is estimated, not proved.",
        moves=Moves.NESTED,
        colour="#009e73",
        symbol="star",
    )
)


@dataclass(frozen=True, eq=False)
class Proved:
    """Proved bounds: |g(x + delta) - g(x)|_2 <= value for every delta in the ball.

    Of the real function that the weights define; a network evaluated in float32
    differs from it by its own rounding.

    Attributes:
        value: per example, in the dtype of x, rounded up.
        source: "taylor model" or "interval propagation", whichever is smaller.
        taylor, interval: both values.
    """

    value: Tensor
    source: tuple[str, ...]
    taylor: Tensor
    interval: Tensor


def unrolled_network(attribution: Attribution, x: Tensor, ball: Ball) -> Network | Rectified:
    """The network behind an attribution, refused unless it is what runs."""
    if attribution.classifier is None:
        raise ModelError(
            "attribution",
            expected="Saliency, InputXGradient or IntegratedGradients",
            got=attribution.name,
            remedy="certify one of these, or use another bound",
        )
    [*paths(attribution, x)]  # refuses other attributions
    network = unroll(attribution.classifier.model, tuple(x.shape[1:]))
    points = torch.cat([x, *(ball.project(ball.sample(x, seed), x) + x for seed in range(2))])
    unrolled = network.logits(points.flatten(1).to("cpu", torch.float64))
    refuse_another(attribution.classifier, unrolled, points)
    return network


def certify(
    attribution: Attribution,
    x: Tensor,
    ball: Ball,
    target: Tensor,
    method: Certified,
    opened: Network | None = None,
) -> Proved:
    """Bound |g(x + delta) - g(x)|_2 over the ball, example by example, rigorously.

    Args:
        attribution: Saliency, InputXGradient or IntegratedGradients of a network of
            affine layers, softplus, tanh and sigmoid; others are refused.
        x: inputs ``(batch, *features)``.
        ball: any p-norm, in any units; a value range is not made use of.
        target: one label per example.
        method: limits.
        opened: the network, if it was unrolled already.
    """
    network = opened or unrolled_network(attribution, x, ball)
    assert isinstance(network, Network)
    examples = [*paths(attribution, x)]
    # One expansion after the other: the next is made before the last is forgotten.
    check_memory(network, x, method.memory_limit, min(2, max(len(each.nodes) for each in examples)))
    around = enclosure(ball, x)
    taylor, interval = [], []
    with torch.no_grad():
        every = [replace(each, epsilon=around.epsilon) for each in regions(ball, x)]
        rows = [*zip(examples, target.tolist(), every, strict=True)]
        for path, label, region in track(rows, "certifying", disable=not method.progress):
            opened, counted, plain = in_units(network, path, region)
            size = plain.epsilon * float(plain.scale.max()), plain.p
            both = deviations(opened, counted, label, size, method.widest)
            taylor.append(both[0])
            interval.append(both[1])
    bounds = (torch.tensor(values, dtype=torch.float64) for values in (taylor, interval))
    # Where the computation overflowed nothing is proved: infinity, which is true.
    finite = (values.nan_to_num(nan=math.inf, posinf=math.inf) for values in bounds)
    by_taylor, by_interval = (round_up(values, x) for values in finite)
    first = (by_taylor <= by_interval).tolist()
    return Proved(
        torch.minimum(by_taylor, by_interval),
        tuple(TAYLOR if better else INTERVAL for better in first),
        by_taylor,
        by_interval,
    )


def check_memory(network: Network, x: Tensor, limit: int, points: int = 1) -> None:
    """Refuse dense derivatives of all layers, at so many points at once, that would not fit."""
    size = x[0].numel()
    sizes = [number for stage in network.stages for number in stage.sizes]
    needed = points * dense_bytes(network, size) + 8 * size * (5 * max(sizes) + 9 * size)
    if needed > limit:
        raise MemoryLimitError(
            "certificate",
            expected=f"at most {limit / 2**30:.3g} GiB",
            got=f"{needed / 2**30:.3g} GiB for {size} features and {sum(network.widths)} neurons"
            + (f" at {points} points of a path" if points > 1 else ""),
            remedy="raise Certified(memory_limit=...), or use a bound that needs products only",
        )
