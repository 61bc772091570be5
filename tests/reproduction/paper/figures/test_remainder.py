from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paper_synthetic import eta, texts
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
