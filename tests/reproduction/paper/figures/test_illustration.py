from __future__ import annotations

import numpy as np
import pytest
import torch

import attribound as ab
import cases
from reproduction.paper.figures.illustration import (
    draw_illustration,
    illustrate,
    moons_network,
    standard,
    two_moons,
)


@pytest.fixture(scope="module")
def linear():
    saliency, x = cases.quadratic([-5.0, 2.0], batch=1)
    return illustrate(saliency, x, 0.1)


@pytest.fixture(scope="module")
def found():
    return standard()


def test_where_the_attribution_is_linear_image_and_ellipse_agree(linear) -> None:
    np.testing.assert_allclose(linear.image, linear.ellipse, atol=1e-12)
    lengths = np.linalg.norm(linear.image - linear.value, axis=1)
    assert lengths.max() == pytest.approx(0.5, rel=1e-3)
    assert lengths.min() == pytest.approx(0.2, rel=1e-3)
    assert linear.bound == pytest.approx(0.5, rel=1e-2)
    assert linear.reached == pytest.approx(0.5, rel=1e-3)
    # The broken variant: an ellipse turned the wrong way is no image.
    turned = linear.value + (linear.ellipse - linear.value)[:, ::-1]
    assert np.abs(turned - linear.image).max() > 0.1


def test_the_network_has_learned_and_its_image_is_that_of_its_attribution(found) -> None:
    x, labels = two_moons()
    model = moons_network()
    assert (model(x).argmax(1) == labels).double().mean() > 0.95
    again = ab.IntegratedGradients(model)(torch.from_numpy(found.circle[:5]))
    np.testing.assert_allclose(again, found.image[:5], atol=1e-9)
    angle = np.degrees(np.arcsin(found.bound / np.linalg.norm(found.value)))
    assert found.degrees == pytest.approx(angle)


def test_the_global_random_state_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    moons_network(steps=1)
    torch.testing.assert_close(torch.rand(2), expected)


def test_the_image_leaves_the_first_order_bound_but_not_the_searched_one(found) -> None:
    lengths = np.linalg.norm(found.image - found.value, axis=1)
    assert found.bound < lengths.max() <= found.searched
    assert found.bound < found.reached <= found.searched


def test_the_figure_shows_these_numbers(found) -> None:
    figure = draw_illustration(found)
    lines = {line.get_label(): line.get_xydata() for line in figure.axes[1].get_lines()}
    np.testing.assert_array_equal(lines["image of the ball, $g(x + \\delta)$"], found.image)
    np.testing.assert_array_equal(lines["linearised, $g(x) + J\\delta$"], found.ellipse)
    circles = {"$T_e$, first order": found.bound, "mean value (searched)": found.searched}
    for label, radius in circles.items():
        lengths = np.linalg.norm(lines[label] - found.value, axis=1)
        np.testing.assert_allclose(lengths, radius)
    # The tangents touch the circle of T_e.
    tangent = lines[f"$T_c$ = {found.degrees:.1f}°"][1]
    along = tangent / np.linalg.norm(tangent)
    away = found.value - (found.value @ along) * along
    assert np.linalg.norm(away) == pytest.approx(found.bound)
    note = figure.get_supxlabel()
    assert f"{found.reached / found.bound:.2f} $T_e$, beyond" in note


def test_without_a_bound_on_the_angle_there_are_no_tangents() -> None:
    saliency, x = cases.quadratic([-5.0, 2.0], batch=1)
    wide = illustrate(saliency, x, 100.0)
    assert wide.degrees == 180
    labels = [str(line.get_label()) for line in draw_illustration(wide).axes[1].get_lines()]
    assert not any("T_c" in label for label in labels)


def test_refuses_what_is_no_point_of_the_plane() -> None:
    saliency, x = cases.quadratic([1.0, 2.0, 3.0])
    with pytest.raises(ab.InputError, match=r"x: expected shape \(1, 2\), got \(2, 3\)"):
        illustrate(saliency, x, 0.1)
