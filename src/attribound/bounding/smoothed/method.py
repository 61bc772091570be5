"""Certificates by noise: how far the averaged map of any network and attribution can turn."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, get_args

import torch
from rich.progress import Progress
from torch import Tensor

from attribound.attacks import AveragedAscent
from attribound.attributions import Attribution
from attribound.attributions.averaged import Averaged
from attribound.attributions.noise import Noise, NoiseKind, Normaliser
from attribound.balls import Ball, check_ball, enclosure
from attribound.basics.errors import InputError
from attribound.basics.numbers import is_count, is_finite
from attribound.basics.tensors import round_up
from attribound.bounding.guarantees import Explained, as_attribution
from attribound.bounding.method import Method, Question
from attribound.bounding.smoothed.averaging import ExampleAverage, average
from attribound.bounding.smoothed.drawing import Source
from attribound.bounding.smoothed.reach import Reach, reach
from attribound.bounding.smoothed.reasons import (
    Asked,
    AveragedReasons,
    Pair,
    example_reasons,
)
from attribound.bounding.smoothed.stating import reservations, stated
from attribound.bounding.smoothed.turning import Form, Turning
from attribound.networks.inputs import Target, check_inputs
from attribound.results import Bound, Claim, MaxEpsilon, Moves, averaged_title, join, register_claim
from attribound.values import NO_SETTING

_FEWEST = 50


@dataclass(frozen=True)
class Smoothed(Method):
    """How the noise-averaged map is drawn, and with which certainty it is bounded.

    For any network, with kinks or not, and any attribution, differentiable or not: only maps are
    evaluated, ``draws`` of them an example. The subject is the average h(x) of normalised maps
    over noise, not the map at x: ``similarity`` of the bound says how alike they are. Angles grow
    with epsilon / sigma: keep epsilon below sigma, and choose sigma by the similarity.

    Attributes:
        sigma: standard deviation of the noise, in the units of the ball (of the inputs, for a
            plain ball); features that the ball freezes have none.
        draws: maps of each example; 5,000 for images, 100,000 for tables. Fixed beforehand.
        alpha: probability that the numbers of an example are wrong, all radii together.
        normaliser: how maps are made bounded: ``unit`` (divided by their norm), ``sign``, or
            ``top`` (1 for the ``k`` largest absolute scores).
        k: for ``top``; None: a tenth of the scores.
        seed: of the draws, which are of each example's own.
        chunk: noisy inputs evaluated together.
        form: ``smaller`` of both proofs; ``variance`` or ``mean_only`` for one of them.
        noise: ``gaussian``, or ``uniform`` in a ball (mean-only form, weaker: for comparison).
        progress: show a progress bar on the terminal.
    """

    sigma: float = 0.25
    draws: int = 5000
    alpha: float = 1e-3
    normaliser: Normaliser = "unit"
    k: int | None = None
    seed: int = 0
    chunk: int = 40
    form: Form = "smaller"
    noise: NoiseKind = "gaussian"
    progress: bool = field(default=False, compare=False, metadata=NO_SETTING)
    may_not_apply: ClassVar[bool] = True
    needs_slopes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse noise that is none, and too few draws to say anything."""
        fine = is_finite(self.sigma) and self.sigma > 0
        fine = fine and is_finite(self.alpha) and 0 < self.alpha < 1
        fine = fine and is_count(self.draws) and self.draws >= _FEWEST
        seeded = self.seed == 0 or is_count(self.seed)
        if not (fine and is_count(self.chunk) and seeded):
            raise InputError(
                "Smoothed",
                expected=f"a finite sigma > 0, 0 < alpha < 1, whole numbers: draws >= {_FEWEST}, "
                "chunk >= 1, seed >= 0",
                got=f"sigma={self.sigma!r}, draws={self.draws!r}, alpha={self.alpha!r}, "
                f"chunk={self.chunk!r}, seed={self.seed!r}",
                remedy="use e.g. sigma=0.25, draws=5000, alpha=1e-3",
            )
        choices = {"normaliser": Normaliser, "form": Form, "noise": NoiseKind}
        for name, kind in choices.items():
            if getattr(self, name) not in get_args(kind):
                raise InputError(
                    name,
                    expected=f"one of {', '.join(get_args(kind))}",
                    got=repr(getattr(self, name)),
                    remedy="leave it out for the first",
                )

    def bound(self, question: Question) -> Bound:
        """The certificate of the averaged map."""
        return self._bounds([question])[0]

    def prepare(self, questions: Sequence[Question]) -> None:
        """One sample of draws for all balls in which features have the same units."""
        start = time.perf_counter()
        made = self._bounds(questions)
        seconds = (time.perf_counter() - start) / len(questions)
        for each, bound in zip(questions, made, strict=True):
            each.made[self], each.seconds[self] = bound, seconds

    def speaks_of(self, attribution: Attribution, x: Tensor, ball: Ball) -> Attribution:
        """The average of the maps, from a few draws."""
        scale = enclosure(ball, x).scale
        sigma: float | Tensor = self.sigma if scale is None else self.sigma * scale
        return Averaged(attribution, sigma, normaliser=self.normaliser, k=self.k, seed=self.seed)

    def opponent(self) -> AveragedAscent:
        """One that is judged on about as many draws as the certificate has."""
        return AveragedAscent(judging=max(200, self.draws // 3))

    def largest_radius(self, question: Question, kind: str, limit: float) -> MaxEpsilon:
        """The largest radius of such a ball at which the bound is within a limit.

        From one sample: the numbers of all radii hold together.
        """
        most = {"distance" if kind == "euclidean" else "degrees": limit}
        if kind == "cosine":
            most = {"degrees": math.degrees(math.acos(1 - limit))}
        radii, status, source = [], [], []
        for _, ((example, to),) in self.examples([question]):
            turning = self.turning(example, to)
            shift = turning.largest_shift(**most)
            radii.append(shift * question.ball.epsilon / to.shift)
            start = turning.moves(0.0)[0]
            status.append(reservations(question.attribution, example, start))
            source.append(turning.moves(min(shift, 1.0))[1] + to.remark)
        return MaxEpsilon(
            # Rounded down: at the next larger number nothing was proved.
            epsilon=-round_up(-torch.tensor(radii, dtype=torch.float64), question.x),
            ball=question.ball,
            threshold=f"{kind} <= {limit:g}",
            target=question.target,
            claim=SMOOTHED,
            source=tuple(source),
            status=tuple(status),
            subject=averaged_title(question.attribution.subject),
        )

    def reasons(  # noqa: PLR0913 - the names users type
        self,
        attribution: Explained,
        x: Tensor,
        ball: Ball,
        target: Target = None,
        *,
        signs: bool = True,
        pairs: Sequence[Pair] = (),
        regions: Sequence[Tensor] = (),
    ) -> AveragedReasons:
        """What of the averaged map stays at every perturbation in the ball; see its attributes.

        Signs, pairs and regions cost the draws once more. Single scores of large images are out
        of reach: they are small beside the range that a map may have.

        Args:
            attribution: g, a function ``fn(x, target)``, or an object of Captum's.
            x: inputs ``(batch, *features)``.
            ball: the perturbations.
            target: labels to explain; default: the predicted class.
            signs: ask for the sign of every score.
            pairs: places (i, j) in the flattened map: does |h_i| stay above |h_j|?
            regions: masks of the shape of one map: do its scores stay on their side of zero?
        """
        if self.noise != "gaussian":
            raise InputError(
                "noise",
                expected="gaussian, for what stays of a map",
                got=self.noise,
                remedy="leave it out: uniform noise is there to compare angles",
            )
        attribution, x = as_attribution(attribution), check_inputs(x)
        check_ball(ball, x)
        question = Question(attribution, x, ball, attribution.targets(x, target))
        asked = Asked(signs, pairs, regions)
        found, shape = [], torch.Size()
        for row, ((example, to),) in self.examples([question]):
            source, shape = self.source(question, row, to), example.shape
            normaliser = self.normaliser, self.k
            found.append(example_reasons(source, example, to, asked, normaliser))
            k = example.votes.k

        def maps(name: str) -> Tensor:
            return torch.stack([getattr(each, name) for each in found]).view(len(x), *shape)

        return AveragedReasons(
            ball=ball,
            k=k,
            inside=maps("inside"),
            outside=maps("outside"),
            overlap=torch.tensor([each.overlap for each in found]),
            signs=maps("signs") if signs else None,
            pairs=torch.tensor([each.pairs for each in found], dtype=torch.bool),
            regions=torch.tensor([each.regions for each in found], dtype=torch.bool),
            subject=averaged_title(attribution.subject),
            alpha=self.alpha,
        )

    def examples(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[slice, list[tuple[ExampleAverage, Reach]]]]:
        """Of each example what is known of its average, for the ball of each question.

        Balls in which features have the same units share one sample.
        """
        asked = questions[0]
        x = asked.x
        asked.attribution.check(x, smooth=False)
        rows = [slice(i, i + 1) for i in range(len(x))]
        reaches = [
            [reach(each.ball.rows(x, row), x[row], self.sigma) for each in questions]
            for row in rows
        ]
        units = [{to.sigma.tobytes(): to for to in each} for each in reaches]
        with Progress(disable=not self.progress) as bar:
            task = bar.add_task("averaging", total=self.draws * sum(map(len, units)))
            for row, several, every in zip(rows, units, reaches, strict=True):
                known = {}
                for key, to in several.items():
                    source = replace(
                        self.source(asked, row, to), advance=lambda n: bar.advance(task, n)
                    )
                    known[key] = average(source, self.draws, self.alpha, self.normaliser, self.k)
                yield row, [(known[to.sigma.tobytes()], to) for to in every]

    def source(self, question: Question, row: slice, to: Reach) -> Source:
        """Where the draws of one example come from."""
        return Source(
            question.attribution.rows(question.x, row),
            question.x[row],
            question.target[row],
            Noise(to.sigma, self.noise),
            self.seed,
            self.chunk,
        )

    def turning(self, example: ExampleAverage, to: Reach) -> Turning:
        """The bounds of one example at every radius."""
        return Turning(example.average, self.form, self.noise, int((to.sigma > 0).sum()))

    def _bounds(self, questions: Sequence[Question]) -> list[Bound]:
        found: list[list[Bound]] = [[] for _ in questions]
        for row, known in self.examples(questions):
            for made, question, (example, to) in zip(found, questions, known, strict=True):
                turning = self.turning(example, to)
                made.append(stated(question, row, example, turning, to))
        joined = (join(made) for made in found)
        return [replace(made, ball=each.ball) for made, each in zip(joined, questions, strict=True)]


SMOOTHED = register_claim(
    Claim(
        "smoothed",
        title="certified (smoothed)",
        order=45,
        promise="Proved, with probability 1 - alpha over the draws, for every perturbation in the "
        "ball: of the noise-averaged map of any network, not of the map at the input.",
        method=Smoothed,
        held="With probability 1 - alpha over our draws it is proved for every perturbation, of "
        "the averaged map; the attacks on that map agree.",
        exceeded="That must not happen more often than alpha says, unless the attack's own draws "
        "err: attack again with more draws, and please report it.",
        proves=True,
        arithmetic="The network as it is evaluated, in floating point; noise is added in float64 "
        "and rounded once.",
        moves=Moves.NESTED,
        colour="#56b4e9",
        symbol="hexagon",
    )
)
