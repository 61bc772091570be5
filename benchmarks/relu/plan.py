"""What is computed, with which effort, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import attribound as ab
from attribound.attacks import Ascend, Attack, AttributionAscent, KinkSteps, RandomPerturbation
from attribound.values import Record
from claims.plan import batches
from claims.running import refuse_unknown
from relu.networks import NETWORKS

ATTRIBUTIONS: Mapping[str, ab.Attribution] = {
    "saliency": ab.Saliency(),
    "ig-10": ab.IntegratedGradients(steps=10, quadrature="midpoint", label="ig-10"),
}
#: Smooth copies, by what the user asks for. What speaks of the network itself and needs no copy
#: is to be added here as another one.
COPIES: Mapping[str, float | None] = {"20": 20.0, "50": 50.0, "200": 200.0, "auto": None}
_FIRST_ORDER = ab.FirstOrder(
    norm=ab.NormSolver(iterations=3, roundings=2, solver=ab.SpectralSolver(tolerance=0.02))
)
_FEW_NODES = ab.IntegratedGradients(steps=3, quadrature="midpoint", label="ig-3")


def _mean_value(starts: int) -> ab.MeanValue:
    """A short search; its attack begins at other random points than those of the benchmark."""
    return ab.MeanValue(
        shells=2,
        rounds=1,
        attack=AttributionAscent(random_starts=starts),
        first_order=_FIRST_ORDER,
    )


@dataclass(frozen=True, eq=False)
class Effort:
    """Claims about a copy, attacks on it and on the network itself."""

    claims: tuple[ab.Method, ...]
    attacks: Mapping[str, Attack]
    own_attacks: Mapping[str, Attack]


def _own(starts: AttributionAscent, recipe: ab.Attribution | None = None) -> dict[str, Attack]:
    """Ascents through three copies, steps across kinks, random points."""
    through = starts.through(20, 50, 200)
    return {
        "through": replace(through, recipe=recipe),
        "kinks": KinkSteps(64),
        "noise": RandomPerturbation(seed=733).repeat(16),
    }


_ASCENTS: Mapping[str, Attack] = {
    "ascent": AttributionAscent(random_starts=2, seed=1000),
    "projected": AttributionAscent(step=Ascend(), seed=2000),
}
_CLIMB = AttributionAscent(random_starts=8, seed=631)
_MLP = Effort((_FIRST_ORDER, _mean_value(8), ab.Certified()), _ASCENTS, _own(_CLIMB))
_CNN = replace(_MLP, claims=(_FIRST_ORDER, _mean_value(2)))
#: Ten nodes of a ResNet are climbed through three.
_NARROW_IG = replace(_CNN, own_attacks=_own(_CLIMB, _FEW_NODES))
_FEWER_STEPS = replace(_CLIMB, steps=8)
_WIDE = Effort(
    (_FIRST_ORDER, _mean_value(0)),
    {"ascent": AttributionAscent(steps=8, random_starts=1, seed=1000)},
    _own(_FEWER_STEPS),
)
_WIDE_IG = replace(_WIDE, claims=(_FIRST_ORDER,), own_attacks=_own(_FEWER_STEPS, _FEW_NODES))
#: What can be afforded for networks of a size, saliency and integrated gradients.
_EFFORTS = {
    "mlp": (_MLP, _MLP),
    "cnn": (_CNN, _CNN),
    "narrow": (_CNN, _NARROW_IG),
    "wide": (_WIDE, _WIDE_IG),
}


def effort(network: str, attribution: str, role: str) -> Effort:
    """What is claimed and attacked with; to calibrate, only what is scaled is bounded."""
    saliency, integral = _EFFORTS[NETWORKS[network].size]
    made = saliency if attribution == "saliency" else integral
    return made if role == "test" else replace(made, claims=(_FIRST_ORDER,))


@dataclass(frozen=True)
class Settings(Record):
    """How much is computed; more keeps what is there.

    Attributes:
        mlp, cnn, narrow, wide: test examples in each cell, of networks of that size.
        calibrations: other examples in each cell of the MLPs, to calibrate on.
        seed: of the choice of examples.
        networks: which.
    """

    mlp: int = 8
    cnn: int = 2
    narrow: int = 1
    wide: int = 1
    calibrations: int = 40
    seed: int = 0
    networks: tuple[str, ...] = tuple(NETWORKS)

    def __post_init__(self) -> None:
        """Refuse a network that there is not: nothing would be measured."""
        refuse_unknown(self.networks, NETWORKS)


@dataclass(frozen=True)
class Block:
    """Examples of one cell that are computed together, with several copies of the network."""

    network: str
    attribution: str
    ball: ab.Ball
    role: str
    examples: tuple[int, ...]  # places among those of this role
    copies: tuple[str, ...] = tuple(COPIES)

    def __str__(self) -> str:
        examples = f"{self.examples[0]} to {self.examples[-1]}"
        cell = f"{self.network} {self.attribution} {self.ball.name} {self.ball.epsilon:g}"
        return f"{cell}, beta {', '.join(self.copies)}, {self.role} {examples}"


#: Examples of a cell that are computed together: a round.
BATCH = {"mlp": 8, "cnn": 2, "narrow": 1, "wide": 1}


def plan(settings: Settings) -> Iterator[Block]:
    """All blocks, so ordered that the first ones already make a report.

    Every cell gets its first round before any gets its second; the wide network waits for the
    second round of all others, calibration examples for the first. Networks whose files are
    missing are left out.
    """
    rounds: list[tuple[float, str, str, range]] = []
    for name in settings.networks:
        network = NETWORKS[name]
        if network.missing is not None:
            continue
        late = 1.5 if network.size == "wide" else 0.0
        tests = batches(getattr(settings, network.size), BATCH[network.size])
        rounds += [(number + late, name, "test", own) for number, own in enumerate(tests)]
        if network.size == "mlp":
            others = batches(settings.calibrations, 20)
            rounds += [(0.25, name, "calibration", own) for own in others]
    for _, name, role, examples in sorted(rounds, key=lambda each: each[0]):
        for ball in NETWORKS[name].balls:
            for kind in ATTRIBUTIONS:
                yield Block(name, kind, ball, role, tuple(examples))
