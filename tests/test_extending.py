"""Everything that can be added is added in one file outside of the package, and goes everywhere.

The files are in ``tests/pieces``: an attribution whose map has another shape than the input, a
ball with frozen features, an attack, a claim. None of them touches a file of the package.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import attribound as ab
from attribound.auditing import cells
from attribound.cli.app import app
from attribound.values import registry

TESTS = Path(__file__).parent
FROZEN = 2
PIECES = {"cam": "GradCAM", "frozen": "FrozenBall", "shake": "Shake", "doubled": "Doubled"}
#: The user's classes while these tests run.
OWN: Any = SimpleNamespace()


@pytest.fixture(scope="module", autouse=True)
def pieces() -> Iterator[None]:
    """Import the user's modules, and leave no trace of what they register to other tests."""
    known = importlib.import_module("attribound.results.claims")
    registries = (known._claims, registry._named, registry._names)
    before = [dict(each) for each in registries]
    for module, name in PIECES.items():
        setattr(OWN, name, getattr(importlib.import_module(f"pieces.{module}"), name))
    yield
    for each, kept in zip(registries, before, strict=True):
        each.clear()
        each.update(kept)
    for module in [name for name in sys.modules if name.partition(".")[0] == "pieces"]:
        del sys.modules[module]


def network() -> nn.Module:
    """A small smooth convolutional network for images of 8 x 8."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2, padding=1),
        nn.Softplus(beta=5),
        nn.Flatten(),
        nn.Linear(48, 4),
    ).eval()


@pytest.fixture(scope="module")
def examples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(6, 1, 8, 8, generator=generator), torch.arange(6) % 4


@pytest.fixture(scope="module")
def cam() -> ab.Attribution:
    return OWN.GradCAM(network())


class TestInTheLibrary:
    def test_a_map_of_another_shape_is_bounded(
        self, cam: ab.Attribution, examples: tuple[Tensor, Tensor]
    ) -> None:
        x, _ = examples
        assert cam(x).shape == (6, 4, 4)
        made = ab.bounds(
            cam, x, ab.L2Ball(0.05), claims=["first_order", "adjusted", "mean_value", OWN.Doubled()]
        )
        assert list(made) == ["first_order", "adjusted", "mean_value", "doubled"]
        found = ab.attacks.AttributionAscent()(cam, x, ab.L2Ball(0.05))
        assert (made["mean_value"].euclidean >= found.deviation).all()
        assert (found.deviation > 0.5 * made["first_order"].euclidean).all()
        torch.testing.assert_close(made["doubled"].euclidean, 2 * made["first_order"].euclidean)

    def test_first_order_is_the_norm_of_the_dense_jacobian(
        self, examples: tuple[Tensor, Tensor]
    ) -> None:
        x = examples[0][:2].double()
        cam = OWN.GradCAM(network().double())
        target = cam.targets(x)
        rows = torch.autograd.functional.jacobian(lambda z: cam.map(z, target), x)
        for i in range(2):
            matrix = rows[i, :, :, i].reshape(16, 64)
            (sigma,) = torch.linalg.svdvals(matrix)[:1]
            bound = ab.bound(cam, x[i : i + 1], ab.L2Ball(0.1))
            assert 1 <= bound.euclidean.item() / (0.1 * sigma.item()) <= 1.011

    def test_frozen_features_stay(
        self, cam: ab.Attribution, examples: tuple[Tensor, Tensor]
    ) -> None:
        x, _ = examples
        ball = OWN.FrozenBall(0.05, rows_frozen=FROZEN)
        bound = ab.bound(cam, x, ball)
        plain = ab.bound(cam, x, ab.L2Ball(0.05))
        assert (bound.euclidean < 0.999 * plain.euclidean).all()
        for attack in (
            ab.attacks.AttributionAscent(),
            ab.attacks.PGD(),
            ab.attacks.IFIA(steps=5),
            OWN.Shake(),
        ):
            found = attack(cam, x, ball)
            assert (found.delta[:, :, :FROZEN] == 0).all()
            assert found.delta.flatten(1).norm(dim=1).max() <= 0.05 * (1 + 1e-6)

    def test_the_attack(self, cam: ab.Attribution, examples: tuple[Tensor, Tensor]) -> None:
        x, _ = examples
        few, many = (OWN.Shake(draws)(cam, x, ab.L2Ball(0.1)) for draws in (2, 20))
        assert (many.deviation >= few.deviation).all()
        assert (many.deviation > few.deviation).any()

    @pytest.mark.parametrize(
        ("name", "settings"),
        [
            ("GradCAM", {"layers": 3}),
            ("FrozenBall", {"epsilon": 0.3, "rows_frozen": 5}),
            ("Shake", {"draws": 7}),
            ("Doubled", {"factor": 3.0}),
        ],
    )
    def test_a_value_of_ones_own_is_its_own_setting(self, name: str, settings: Any) -> None:
        value = getattr(OWN, name)(**settings)
        kind = type(value).__mro__[1]
        stored = json.loads(json.dumps(ab.to_spec(value)))
        assert ab.from_spec(stored, kind) == value
        assert ab.from_spec(ab.to_text(value), kind) == value


@pytest.fixture(scope="module")
def run(examples: tuple[Tensor, Tensor], tmp_path_factory: pytest.TempPathFactory) -> ab.Run:
    """Everything at once, in two processes."""
    return ab.audit(
        network(),
        examples,
        out=tmp_path_factory.mktemp("runs") / "own",
        attributions=[OWN.GradCAM()],
        balls=[OWN.FrozenBall(0.05, rows_frozen=FROZEN), ab.L2Ball(0.05)],
        claims=["first_order", "mean_value", OWN.Doubled()],
        attacks={"shake": OWN.Shake(), "ascent": ab.attacks.AttributionAscent(steps=4)},
        batch=3,
        maps="all",
        engine=ab.LocalEngine(workers=2),
    )


class TestInAnAudit:
    def test_every_piece_is_in_the_rows(self, run: ab.Run) -> None:
        frozen, plain = sorted(cells(run.rows()), key=lambda cell: cell.ball != "l2, 2 rows frozen")
        assert frozen.attribution == "pieces.cam:GradCAM"
        assert frozen.claims == ("first_order", "doubled", "mean_value")
        assert set(frozen.attacks) == {"shake", "ascent"}
        assert (frozen.bound("first_order") < plain.bound("first_order")).all()
        np.testing.assert_allclose(frozen.bound("doubled"), 2 * frozen.bound("first_order"))
        assert not any(frozen.errors)
        assert frozen.numbers("features").tolist() == [64] * 6
        assert frozen.numbers("scores").tolist() == [16] * 6

    def test_frozen_features_are_frozen_in_what_is_stored(self, run: ab.Run) -> None:
        stored = [row for row in run.maps().to_pylist() if row["ball"] == "l2, 2 rows frozen"]
        assert len(stored) == 6
        for row in stored:
            delta = np.array(row["delta"]).reshape(row["shape"])
            assert (delta[:, :FROZEN] == 0).all()
            assert (delta[:, FROZEN:] != 0).any()
            assert row["map_shape"] == [4, 4]

    def test_the_bound_is_that_of_the_library(
        self, run: ab.Run, cam: ab.Attribution, examples: tuple[Tensor, Tensor]
    ) -> None:
        (frozen,) = (cell for cell in cells(run.rows()) if cell.ball != "l2")
        bound = ab.bound(cam, examples[0], OWN.FrozenBall(0.05, rows_frozen=FROZEN))
        np.testing.assert_allclose(frozen.bound("first_order"), bound.euclidean.numpy(), rtol=1e-4)

    def test_the_code_is_part_of_the_run(self, run: ab.Run) -> None:
        own = ("cam:GradCAM", "doubled:Doubled", "frozen:FrozenBall", "shake:Shake")
        assert set(run.manifest.inputs) == {f"pieces.{name}" for name in own}

    def test_the_page_has_all_of_it(self, run: ab.Run) -> None:
        page = ab.write_html(run).read_text(encoding="utf-8")
        for text in ("doubled (a margin)", "pieces.cam:GradCAM", "l2, 2 rows frozen", "#000000"):
            assert text in page, text
        assert "The thumb was" in page
        assert "First-order times a factor: a rule of thumb." in page


class TestOnTheCommandLine:
    @pytest.fixture(autouse=True)
    def _folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where a user's own modules are."""
        monkeypatch.chdir(TESTS)

    def test_by_the_names_of_their_modules(self, tmp_path: Path) -> None:
        result = CliRunner().invoke(
            app,
            [
                "audit",
                "--model=test_extending:network",
                f"--data={_images(tmp_path)}",
                "--attribution=pieces.cam:GradCAM:layers=2",
                "--ball=pieces.frozen:FrozenBall:rows_frozen=2",
                "--eps=0.05,0.1",
                "--attack=pieces.shake:Shake:draws=3",
                "--claim=first_order",
                "--claim=pieces.doubled:Doubled:factor=3",
                f"--out={tmp_path / 'run'}",
                "--workers=1",
                "--set=attacks.0.seed=4",
            ],
        )
        assert result.exit_code == 0, result.stderr
        assert "doubled (a margin)" in result.stdout
        found = ab.Run.open(tmp_path / "run")
        cell, _ = cells(found.rows())
        assert cell.attacks == ("shake",)
        np.testing.assert_allclose(cell.bound("doubled"), 3 * cell.bound("first_order"))
        assert found.manifest.settings["attacks"]["shake"]["seed"] == 4
        page = CliRunner().invoke(app, ["report", str(tmp_path / "run")])
        assert page.exit_code == 0, page.stderr

    @pytest.mark.parametrize(
        ("option", "named"),
        [
            ("--attribution=pieces.cam:Nothing", "pieces.cam:Nothing"),
            ("--attribution=pieces.cam:GradCAM:depth=3", "depth"),
            ("--ball=pieces.shake:Shake", "a class derived from Ball"),
            ("--attack=pieces.nowhere:Shake", "pieces.nowhere"),
            ("--claim=pieces.doubled:Doubled:factor=much", "factor"),
        ],
    )
    def test_mistakes_are_one_line(self, option: str, named: str, tmp_path: Path) -> None:
        result = CliRunner().invoke(
            app,
            [
                "audit",
                "--model=test_extending:network",
                "--data=digits",
                option,
                f"--out={tmp_path / 'run'}",
            ],
        )
        assert result.exit_code == 2
        assert named in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def _images(folder: Path) -> Path:
    """Images of 8 x 8 as a file that audits read."""
    generator = np.random.default_rng(0)
    path = folder / "images.npz"
    np.savez(
        path,
        x=generator.random((4, 1, 8, 8), dtype=np.float32),
        y=np.arange(4, dtype=np.int64),
    )
    return path
