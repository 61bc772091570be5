from __future__ import annotations

import base64
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

import attribound as ab
from attribound.report import gallery as module
from attribound.report.gallery import Features, class_name, features, gallery
from attribound.report.groups import groups
from report import cases


def opened(uri: str) -> Image.Image:
    return Image.open(BytesIO(base64.b64decode(uri.split(",")[1])))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return cases.run(tmp_path_factory.mktemp("gallery") / "run")


def test_the_worst_have_the_largest_angles_and_the_typical_are_near_the_median(run) -> None:
    found = groups(run.rows())
    cards = [card for card in gallery(found, run.maps(), cases.CLASSES) if card.group == 2]
    angles = found[2].cells[-1].strongest("degrees")
    defined = np.sort(angles[angles < 180])[::-1]
    worst = [card for card in cards if card.kind == "worst"]
    assert [card.degrees for card in worst] == pytest.approx(defined[:3])
    assert all(card.epsilon == 0.1 for card in cards)
    typical = [card.degrees for card in cards if card.kind == "typical"]
    assert len(typical) == 3
    middle = np.nanmedian(angles)
    others = [a for a in defined[3:] if a not in typical]
    assert max(abs(a - middle) for a in typical) <= min(abs(a - middle) for a in others)


def test_every_card_has_five_pictures(run) -> None:
    for card in gallery(groups(run.rows()), run.maps(), cases.CLASSES):
        assert [picture.caption for picture in card.pictures] == [
            "input",
            "attacked input",
            "its attribution",
            "attacked attribution",
            "difference of attributions",
        ]


def test_a_map_of_another_shape_is_drawn_in_its_own(tmp_path) -> None:
    """A Grad-CAM of 7 x 7 beside an image of 28 x 28, a score a channel beside a picture."""
    for shape, size in {(7, 7): (7, 7), (1, 4, 6): (6, 4), (5,): (160, 80)}.items():
        name = "x".join(map(str, shape))
        run = cases.run(tmp_path / name, shape=(1, 28, 28), map_shape=shape)
        for card in gallery(groups(run.rows()), run.maps(), cases.CLASSES):
            sizes = {picture.caption: opened(picture.uri).size for picture in card.pictures}
            assert sizes == {
                "input": (28, 28),
                "its attribution": size,
                "attacked input": (28, 28),
                "attacked attribution": size,
                "difference of attributions": size,
            }


def test_columns_with_units_of_their_own_show_what_changed_in_these(tmp_path) -> None:
    """A bar of 5,000 of credit beside one of 2 children says nothing of either."""
    run = cases.run(tmp_path / "run", shape=(5,), map_shape=(5,))
    found, units = groups(run.rows()), np.array([0.0, 1.0, 2.0, 1.0, 1.0])
    known = Features(units={group.ball: units for group in found})
    for card in gallery(found, run.maps(), cases.CLASSES, known=known):
        assert [picture.caption for picture in card.pictures] == [
            "change of the input, in units of ε",
            "its attribution",
            "attacked attribution",
            "difference of attributions",
        ]
    plain = gallery(found, run.maps(), cases.CLASSES)
    assert plain[0].pictures[0].caption == "input"


def test_units_are_those_of_the_balls_of_a_run(tmp_path) -> None:
    scale = torch.tensor([0.0, 2.0])
    chosen = cases.settings(balls=(ab.L2Ball(0.1, scale=scale), ab.LinfBall(0.1)), maps="none")
    run = cases.run(tmp_path / "run", chosen)
    found = features(run.manifest.settings).units
    assert {name: each.tolist() for name, each in found.items()} == {"l2 scaled": [0.0, 2.0]}


def test_cards_beyond_the_budget_are_left_out_evenly(run, monkeypatch) -> None:
    everything = gallery(groups(run.rows()), run.maps(), cases.CLASSES)
    monkeypatch.setattr(module, "BYTES", sum(card.size for card in everything) // 2)
    fewer = gallery(groups(run.rows()), run.maps(), cases.CLASSES)
    assert 8 <= len(fewer) < len(everything) == 24
    assert {card.group for card in fewer} == {0, 1, 2, 3}


def test_without_maps_there_are_no_cards(run) -> None:
    assert gallery(groups(run.rows()), run.maps().slice(0, 0), cases.CLASSES) == []


def test_classes_without_a_name_are_numbers() -> None:
    assert [class_name(label, ["a"]) for label in (0, 5, -1, None)] == ["a", "5", "-1", "unknown"]
