from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

import attribound as ab
from attribound.data.images import Encoded, Frame, Images, common_frame

RNG = np.random.default_rng(0)
COLOURS = RNG.integers(0, 256, (20, 30, 3), dtype=np.uint8)
GREY = COLOURS[..., 0]


def encoded(picture: Image.Image, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind)
    return stream.getvalue()


def decode(content: bytes, frame: Frame) -> torch.Tensor:
    data = Images("test", [Encoded("it", content)], torch.tensor([0]), ["only"], frame)
    pixels = data[0][0]
    assert pixels.shape == data.shape
    assert pixels.dtype == torch.float32
    return (pixels * 255).round().to(torch.uint8)


SAME = Frame(3, 20, 30, 20)


def test_an_image_of_that_size_is_not_touched() -> None:
    pixels = decode(encoded(Image.fromarray(COLOURS)), SAME)
    np.testing.assert_array_equal(pixels.permute(1, 2, 0).numpy(), COLOURS)


def test_a_file_is_read_as_its_bytes_are(tmp_path) -> None:
    Image.fromarray(COLOURS).save(tmp_path / "it.jpg")
    path = Encoded("it", tmp_path / "it.jpg")
    content = Encoded("it", (tmp_path / "it.jpg").read_bytes())
    data = Images("test", [path, content], torch.tensor([0, 0]), ["only"], SAME)
    assert torch.equal(data[0][0], data[1][0])


