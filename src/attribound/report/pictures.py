"""Inputs and attributions as small pictures that can be embedded in a page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attribound.basics.packages import package

Array = NDArray[np.float64]

#: Pixels of the longer side at most; larger pictures are reduced.
SIDE = 128
_COLOURS = "RdBu_r"
_PERCENTILE = 99.5
_CHANNELS = (1, 3)
_PURPOSE = "pictures in a report"
_BARS = 160  # more than there are pixels for are drawn as lines, which is a lot faster
_SURE, _OPEN = (0.0, 0.62, 0.45), (0.9, 0.62, 0.0)  # green, amber
_MAPS = 2  # axes of something that is drawn as a surface


def is_surface(shape: Sequence[int]) -> bool:
    """Whether something of this shape is drawn as a picture; otherwise as bars."""
    shape = _squeezed(shape)
    return len(shape) == _MAPS or (len(shape) == 3 and shape[0] in _CHANNELS)


def value_range(*inputs: Array) -> tuple[float, float]:
    """From 0 to 1 if all inputs keep to it, otherwise from the least to the largest value."""
    low = min(float(np.nanmin(values)) for values in inputs)
    high = max(float(np.nanmax(values)) for values in inputs)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if high > low else (low, low + 1)


def map_scale(*maps: Array) -> float:
    """The size at which colours saturate: the 99.5th percentile over all maps."""
    sizes = np.abs(np.concatenate([values.ravel() for values in maps]))
    sizes = sizes[np.isfinite(sizes)]
    scale = float(np.percentile(sizes, _PERCENTILE)) if len(sizes) else 0.0
    return scale or (float(sizes.max()) if len(sizes) else 0.0) or 1.0


def input_picture(values: Array, limits: tuple[float, float]) -> str:
    """An input as a data URI: grey or colour; bars if it is no picture."""
    if not is_surface(values.shape):
        return bars(values, limits)
    low, high = limits
    pixels = np.nan_to_num((values - low) / (high - low)).clip(0, 1) * 255
    pixels = pixels.round().astype(np.uint8).reshape(_squeezed(values.shape))
    return _encode(np.moveaxis(pixels, 0, -1) if pixels.ndim == 3 else pixels)


def map_picture(values: Array, scale: float) -> str:
    """A signed map as a data URI: red above zero, blue below, channels summed."""
    if not is_surface(values.shape):
        return bars(values, (-scale, scale))
    surface = values.reshape(_squeezed(values.shape))
    surface = surface.sum(0) if surface.ndim == 3 else surface
    colours = package("matplotlib", extra="audit", purpose=_PURPOSE).colormaps[_COLOURS]
    rgb = colours(np.nan_to_num(surface / scale).clip(-1, 1) / 2 + 0.5)[..., :3]
    return _encode((rgb * 255).round().astype(np.uint8))


def region_picture(
    values: Array, limits: tuple[float, float], sure: NDArray[np.bool_], open_: NDArray[np.bool_]
) -> str:
    """An input in grey as a data URI, green where ``sure`` and amber where ``open_``.

    Both are of its height and width.
    """
    low, high = limits
    surface = values.reshape(_squeezed(values.shape))
    surface = surface.mean(0) if surface.ndim == 3 else surface
    grey = np.nan_to_num((surface - low) / (high - low)).clip(0, 1)
    rgb = np.repeat(grey[..., None], 3, axis=-1)
    for where, colour in ((open_, _OPEN), (sure, _SURE)):
        rgb[where] = 0.4 * rgb[where] + 0.6 * np.array(colour)
    return _encode((rgb * 255).round().astype(np.uint8))


def bars(values: Array, limits: tuple[float, float]) -> str:
    """One bar a feature, as a data URI; red above zero, blue below."""
    figures = package("matplotlib.figure", extra="audit", purpose=_PURPOSE)
    flat = np.nan_to_num(values.ravel())
    figure = figures.Figure(figsize=(2.0, 1.0), dpi=80)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    colours = np.where(flat < 0, "#4393c3", "#d6604d")
    if len(flat) > _BARS:
        axes.vlines(np.arange(len(flat)), 0, flat, colors=colours, linewidth=1)
    else:
        axes.bar(np.arange(len(flat)), flat, width=0.9, color=colours)
    axes.axhline(0, color="#888888", linewidth=0.8)
    axes.set_ylim(min(limits[0], 0), max(limits[1], 0))
    axes.set_xlim(-0.6, len(flat) - 0.4)
    out = BytesIO()
    figure.savefig(out, format="png", transparent=True)
    return _uri(out.getvalue(), "png")


def _squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    """Without leading axes of one."""
    sizes = tuple(shape)
    while len(sizes) > 1 and sizes[0] == 1:
        sizes = sizes[1:]
    return sizes


def _encode(pixels: NDArray[np.uint8]) -> str:
    """The smaller of PNG and, for large pictures, JPEG."""
    images: Any = package("PIL.Image", extra="audit", purpose=_PURPOSE)
    image = images.fromarray(pixels)
    large = max(image.size) > SIDE
    if large:
        image.thumbnail((SIDE, SIDE))
    out = BytesIO()
    kind = "jpeg" if large else "png"
    image.save(out, format=kind, **({"quality": 85} if large else {"optimize": True}))
    return _uri(out.getvalue(), kind)


def _uri(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
