"""What is computed, in which order, and where it is put."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import attribound as ab

RESULTS = Path(__file__).resolve().parents[1] / "results"
MLPS = ("mlp-at-b5", "mlp-at-b20", "mlp-nat-b5", "mlp-nat-b20")
CNNS = ("at", "nat", "at-b5", "nat-b5")
#: Only for the l-infinity problem at x, 3x32x32: the model of the zoo, None for an untrained one.
LARGE: dict[str, str | None] = {"conv-3072": None, "cifar10-at": "cifar10/at-resnet18"}
LARGE_IMAGES = 4
AGAIN = "again-"  # before the role of rows of the second pass of attacks
ATTRIBUTIONS = ("saliency", "ig-3")
BALLS = (
    ab.L2Ball(0.05),
    ab.LinfBall(0.01),
    ab.L2Ball(0.1),
    ab.LinfBall(0.05),
    ab.L2Ball(0.01),
)


@dataclass(frozen=True)
class Settings:
    """How much is computed; more keeps what is there.

    Attributes:
        tests, calibrations: images of each role in each cell.
        calibrations_cnn: calibration images on SmallCNN.
        batch: images in one part file.
        linear: images on which the l-infinity problem at x is compared with Theorem 2.
        certified: test images of each cell that are certified, on MLPs.
        certified_cnn: the same on SmallCNN, only saliency in the l2 ball of .01.
        seed: of the choice of images.
        networks: which.
        parts: folder of the part files.
    """

    tests: int = 100
    calibrations: int = 100
    calibrations_cnn: int = 40
    batch: int = 25
    linear: int = 16
    certified: int = 100
    certified_cnn: int = 4
    seed: int = 0
    networks: tuple[str, ...] = (*LARGE, *MLPS, *CNNS)
    parts: Path = RESULTS / "bounds"


@dataclass(frozen=True)
class Part:
    """A batch of images of one cell; ``ball`` None for the linear comparison.

    With ``again`` it is the second pass of attacks on the images of the part without.
    """

    network: str
    attribution: str
    ball: ab.LpBall | None
    role: str
    number: int
    images: range  # places among the images of this role
    again: bool = False

    @property
    def kind(self) -> str:
        """Role of its rows."""
        return f"{AGAIN}{self.role}" if self.again else self.role

    @property
    def cell(self) -> str:
        """Name of its folder."""
        ball = "linear" if self.ball is None else f"l{self.ball.p:g}-{self.ball.epsilon:g}"
        return f"{self.network}_{self.attribution}_{ball}"

    def path(self, folder: Path) -> Path:
        """Its file."""
        return folder / self.cell / f"{self.kind}-{self.number:03}.parquet"

    def certified(self, settings: Settings) -> int:
        """How many of its images are certified."""
        if self.role != "test":
            return 0
        most = settings.certified
        if self.network not in MLPS:
            small = self.attribution == "saliency" and self.ball == ab.L2Ball(0.01)
            most = settings.certified_cnn if small else 0
        return max(0, min(most - self.images.start, len(self.images)))

    def claims(self, settings: Settings) -> dict[str, int]:
        """Of how many of its images each claim is computed; calibration needs both its bases."""
        if self.ball is None or self.again:
            return {}
        count = len(self.images)
        wanted = {"first_order": count, "mean_value": count}
        return {**wanted, "certified": self.certified(settings)}


def batches(count: int, size: int) -> list[range]:
    """0 ... count - 1 in runs of ``size``."""
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def plan(settings: Settings) -> Iterator[Part]:
    """All parts, so ordered that the first ones already make a report.

    The large networks, then MLPs, then saliency and then integrated gradients on SmallCNN;
    within each of these every cell gets its first batch before any gets its second. The
    second pass of attacks, much cheaper than the bounds, follows each batch: an image
    counts when it has both.
    """
    large = tuple(LARGE)
    stages = [(large, ATTRIBUTIONS)]
    stages += [(MLPS, ATTRIBUTIONS), *((CNNS, (name,)) for name in ATTRIBUTIONS)]
    for members, attributions in stages:
        networks = [name for name in members if name in settings.networks]
        pairs = [(network, kind) for network in networks for kind in attributions]
        few = min(settings.linear, LARGE_IMAGES) if members == large else settings.linear
        for number, images in enumerate(batches(few, settings.batch)):
            for pair in pairs:
                yield Part(*pair, None, "linear", number, images)
        if members == large:
            continue
        few = settings.calibrations if members == MLPS else settings.calibrations_cnn
        roles = {"test": settings.tests, "calibration": few}
        runs = {role: batches(count, settings.batch) for role, count in roles.items()}
        for number in range(max(map(len, runs.values()))):
            for ball in BALLS:
                for pair in pairs:
                    for role, ranges in runs.items():
                        if number < len(ranges):
                            part = Part(*pair, ball, role, number, ranges[number])
                            yield part
                            yield replace(part, again=True)


def places(role: str, images: range) -> list[int]:
    """Places in :func:`choice`: tests at even, calibration at odd ones, so that never both.

    More images of either role leave those already chosen as they are.
    """
    return [2 * i + (role == "calibration") for i in images]
