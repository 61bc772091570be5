from __future__ import annotations

import numpy as np
import pytest

from paper_synthetic import texts
from reproduction.paper.figures.drawing import title_of
from reproduction.paper.figures.kendall import DataSet, draw_kendall, points

MODELS = {
    model: {
        "kendall": 0.1 * (5 - i),
        "bound_degrees": 20.0 + i**2,
        "aggregate_degrees": 180.0 if model == "art" else 30.0 - i,
        "undefined": float(i),
        "n": 10.0,
    }
    for i, model in enumerate(("at", "ig-norm", "advaat", "art", "trades"))
}
SET = DataSet("MNIST", "0.05", MODELS, {"ce": "make zoo"})
EMPTY = DataSet("CIFAR-10", "0.1", {}, {"at": "make zoo"})


def drawn(axes) -> list[tuple[float, float]]:
    return [tuple(line.get_xydata()[0]) for line in axes.get_lines() if len(line.get_xydata())]


def test_every_point_is_a_model_at_its_numbers() -> None:
    figure = draw_kendall([SET])
    mean, aggregate = figure.axes
    own = [(each["bound_degrees"], each["kendall"]) for each in MODELS.values()]
    np.testing.assert_allclose(drawn(mean), own)
    # An angle of 180 is none.
    assert len(drawn(aggregate)) == 4
    assert "art" not in points(SET, "aggregate_degrees")
    assert "Angle of means not bounded, ranked as 180°: ART (MNIST)" in texts(figure)


def test_the_title_has_the_correlation_of_these_points() -> None:
    mean, aggregate = draw_kendall([SET]).axes
    assert mean.get_title() == "MNIST, ε = 0.05\nSpearman $\\rho$ = -1.00, p = 0.017"
    # ART, which is no point, has the largest angle.
    assert aggregate.get_title() == "Spearman $\\rho$ = 0.40, p = 0.52"


def test_a_panel_without_points_says_so() -> None:
    unbounded = {model: {**each, "aggregate_degrees": 180.0} for model, each in MODELS.items()}
    mean, aggregate = draw_kendall([DataSet("MNIST", "0.05", unbounded, {})]).axes
    assert [text.get_text() for text in aggregate.texts] == ["nothing bounded"]
    assert aggregate.get_title() == "5 models, nothing to rank"
    assert not mean.texts


def test_too_few_models_have_no_correlation() -> None:
    few = DataSet("MNIST", "0.05", dict(list(MODELS.items())[:2]), {})
    assert "2 models, nothing to rank" in draw_kendall([few]).axes[0].get_title()


def test_missing_models_and_data_are_left_out_with_a_note() -> None:
    figure = draw_kendall([SET, EMPTY])
    assert len(figure.axes) == 2
    written = texts(figure)
    assert "MNIST: Left out: CE (make zoo)" in written
    assert "CIFAR-10: Left out: AT (make zoo)" in written
    assert "in no mean: 10 of 50 (MNIST)" in written
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [title_of(m) for m in MODELS]


def test_without_any_model_the_figure_says_so() -> None:
    figure = draw_kendall([EMPTY])
    assert not figure.axes
    assert "No runs to draw Kendall" in texts(figure)


@pytest.mark.parametrize("key", ["kendall", "bound_degrees"])
def test_a_model_without_one_of_its_numbers_is_no_point(key) -> None:
    broken = {**MODELS, "at": {**MODELS["at"], key: None}}
    assert set(points(DataSet("MNIST", "0.05", broken, {}), "bound_degrees")) == set(MODELS) - {
        "at"
    }
