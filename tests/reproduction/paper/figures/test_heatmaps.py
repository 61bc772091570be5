from __future__ import annotations

import numpy as np
import pytest

from paper_synthetic import texts
from reproduction.paper.figures.heatmaps import (
    dominant,
    draw_first,
    draw_full,
    middle,
    normalised,
    reduced,
)
from reproduction.paper.figures.jacobian import DenseJacobian


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