def slow_resize(channel: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Antialiased bilinear scaling: triangles as wide as a new pixel, one axis after the other."""

    def weights(old: int, new: int) -> np.ndarray:
        scale = old / new
        reach = max(scale, 1.0)
        centres = (np.arange(new) + 0.5) * scale
        distance = np.abs(np.arange(old) + 0.5 - centres[:, None]) / reach
        triangle = np.maximum(1 - distance, 0)
        return triangle / triangle.sum(1, keepdims=True)

    old_rows, old_columns = channel.shape
    return weights(old_rows, rows) @ channel @ weights(old_columns, columns).T


@pytest.mark.parametrize(("size", "short"), [(7, 8), (14, 16), (28, 32)])
@pytest.mark.parametrize("turned", [False, True])
def test_scales_the_shorter_side_and_cuts_out_the_centre(size, short, turned) -> None:
    picture = COLOURS.transpose(1, 0, 2) if turned else COLOURS
    frame = Frame.square(3, size)
    assert frame.short_side == short
    got = decode(encoded(Image.fromarray(np.ascontiguousarray(picture))), frame).numpy()
    long = short * 30 // 20
    height, width = (long, short) if turned else (short, long)
    top, left = round((height - size) / 2), round((width - size) / 2)
    for channel in range(3):
        scaled = slow_resize(picture[..., channel].astype(float), height, width)
        expected = scaled[top : top + size, left : left + size]
        # Pillow rounds after each axis.
        np.testing.assert_allclose(got[channel], expected, atol=1.5)


def test_the_slow_scaling_would_see_a_missing_filter() -> None:
    """Nearest-neighbour scaling of noise is far from the antialiased one."""
    nearest = COLOURS[1::2, 1::2, 0][:8, :12]
    assert np.abs(slow_resize(COLOURS[..., 0].astype(float), 8, 12) - nearest).max() > 20


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "picture",
    [
        Image.fromarray(GREY),
        Image.fromarray(GREY.astype(np.uint16) * 257),
        Image.fromarray(np.stack([GREY] * 3, -1)),
        Image.merge("LA", [Image.fromarray(GREY), Image.new("L", (30, 20), 255)]),
    ],
    ids=["L", "I;16", "RGB", "LA"],
)
def test_grey_images_of_any_kind(picture, channels) -> None:
    pixels = decode(encoded(picture), Frame(channels, 20, 30, 20)).numpy()
    np.testing.assert_array_equal(pixels, np.stack([GREY] * channels))


def test_transparent_images_lie_on_white() -> None:
    alpha = np.zeros((20, 30), np.uint8)
    alpha[:, :10], alpha[:, 10:20] = 255, 128
    rgba = np.dstack([COLOURS, alpha])
    got = decode(encoded(Image.fromarray(rgba)), SAME).permute(1, 2, 0).numpy()
    share = alpha[..., None] / 255
    np.testing.assert_allclose(got, share * COLOURS + (1 - share) * 255, atol=1)
    palette = Image.new("P", (30, 20), 0)
    palette.putpalette([10, 20, 30])
    palette.info["transparency"] = 0
    assert (decode(encoded(palette), SAME) == 255).all()


def test_palettes_and_print_colours() -> None:
    palette = Image.new("P", (30, 20), 0)
    palette.putpalette([10, 20, 30])
    assert decode(encoded(palette), SAME)[:, 0, 0].tolist() == [10, 20, 30]
    cmyk = decode(encoded(Image.new("CMYK", (30, 20), (0, 255, 255, 0)), "JPEG"), SAME)
    assert cmyk[:, 0, 0].tolist() == pytest.approx([255, 0, 0], abs=3)


JPEG = encoded(Image.fromarray(COLOURS), "JPEG")
PNG = encoded(Image.fromarray(COLOURS))


@pytest.mark.parametrize(
    "content",
    [
        JPEG[:-200],
        JPEG[:10],
        PNG[:-200],
        PNG[:20],
        b"",
        b"GIF89a",
        PNG[:60] + b"\0" * 40 + PNG[100:],
    ],
    ids=["cut JPEG", "JPEG header", "cut PNG", "PNG header", "empty", "GIF", "changed PNG"],
)
def test_a_broken_image_is_named(content) -> None:
    message = "^flower.jpg: expected a whole JPEG or PNG image, got .+; .*replace or remove it"
    data = Images("t", [Encoded("flower.jpg", content)], torch.tensor([0]), ["only"], SAME)
    with pytest.raises(ab.InputError, match=message):
        data[0]


def test_selected_images_go_with_their_labels() -> None:
    contents = [encoded(Image.new("L", (2, 2), shade)) for shade in (0, 51, 102)]
    images = [Encoded(str(k), content) for k, content in enumerate(contents)]
    data = Images("t", images, torch.tensor([0, 1, 2]), "abc", Frame(1, 2, 2, 2))
    part = data.select(torch.tensor([2, 0]))
    mask = data.select(torch.tensor([False, True, False]))
    assert [(round(float(x.mean()), 3), y) for x, y in mask] == [(0.2, 1)]
    assert [(float(x[0, 0, 0]), y) for x, y in part] == [(pytest.approx(0.4), 2), (0.0, 0)]


def test_the_common_frame() -> None:
    grey, colour = (
        Encoded(n, encoded(Image.fromarray(a))) for n, a in (("g", GREY), ("c", COLOURS))
    )
    small = Encoded("small", encoded(Image.new("L", (4, 5))))
    assert common_frame("t", [grey, grey], None) == Frame(1, 20, 30, 20)
    assert common_frame("t", [grey, colour], None) == SAME
    assert common_frame("t", [grey, small], 14) == Frame(1, 14, 14, 16)
    with pytest.raises(
        ab.InputError, match=r"t: .*, got 30 x 20 in g and 4 x 5 in small; pass size="
    ):
        common_frame("t", [grey, small], None)
    with pytest.raises(ab.InputError, match="t: expected images, got none"):
        common_frame("t", [], None)


def test_a_bomb_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ab.InputError, match=r"it: .*decompression bomb"):
        decode(PNG, SAME)


def test_a_line_is_not_scaled_until_it_is_a_plane() -> None:
    thin = encoded(Image.new("L", (2**20, 1)))
    with pytest.raises(
        ab.InputError, match=r"it: expected at most 33,554,432 pixels, scaled.* cut"
    ):
        decode(thin, Frame.square(1, 64))
    assert decode(thin, Frame(1, 1, 2**20, 1)).shape == (1, 1, 2**20)  # as it is


@pytest.mark.parametrize("size", [0, -1, 4097, 10**12])
def test_sizes_that_no_network_takes(size) -> None:
    with pytest.raises(ab.InputError, match=r"size: expected 1 or more, .* 16,777,216 values, got"):
        common_frame("it", [Encoded("it", PNG)], size)
