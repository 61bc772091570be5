from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from paper_synthetic import maps, texts
from reproduction.paper.figures.examples import (
    choose,
    draw_examples,
    image_of,
    surface,
)


def test_the_sample_that_most_have_is_shown_for_all() -> None:
    found = choose(
        {
            "at": maps([5, 30, 60], ["ig:steps=5"]),
            "trades": maps([30, 60], ["ig"]),
            "ce": maps([60, 7], ["ig", "saliency"]),
            "art": maps([7], ["ig"]),
        }
    )
    assert {model: own["ig"].sample for model, own in found.items()} == {
        "at": 60,
        "trades": 60,
        "ce": 60,
        "art": 7,
    }
    assert set(found["ce"]) == {"ig", "saliency"}


def test_maps_and_angle_are_those_that_were_stored() -> None:
    (example,) = choose({"at": maps([60], ["ig"])})["at"].values()
    assert example.degrees == pytest.approx(np.degrees(0.6), rel=1e-5)
    assert example.clean.shape == (1, 4, 4)
    assert example.clean[0, 0, 0] == -3


def test_pictures_are_sizes_on_one_scale_before_and_after() -> None:
    examples = choose({"at": maps([60], ["ig", "saliency"]), "ce": maps([60], ["ig"])})
    figure = draw_examples("MNIST", examples, {"art": "make zoo"})
    grid = np.array(figure.axes).reshape(5, 2)
    shown = examples["at"]["ig"]
    (before,), (after,) = grid[3, 0].images, grid[4, 0].images
    np.testing.assert_allclose(before.get_array(), np.abs(shown.clean[0]))
    np.testing.assert_allclose(after.get_array(), np.abs(shown.attacked[0]))
    assert before.get_clim() == after.get_clim()
    assert before.get_clim()[0] == 0
    assert grid[4, 0].get_xlabel() == "34°"
    assert [axes.get_title() for axes in grid[0]] == ["AT", "CE"]
    assert not grid[1, 1].images
    assert grid[1, 1].get_xlabel() == "not there"
    assert "Left out: ART (make zoo)" in texts(figure)
    assert "Input" not in texts(figure)


def test_an_attack_that_stayed_at_the_input_is_not_shown_as_withstood() -> None:
    figure = draw_examples("MNIST", choose({"at": maps([0], ["ig"])}), {})
    assert figure.axes[-1].get_xlabel() == "nothing found"


def test_another_sample_is_named_where_the_common_one_is_not_stored() -> None:
    both = pa.concat_tables([maps([60], ["ig"]), maps([7], ["saliency"])])
    figure = draw_examples("MNIST", choose({"at": both}), {})
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert "34°, sample 60" in labels or "4°, sample 7" in labels


def test_colours_and_rows_of_numbers_are_drawn_too() -> None:
    colours = choose({"at": maps([60], ["ig"], shape=(3, 4, 4))})
    figure = draw_examples("CIFAR-10", colours, {})
    assert figure.axes[0].images[0].get_array().shape == (4, 4, 3)
    shown = figure.axes[1].images[0].get_array()
    np.testing.assert_allclose(shown, np.abs(colours["at"]["ig"].clean).sum(0))
    assert image_of(np.arange(7.0)).shape == (3, 3)
    np.testing.assert_allclose(surface(-np.arange(7.0)).ravel()[:7], np.arange(7))
    assert image_of(np.ones((4, 5))).shape == (4, 5)


def test_without_maps_the_figure_says_so() -> None:
    figure = draw_examples("MNIST", {}, {"at": "make zoo"})
    assert "MNIST: no maps to show. Left out: AT (make zoo)" in texts(figure)
