"""Plans of the benchmarks.

Also: Exceeded mean-value bounds are found and searched again.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import attribound as ab
from attribound.models import MLP
from claim_rows import row, table
from claims import deeper
from claims.measure import places
from claims.plan import BALLS, CNNS, LARGE, MLPS, Block, Settings, batches, plan

SMALL = Settings(
    tests=30,
    calibrations=50,
    calibrations_cnn=20,
    batch=25,
    linear=6,
    certified=10,
    certified_cnn=4,
)


def test_batches_cover_everything_once() -> None:
    assert [list(run) for run in batches(5, 2)] == [[0, 1], [2, 3], [4]]
    assert batches(0, 2) == []


def test_tests_and_calibration_never_share_an_image() -> None:
    def placed(role: str, count: int) -> list[int]:
        return places(Block("at", "saliency", ab.L2Ball(0.1), role, tuple(range(count))))

    tests, calibration = placed("test", 40), placed("calibration", 40)
    assert not set(tests) & set(calibration)
    assert placed("test", 50)[:40] == tests, "more images keep those that were there"
    assert placed("linear", 40) == tests


def test_every_cell_gets_all_its_images_once() -> None:
    blocks = [*plan(SMALL)]
    for network in (*MLPS, *CNNS):
        for attribution in ("saliency", "ig-3"):
            for ball in BALLS:
                few = 50 if network in MLPS else 20
                for role, count in {"test": 30, "calibration": few}.items():
                    key = (network, attribution, ball, role)
                    runs = [
                        block.images
                        for block in blocks
                        if (block.network, block.attribution, block.ball, block.role) == key
                    ]
                    assert [i for run in runs for i in run] == list(range(count))
                    assert all(len(run) <= SMALL.batch for run in runs)


def test_the_early_blocks_are_the_useful_ones() -> None:
    blocks = [*plan(SMALL)]
    stages = [
        0
        if block.network in LARGE
        else 1
        if block.network in MLPS
        else 2 + (block.attribution != "saliency")
        for block in blocks
    ]
    assert stages == sorted(stages)
    numbers = [b.images[0] // SMALL.batch for b in blocks if b.network in MLPS and b.ball]
    assert numbers == sorted(numbers)
    assert {*numbers} == {0, 1}


def test_the_large_networks_are_only_compared_at_x() -> None:
    large = [block for block in plan(SMALL) if block.network in LARGE]
    assert [(block.role, len(block.images)) for block in large] == [("linear", 4)] * 2 * len(LARGE)
    assert all(block.ball is None for block in large)


def test_only_chosen_networks_are_planned() -> None:
    chosen = Settings(networks=("at", "mlp-at-b5"))
    assert {block.network for block in plan(chosen)} == {"at", "mlp-at-b5"}


def test_what_is_certified() -> None:
    counted: dict[tuple[object, ...], list[int]] = {}
    for block in plan(SMALL):
        if block.certified:
            assert block.role == "test"
            cell = (block.network, block.attribution, block.ball)
            counted.setdefault(cell, []).extend(block.images)
    mlps = {cell: images for cell, images in counted.items() if cell[0] in MLPS}
    assert {tuple(images) for images in mlps.values()} == {tuple(range(10))}
    assert len(mlps) == len(MLPS) * 2 * len(BALLS)
    assert {cell: images for cell, images in counted.items() if cell not in mlps} == {
        (network, "saliency", ab.L2Ball(0.01)): [0, 1, 2, 3] for network in CNNS
    }


def test_a_block_says_what_it_is() -> None:
    block = Block("at", "ig-3", ab.LinfBall(0.01), "test", (4, 5, 9))
    assert str(block) == "at ig-3 linf 0.01, test 4 to 9"
    assert str(Block("at", "ig-3", None, "linear", (0,))) == "at ig-3 at x, linear 0 to 0"


ROW = {
    "network": "mlp-at-b5",
    "attribution": "saliency",
    "ball": "l2",
    "epsilon": 0.05,
    "sample": 102,
    "attack": 1.0,
    "mean_value": 0.8,
}


def rows(first: float = 1.0, second: float = 0.5, bound: float | None = 0.8, role: str = "test"):
    return table([row(role, first, second, first_order=0.1, mean_value=bound, sample=102)])


@pytest.fixture
def net(monkeypatch) -> MLP:
    torch.manual_seed(0)
    net = MLP(6, (5,), 3, activation=lambda: torch.nn.Softplus(5.0)).eval().requires_grad_(False)
    x = torch.rand(4, 6)
    quick = ab.MeanValue(shells=1, rounds=1)
    efforts = {"defaults": quick, "more starts": replace(quick, restarts=1)}
    monkeypatch.setattr(deeper, "EFFORTS", efforts)
    monkeypatch.setattr(deeper.measure, "network", lambda name: net)
    monkeypatch.setattr(
        deeper.measure, "choice", lambda name, seed: (100 + torch.arange(4), x, net(x).argmax(1))
    )
    return net


def attained(found) -> list[float]:
    return [row["attack"] for row in deeper.exceeded(found)]


def test_only_tests_beyond_their_bound_are_exceeded() -> None:
    assert attained(rows()) == [1.0]
    assert attained(rows(bound=1.0)) == []
    assert attained(rows(role="calibration")) == []
    assert attained(rows(bound=None)) == []
    assert attained(rows(first=0.7, second=0.9)) == [0.9], "by the second pass"


def test_the_same_image_is_bounded_again(net) -> None:
    x = deeper.measure.choice("", 0)[1][2:3]
    bound = ab.bound(
        ab.Saliency(net), x, ab.L2Ball(0.05), net(x).argmax(1), deeper.EFFORTS["defaults"]
    ).euclidean.item()
    first, default, more = deeper.ratios(ROW, 0)
    assert first == pytest.approx(1 / 0.8)
    assert default == pytest.approx(1 / bound)
    assert more > 0


@pytest.mark.usefixtures("net")
def test_what_is_still_exceeded_is_counted() -> None:
    text = deeper.report(rows(), 0)  # an attack this far exceeds any bound of so small a network
    assert "Still exceeded, of 1: as measured 1, defaults 1, more starts 1" in text
    small = deeper.report(rows(first=1e-9, second=0.0, bound=1e-10), 0)
    assert "Still exceeded, of 1: as measured 1, defaults 0, more starts 0" in small
    assert "mlp-at-b5" in small
