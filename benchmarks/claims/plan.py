"""What is computed, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import attribound as ab
from attribound.values import Record
from claims.running import refuse_unknown

MLPS = ("mlp-at-b5", "mlp-at-b20", "mlp-nat-b5", "mlp-nat-b20")
CNNS = ("at", "nat", "at-b5", "nat-b5")
#: Only for the l-infinity problem at x, 3x32x32: the model of the zoo, None for an untrained one.
LARGE: dict[str, str | None] = {"conv-3072": None, "cifar10-at": "cifar10/at-resnet18"}
LARGE_IMAGES = 4
NETWORKS = (*LARGE, *MLPS, *CNNS)
ATTRIBUTIONS = ("saliency", "ig-3")
BALLS = (ab.L2Ball(0.05), ab.LinfBall(0.01), ab.L2Ball(0.1), ab.LinfBall(0.05), ab.L2Ball(0.01))


@dataclass(frozen=True)
class Settings(Record):
    """How much is computed; more keeps what is there.

    Attributes:
        tests, calibrations: images of each role in each cell.
        calibrations_cnn: calibration images on SmallCNN.
        batch: most images in one block.
        linear: images on which the l-infinity problem at x is compared with Theorem 2.
        certified: test images of each cell that are certified, on MLPs.
        certified_cnn: the same on SmallCNN, only saliency in the l2 ball of .01.
        seed: of the choice of images.
        networks: which.
    """

    tests: int = 100
    calibrations: int = 100
    calibrations_cnn: int = 40
    batch: int = 25
    linear: int = 16
    certified: int = 100
    certified_cnn: int = 4
    seed: int = 0
    networks: tuple[str, ...] = NETWORKS

    def __post_init__(self) -> None:
        """Refuse a network that there is not: nothing would be measured."""
        refuse_unknown(self.networks, NETWORKS)


@dataclass(frozen=True)
class Block:
    """Images of one cell that are computed together; ``ball`` None for the comparison at x."""

    network: str
    attribution: str
    ball: ab.Ball | None
    role: str
    images: tuple[int, ...]  # places among the images of this role
    certified: bool = False

    def __str__(self) -> str:
        ball = "at x" if self.ball is None else f"{self.ball.name} {self.ball.epsilon:g}"
        images = f"{self.images[0]} to {self.images[-1]}"
        return f"{self.network} {self.attribution} {ball}, {self.role} {images}"


def certified(settings: Settings, network: str, attribution: str, ball: ab.Ball) -> int:
    """How many of the first test images of a cell are certified."""
    if network in MLPS:
        return settings.certified
    small = (attribution, ball) == ("saliency", ab.L2Ball(0.01))
    return settings.certified_cnn if small else 0


def batches(count: int, size: int) -> list[range]:
    """0 ... count - 1 in runs of ``size``."""
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def plan(settings: Settings) -> Iterator[Block]:
    """All blocks, so ordered that the first ones already make a report.

    The large networks, then MLPs, then saliency and then integrated gradients on SmallCNN;
    within each of these every cell gets its first batch before any gets its second.
    """
    large = tuple(LARGE)
    stages = [(large, ATTRIBUTIONS), (MLPS, ATTRIBUTIONS), *((CNNS, (a,)) for a in ATTRIBUTIONS)]
    for members, attributions in stages:
        networks = [name for name in members if name in settings.networks]
        pairs = [(network, kind) for network in networks for kind in attributions]
        few = min(settings.linear, LARGE_IMAGES) if members == large else settings.linear
        for images in batches(few, settings.batch):
            yield from (Block(*pair, None, "linear", tuple(images)) for pair in pairs)
        if members == large:
            continue
        few = settings.calibrations if members == MLPS else settings.calibrations_cnn
        roles = {"test": settings.tests, "calibration": few}
        runs = {role: batches(count, settings.batch) for role, count in roles.items()}
        for number in range(max(map(len, runs.values()))):
            for ball in BALLS:
                for pair in pairs:
                    for role, own in runs.items():
                        first = certified(settings, *pair, ball) if role == "test" else 0
                        for images in own[number : number + 1]:
                            yield from _divided(Block(*pair, ball, role, tuple(images)), first)


def _divided(block: Block, first: int) -> Iterator[Block]:
    """Images below ``first`` are certified, those above in a block of their own."""
    cell = (block.network, block.attribution, block.ball, block.role)
    for proved in (True, False):
        images = tuple(image for image in block.images if (image < first) == proved)
        if images:
            yield Block(*cell, images, proved)
