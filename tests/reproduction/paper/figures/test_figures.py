"""The paper's figures, one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paper_synthetic import eta, maps, texts
from reproduction.paper.figures.drawing import title_of
from reproduction.paper.figures.examples import (
    choose,
    draw_examples,
    image_of,
    surface,
)
from reproduction.paper.figures.heatmaps import (
    dominant,
    draw_first,
    draw_full,
    middle,
    normalised,
    reduced,
)
from reproduction.paper.figures.jacobian import DenseJacobian
from reproduction.paper.figures.kendall import DataSet, draw_kendall, points
from reproduction.paper.figures.remainder import curve, draw_remainders


def test_a_curve_has_the_percentiles_over_samples_at_each_radius() -> None:
    radii, (low, middle, high) = curve(eta(), "ascent", "eta")
    np.testing.assert_allclose(radii, [0.01, 0.02, 0.04])
    factors = 10 * np.arange(1, 6)
    for level, share in ((low, 10), (middle, 50), (high, 90)):
        np.testing.assert_allclose(level, np.percentile(factors, share) * radii**2)
    # Perturbations of the other kind are other numbers.
    assert curve(eta(), "random", "eta")[1][1][0] < middle[0]


def test_the_order_of_rows_does_not_matter() -> None:
    shuffled = eta().sort_by([("eta", "descending")])
    np.testing.assert_allclose(
        curve(shuffled, "random", "eta")[1], curve(eta(), "random", "eta")[1]
    )


def test_the_lines_are_these_curves_and_the_title_their_ratio() -> None:
    figure = draw_remainders("CIFAR-10", {"at": eta(), "trades": eta()}, {"ce": "make zoo"})
    first, second = figure.axes
    lines = {line.get_label(): line for line in first.get_lines()}
    for by in ("random", "ascent"):
        name = "attack" if by == "ascent" else by
        for column, label in (("eta", "η"), ("deviation", "deviation")):
            radii, levels = curve(eta(), by, column)
            expected = np.stack([radii, levels[1]], axis=1)
            np.testing.assert_allclose(lines[f"{label}, {name}"].get_xydata(), expected)
    np.testing.assert_allclose(lines[r"$\|g(x)\|$"].get_ydata(), 3.0)
    assert first.get_title() == "AT\nrandom 4%, attack 4%"
    assert second.get_title().startswith("TRADES")
    assert first.get_ylim() == second.get_ylim()
    assert "Left out: CE (make zoo)" in texts(figure)


def test_models_of_any_scale_are_within_the_axes() -> None:
    def scaled(factor: float) -> pa.Table:
        table = eta()
        for name in ("eta", "deviation", "attribution_norm"):
            values = pc.multiply(table[name], factor)
            table = table.set_column(table.column_names.index(name), name, values)
        return table

    figure = draw_remainders("MNIST", {"ce": scaled(1), "at": scaled(1e-3), "art": scaled(10)}, {})
    for axes in figure.axes:
        low, high = axes.get_ylim()
        drawn = np.concatenate([np.asarray(line.get_ydata()) for line in axes.get_lines()])
        assert low < drawn.min() < drawn.max() < high


def test_attributions_that_did_not_move_have_no_ratio() -> None:
    still = eta().set_column(
        eta().column_names.index("deviation"), "deviation", pa.array([0.0] * eta().num_rows)
    )
    assert pc.sum(still["deviation"]).as_py() == 0
    assert draw_remainders("MNIST", {"at": still}, {}).axes[0].get_title() == "AT\n"


def test_without_any_record_the_figure_says_so() -> None:
    figure = draw_remainders("MNIST", {}, {"at": "make zoo"})
    assert not figure.axes
    assert "no records of eta" in texts(figure)


@pytest.fixture
def found() -> DenseJacobian:
    random = np.random.default_rng(0)
    matrix = random.normal(size=(150, 150)).astype(np.float32)
    values = np.zeros(150, dtype=np.float32)
    values[20:] = 0.5
    matrix[:20] = np.diag(random.normal(size=150))[:20]
    matrix[3] = 0
    return DenseJacobian(matrix, values, 7, {})


def test_windows_are_sizes_of_the_entries_they_name(found) -> None:
    figure = draw_first({"MNIST": found}, "Left out: CIFAR-10")
    first, other = figure.axes[:2]
    expected = np.abs(found.matrix[:100, :100])
    np.testing.assert_allclose(first.images[0].get_array(), expected / expected.max(), rtol=1e-6)
    assert first.get_title() == "MNIST\n0 to 99: 20 inputs are 0"
    start = middle(found)
    assert 20 <= start <= 50
    expected = np.abs(found.matrix[start : start + 100, start : start + 100])
    np.testing.assert_allclose(other.images[0].get_array(), expected / expected.max(), rtol=1e-6)
    assert other.get_title() == f"{start} to {start + 99}: 0 inputs are 0"
    assert "Left out: CIFAR-10" in texts(figure)


def test_rows_are_dominant_only_if_the_diagonal_is_the_sum_of_the_others(found) -> None:
    # 19 diagonal rows, one of zeros, 130 that are full.
    assert dominant(found) == (19, 149)
    assert dominant(found, lit=True) == (0, 130)
    even = DenseJacobian(np.array([[2, -1, 1], [1, 2, 1.5], [0, 0, -1]]), np.ones(3), 0, {})
    assert dominant(even) == (2, 3)


def test_reduced_matrices_keep_the_largest_of_every_block() -> None:
    matrix = np.arange(49.0, dtype=np.float32).reshape(7, 7)
    small, block = reduced(matrix, 4)
    assert block == 2
    np.testing.assert_array_equal(small[:2, :2], [[8, 10], [22, 24]])
    assert small[3, 3] == 48
    assert reduced(matrix, 7)[1] == 1


def test_sizes_are_from_zero_to_one() -> None:
    np.testing.assert_allclose(normalised(np.array([[-4.0, 2.0]])), [[1, 0.5]])
    assert not normalised(np.zeros((2, 2))).any()


def test_the_whole_matrix_is_drawn_twice_and_counted(found) -> None:
    figure = draw_full("MNIST, AT", found)
    images = [axes.images[0] for axes in figure.axes[:2]]
    for image in images:
        np.testing.assert_allclose(image.get_array(), normalised(found.matrix), rtol=1e-6)
    written = " ".join(texts(figure).split())
    assert "19 of 149 that are not zero; 0 of the 130 among them" in written
    assert "Each pixel" not in written


def test_without_any_the_figure_says_so() -> None:
    assert "No Jacobians to draw. MNIST" in texts(draw_first({}, "MNIST"))


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
