from __future__ import annotations

import base64
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from attribound.report.pictures import (
    SIDE,
    bars,
    input_picture,
    is_surface,
    map_picture,
    map_scale,
    value_range,
)


def pixels(uri: str) -> np.ndarray:
    head, content = uri.split(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
    return np.asarray(Image.open(BytesIO(base64.b64decode(content))))


@pytest.mark.parametrize(
    ("shape", "surface"),
    [
        ((28, 28), True),
        ((1, 28, 28), True),
        ((3, 8, 8), True),
        ((5, 4), True),
        ((13,), False),
        ((1, 64), False),
        ((4, 8, 8), False),
    ],
)
def test_what_is_drawn_as_a_picture(shape, surface) -> None:
    assert is_surface(shape) is surface


def test_grey_and_colour_inputs_keep_their_pixels() -> None:
    grey = np.array([[[0.0, 0.5], [1.0, 0.2]]])
    np.testing.assert_array_equal(pixels(input_picture(grey, (0, 1))), [[0, 128], [255, 51]])
    colour = np.zeros((3, 2, 2))
    colour[0] = 1
    np.testing.assert_array_equal(pixels(input_picture(colour, (0, 1)))[0, 0], [255, 0, 0])


def test_signs_have_opposite_colours_and_zero_is_nearly_white() -> None:
    red, white, blue = pixels(map_picture(np.array([[1.0, 0.0, -1.0]] * 2), 1.0))[0].astype(int)
    assert red[0] > red[2] + 50
    assert blue[2] > blue[0] + 50
    assert white.min() > 240


def test_channels_are_summed() -> None:
    cancelling = np.stack([np.ones((2, 2)), -np.ones((2, 2)), np.zeros((2, 2))])
    assert pixels(map_picture(cancelling, 1.0)).min() > 240


def test_large_pictures_are_reduced() -> None:
    picture = pixels(input_picture(np.random.default_rng(0).random((3, 300, 200)), (0, 1)))
    assert max(picture.shape[:2]) == SIDE


def test_rows_of_features_become_bars() -> None:
    for draw in (
        input_picture(np.array([0.1, 0.9]), (0, 1)),
        map_picture(np.array([1.0, -1.0]), 1),
    ):
        assert pixels(draw).shape[-1] == 4  # transparent around the bars
    tall, flat = (pixels(bars(np.array([v]), (0, 1)))[..., 3].sum() for v in (1.0, 0.1))
    assert tall > 3 * flat


def test_many_features_are_drawn_as_fast_and_look_the_same() -> None:
    """A map with a thousand channels would take seconds bar by bar."""
    wave = np.sin(np.linspace(0, 6, 150))
    few, many = pixels(bars(wave, (-1, 1))), pixels(bars(np.repeat(wave, 200), (-1, 1)))
    shades = [picture.astype(float).mean(axis=(0, 1)) for picture in (few, many)]
    np.testing.assert_allclose(shades[0], shades[1], atol=25)


def test_scales_ignore_what_is_not_finite_and_are_never_zero() -> None:
    assert map_scale(np.array([np.nan, -2.0, np.inf])) == 2.0
    assert map_scale(np.zeros(3)) == 1.0
    assert value_range(np.array([0.2, 0.4])) == (0.0, 1.0)
    assert value_range(np.array([-1.0]), np.array([3.0])) == (-1.0, 3.0)
    assert value_range(np.array([5.0])) == (5.0, 6.0)
