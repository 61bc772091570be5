"""Certificates by noise in audits: their subject is the averaged map, and nothing else's."""

from __future__ import annotations

from pathlib import Path

import captum.attr
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import attribound as ab
from attribound.auditing import cells
from attribound.auditing.bounded import mark_exceeded
from attribound.auditing.protocols import Protocol
from attribound.auditing.settings import AuditSettings, complete
from attribound.auditing.summary import opposing, summarise
from attribound.report import console
from attribound.results import AVERAGED

DRAWS = 200


def text_of(run: ab.Run) -> str:
    """The table of a run, cells unwrapped."""
    table = console(run)
    return " ".join(str(cell) for column in table.columns for cell in column.cells)


def network() -> nn.Module:
    """A small convolutional network with ReLU for images of 6 x 6."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3)
    ).eval()


NET = network()


def by_numpy(x: Tensor, target: Tensor) -> np.ndarray:
    """No gradients: a correlation with a fixed pattern, and a kink."""
    return np.abs(x.numpy()) * np.linspace(-1, 1, 36, dtype=np.float32).reshape(6, 6)


def grad_cam(x: Tensor, target: Tensor) -> Tensor:
    """Plain, of the size of the layer."""
    features = NET[:2](x)
    score = NET[2:](features).gather(1, target[:, None]).sum()
    (slope,) = torch.autograd.grad(score, features)
    return (slope.mean((2, 3), keepdim=True) * features).sum(1).relu()


def upsampled(x: Tensor, target: Tensor) -> Tensor:
    """The same, of the size of the image."""
    return nn.functional.interpolate(grad_cam(x, target)[:, None], size=6, mode="bilinear")


@pytest.fixture(scope="module")
def examples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(4, 1, 6, 6, generator=generator), torch.arange(4) % 3


@pytest.fixture(scope="module")
def run(examples: tuple[Tensor, Tensor], tmp_path_factory: pytest.TempPathFactory) -> ab.Run:
    """A network with kinks, without a smooth copy; attributions that have no slopes."""
    return ab.audit(
        NET,
        examples,
        out=tmp_path_factory.mktemp("runs") / "values",
        attributions=[
            by_numpy,
            grad_cam,
            upsampled,
            ab.from_captum(captum.attr.GuidedBackprop(NET)).recipe(),
            ab.Saliency(),
        ],
        balls=[ab.L2Ball(0.05), ab.L2Ball(0.1)],
        claims=[ab.Smoothed(draws=DRAWS)],
        batch=2,
    )


pytestmark = pytest.mark.filterwarnings("ignore:Setting backward hooks")


class TestWithoutSlopes:
    def test_every_kind_goes_through(self, run: ab.Run) -> None:
        found = cells(run.rows())
        assert len(found) == 10
        for cell in found:
            assert not any(cell.errors), cell.errors
            assert cell.claims == ("smoothed",)
            assert cell.subjects("smoothed") == {"averaged"}
            for field in ("degrees", "shown_degrees", "similarity", "label_share"):
                assert np.isfinite(cell.bound("smoothed", field)).all(), field
            assert (cell.bound("smoothed", "degrees") < 180).all()
            assert cell.attacks == ("averaged",)

    def test_the_bound_is_that_of_the_library(
        self, run: ab.Run, examples: tuple[Tensor, Tensor]
    ) -> None:
        (cell,) = (
            each
            for each in cells(run.rows())
            if (each.attribution, each.epsilon) == ("saliency", 0.1)
        )
        method = ab.Smoothed(draws=DRAWS)
        bound = ab.bound(ab.Saliency(NET), examples[0], ab.L2Ball(0.1), method=method)
        np.testing.assert_allclose(cell.bound("smoothed", "degrees"), bound.degrees, rtol=1e-4)

    def test_an_attack_on_the_averaged_map_stands_beside_it(self, run: ab.Run) -> None:
        for cell in cells(run.rows()):
            attack = cell.averaged("deviation")
            np.testing.assert_array_equal(attack, opposing(cell, "smoothed"))
            assert (attack > 0).any()
            assert (attack <= cell.bound("smoothed")).all()
            assert (cell.bound("smoothed", "exceeded") == 0).all()
            # No attack was made on plain maps, and none counts.
            assert np.isnan(cell.bound("smoothed", "yours_exceeded")).all()
            assert np.isnan(cell.strongest("deviation")).all()

    def test_every_table_names_its_subject(self, run: ab.Run) -> None:
        text = text_of(run)
        assert f"certified (smoothed), of {AVERAGED}" in text
        assert f"strongest attack on {AVERAGED}" in text
        page = ab.write_html(run).read_text(encoding="utf-8")
        assert "The averaged map of your network" in page
        assert "Its cosine with the plain map" in page

    def test_it_can_be_resumed(
        self, run: ab.Run, examples: tuple[Tensor, Tensor], tmp_path: Path
    ) -> None:
        given = {
            "attributions": [ab.Saliency()],
            "balls": [ab.L2Ball(0.1)],
            "claims": [ab.Smoothed(draws=DRAWS)],
            "batch": 2,
        }
        whole = ab.audit(NET, examples, out=tmp_path / "run", **given)
        before = whole.bounds().to_pylist()
        part = next((tmp_path / "run").glob("**/*1.parquet"))
        part.unlink()
        again = ab.audit(NET, examples, out=tmp_path / "run", resume=True, **given)
        after = again.bounds().to_pylist()
        for one, other in zip(before, after, strict=True):
            assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.fixture(scope="module")
def both(examples: tuple[Tensor, Tensor]) -> ab.Run:
    return ab.audit(
        NET,
        examples,
        smooth=20.0,
        attributions=[ab.Saliency()],
        balls=[ab.L2Ball(0.05)],
        smoothed=ab.Smoothed(draws=DRAWS),
        limit=2,
    )


class TestBesideACopy:
    def test_quick_makes_it_where_the_network_has_kinks(self, both: ab.Run) -> None:
        (cell,) = cells(both.rows())
        assert cell.claims == ("first_order", "adjusted", "mean_value", "smoothed")
        assert cell.subjects("smoothed") == {"averaged"}
        assert cell.subjects("first_order") == {"copy"}
        assert set(cell.attacks) >= {"ascent", "through", "averaged"}
        (summary,) = summarise(both.rows())
        assert summary.claims["smoothed"].subject == "averaged"
        assert summary.claims["smoothed"].yours is None
        assert summary.averaged is not None

    def test_it_is_of_the_network_and_not_of_its_copy(
        self, both: ab.Run, examples: tuple[Tensor, Tensor]
    ) -> None:
        (cell,) = cells(both.rows())
        x = examples[0][cell.samples]
        method = ab.Smoothed(draws=DRAWS)
        bound = ab.bound(ab.Saliency(NET), x, ab.L2Ball(0.05), method=method)
        np.testing.assert_allclose(cell.bound("smoothed", "degrees"), bound.degrees, rtol=1e-4)

    def test_the_verdict_has_a_part_about_it(self, both: ab.Run) -> None:
        page = ab.write_html(both).read_text(encoding="utf-8")
        for title in ("Your network", "Its smooth copy", "The averaged map of your network"):
            assert title in page
        assert f"of {AVERAGED}" in text_of(both)

    def test_protocols(self) -> None:
        for name, draws in (("quick", 1000), ("strong", 5000)):
            kinked = complete(
                AuditSettings("m", "d", smooth=20.0, protocol=ab.from_spec(name, Protocol))
            )
            (method,) = (each for each in kinked.claims if isinstance(each, ab.Smoothed))
            assert method.draws == draws
            smooth = complete(AuditSettings("m", "d", protocol=ab.from_spec(name, Protocol)))
            assert not any(isinstance(each, ab.Smoothed) for each in smooth.claims)

    def test_a_name_of_an_attack_is_taken(self) -> None:
        with pytest.raises(ab.InputError, match="none 'transferred' or 'averaged'"):
            AuditSettings("m", "d", attacks={"averaged": ab.attacks.PGD()})


def test_an_attack_on_plain_maps_does_not_count_against_averages_nor_vice_versa() -> None:
    averaged = {"claim": "smoothed", "subject": "averaged", "euclidean": 0.1, "degrees": 5.0}
    plain = {"claim": "first_order", "subject": "yours", "euclidean": 0.1, "degrees": 5.0}
    far, near = {"deviation": 9.0, "degrees": 90.0}, {"deviation": 0.01, "degrees": 1.0}
    exact = {"yours": (0.0, 0.0), "averaged": (0.0, 0.0)}
    mark_exceeded([averaged, plain], {"yours": far, "averaged": near}, exact)
    assert averaged["exceeded"] is False
    assert "yours_exceeded" not in averaged
    assert plain["exceeded"] is True
    mark_exceeded([averaged, plain], {"yours": near, "averaged": far}, exact)
    assert averaged["exceeded"] is True
    assert plain["exceeded"] is False
