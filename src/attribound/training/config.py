"""Everything a training is determined by, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from attribound.balls import Ball, LinfBall
from attribound.basics.errors import InputError
from attribound.basics.numbers import check_count, check_least, check_positive
from attribound.data import Layout
from attribound.training.objective import TrainingObjective
from attribound.training.objectives import CE
from attribound.training.optimiser import Adam, Optimiser
from attribound.training.schedule import Constant, Schedule
from attribound.values import Record


@dataclass(frozen=True)
class TrainingData(Record):
    """What to train on.

    Attributes:
        name: of a data set, or a path, as ``attribound.data.load`` takes it.
        part: ``"train"``, or ``"whole"`` for data that has no parts of its own.
        limit: use only that many examples of it, drawn with ``seed``.
        held_out: examples taken away from training to measure progress on; drawn with ``seed``.
        seed: of both draws; not that of the run, so that runs can be compared.
        size: scale images from files to this many pixels.
        label, id, drop: of a table, as of ``attribound.data.Layout``. Its columns are standardised
            by the network, and radii count standard deviations, categories frozen.
        root: the data directory.
    """

    name: str = "digits"
    part: Literal["train", "whole"] = "train"
    limit: int | None = None
    held_out: int = 200
    seed: int = 0
    size: int | None = None
    root: str | None = None
    label: str | None = None
    id: str | None = None
    drop: tuple[str, ...] = ()

    @property
    def layout(self) -> Layout | None:
        """Which columns of a table are what; None if nothing is said."""
        given = Layout(self.label, self.id, self.drop)
        return None if given == Layout() else given

    def __post_init__(self) -> None:
        """Refuse counts that are none."""
        if self.limit is not None:
            check_count("limit", self.limit, "leave it out to use all examples")
        check_least("held_out", self.held_out, 0)


@dataclass(frozen=True)
class WarmUp(Record):
    """Epsilon rises from zero in equal steps, for some epochs or a fraction of all steps."""

    epochs: float = 0.0
    fraction: float = 0.0

    def __post_init__(self) -> None:
        """Refuse two answers to one question."""
        check_least("epochs", self.epochs, 0)
        check_least("fraction", self.fraction, 0)
        if self.epochs and self.fraction:
            raise InputError(
                "WarmUp",
                expected="epochs or fraction",
                got="both",
                remedy="remove one of them",
            )

    def factor(self, step: int, steps: int, per_epoch: int) -> float:
        """What epsilon is multiplied with; above zero from the first step."""
        length = self.epochs * per_epoch + self.fraction * steps
        return min(1.0, (step + 1) / length) if length > 0 else 1.0


@dataclass(frozen=True)
class HeldOut(Record):
    """How progress is measured on the held-out examples.

    Attributes:
        every: epochs between measurements; the last epoch is always measured.
        attacked: examples for the accuracy under PGD; 0 for none.
        attack_steps: of PGD.
        explained: examples for the similarity of attributions under IFIA; 0 for none.
        explain_steps: of IFIA.
        explain_epsilon: radius for IFIA; default: that of the ball.
        ig_steps: of the integrated gradients compared.
        k: of the top-k intersection; default: a tenth of the features.
    """

    every: int = 1
    attacked: int = 100
    attack_steps: int = 10
    explained: int = 16
    explain_steps: int = 10
    explain_epsilon: float | None = None
    ig_steps: int = 5
    k: int | None = None

    def __post_init__(self) -> None:
        """Refuse counts that are none."""
        for name in ("every", "attack_steps", "explain_steps", "ig_steps"):
            check_count(name, getattr(self, name), "correct this setting")
        for name in ("attacked", "explained"):
            check_least(name, getattr(self, name), 0)
        if self.k is not None:
            check_count("k", self.k, "leave it out for a tenth of the features")


@dataclass(frozen=True)
class Cadence(Record):
    """How often a checkpoint is written: after steps, after seconds, or whichever is first."""

    steps: int | None = None
    seconds: float | None = 60.0

    def __post_init__(self) -> None:
        """Refuse a cadence of nothing."""
        if self.steps is not None:
            check_count("steps", self.steps, "leave it out to go by the clock")
        if self.seconds is not None:
            check_positive("seconds", self.seconds, "use e.g. 60")

    def due(self, steps: int, seconds: float) -> bool:
        """Whether that much since the last one is enough."""
        return (self.steps is not None and steps >= self.steps) or (
            self.seconds is not None and seconds >= self.seconds
        )


@dataclass(frozen=True)
class InitialWeights(Record):
    """Weights to begin with.

    Attributes:
        file: a safetensors file of ``attribound.models.save``.
        label: where it came from, e.g. ``zoo:fashion-mnist/ce``; recorded, not used.
    """

    file: str
    label: str | None = None


@dataclass(frozen=True)
class TrainingConfig(Record):
    """A training: the same config, data, devices and threads give the same weights, bit for bit.

    Attributes:
        method: what is minimised, e.g. ``TRADES(beta=3)``.
        data: what to train on.
        network: settings of ``attribound.models.config_from_json``; what is left out
            follows from the warm start, else from the shape and classes of the data.
        ball: what the attacker may do, e.g. ``LinfBall(8 / 255, low=0, high=1)``.
        epsilon_warm_up: how epsilon gets there.
        epochs, batch: how often each example is seen, and how many at once, on all devices.
        optimiser, schedule: how steps are made.
        clip_gradient: the Euclidean norm a gradient may have at most; none by default.
        augmentation: ``"crop-flip"`` shifts images by up to 4 pixels and mirrors half of them.
        warm_start: weights to begin with.
        seed: of the first weights, the order of examples, dropout, augmentation and attacks.
        evaluation: how progress is measured.
        checkpoint: how often the state is saved; does not change the result.
        log_every: steps between records in the log.
        threads: of PyTorch in each process.
        channels_last: memory layout of images; faster for some convolutions.
        precision: of weights and inputs.
    """

    method: TrainingObjective = field(default_factory=CE)
    data: TrainingData = field(default_factory=TrainingData)
    network: Mapping[str, object] = field(default_factory=dict)
    ball: Ball = field(default_factory=lambda: LinfBall(0.1, low=0.0, high=1.0))
    epsilon_warm_up: WarmUp = field(default_factory=WarmUp)
    epochs: int = 1
    batch: int = 128
    optimiser: Optimiser = field(default_factory=Adam)
    schedule: Schedule = field(default_factory=Constant)
    clip_gradient: float | None = None
    augmentation: Literal["none", "crop-flip"] = "none"
    warm_start: InitialWeights | None = None
    seed: int = 0
    evaluation: HeldOut = field(default_factory=HeldOut)
    checkpoint: Cadence = field(default_factory=Cadence)
    log_every: int = 50
    threads: int | None = None
    channels_last: bool = False
    precision: Literal["32-true", "64-true"] = "32-true"

    def __post_init__(self) -> None:
        """Refuse counts that are none."""
        for name in ("epochs", "batch", "log_every"):
            check_count(name, getattr(self, name), "correct this setting")
        if self.threads is not None:
            check_count("threads", self.threads, "leave it out for PyTorch's own choice")
        if self.clip_gradient is not None:
            check_positive("clip_gradient", self.clip_gradient, "leave it out for no clipping")
