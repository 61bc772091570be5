"""Encoded images (files or bytes) as examples, decoded when read."""

from __future__ import annotations

import io
import math
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.basics.limits import MOST_VALUES
from attribound.basics.packages import package
from attribound.data.examples import Examples

if TYPE_CHECKING:
    from typing_extensions import Self

_FORMATS = ("JPEG", "PNG")
#: Pillow's modes of grey images, 16-bit ones ("I;16") without their ending.
_GREY = ("1", "L", "LA", "I")
#: Of one image: decoded it takes about 400 MB, whatever the size of its file.
MOST_PIXELS = 2**25
_UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, struct.error)


@dataclass(frozen=True)
class Encoded:
    """One encoded image: what to call it in errors, and its file or bytes."""

    subject: str
    content: Path | bytes


@dataclass(frozen=True)
class Frame:
    """What every image becomes: ``channels`` (1 or 3) of ``height`` x ``width``.

    An image of another size is scaled until its shorter side is ``short_side``
    (bilinear, antialiased) and its centre is cut out; one of that size is left
    as it is.
    """

    channels: int
    height: int
    width: int
    short_side: int

    @classmethod
    def square(cls, channels: int, size: int, short_side: int | None = None) -> Self:
        """A square; by default 7/8 of the shorter side are kept, as is usual for ImageNet."""
        return cls(
            channels, size, size, round(size * 256 / 224) if short_side is None else short_side
        )


class Images(Examples):
    """Encoded images with labels; ``read`` decodes them.

    Grey images are repeated over three channels where three are wanted;
    transparent ones lie on white. Orientation tags are not applied, as in the
    usual ImageNet pipelines.
    """

    def __init__(
        self,
        name: str,
        images: Sequence[Encoded],
        labels: Tensor,
        classes: Sequence[str],
        frame: Frame,
    ) -> None:
        super().__init__(name, labels, classes, (frame.channels, frame.height, frame.width))
        self._images = images
        self._frame = frame

    def read(self, indices: Tensor) -> Tensor:
        pixels = torch.empty(len(indices), *self.shape)
        for row, index in zip(pixels, indices.tolist(), strict=True):
            row.copy_(torch.from_numpy(_decode(self._images[index], self._frame)))
        return pixels / 255

    def select(self, indices: Tensor) -> Self:
        chosen = super().select(indices)
        chosen._images = [self._images[i] for i in torch.arange(len(self))[indices].tolist()]
        return chosen


def common_frame(name: str, images: Sequence[Encoded], size: int | None) -> Frame:
    """The frame for these images, from their headers.

    Grey if all are grey. Without ``size`` all must have the same size.

    Raises:
        InputError: the sizes differ and none was chosen, or an image cannot be opened.
    """
    grey, first = True, None
    for image in images:
        with _opened(image) as opened:
            grey = grey and opened.mode.partition(";")[0] in _GREY
            first = first or (image.subject, opened.size)
            if size is None and opened.size != first[1]:
                raise InputError(
                    name,
                    expected="images of one size",
                    got=f"{_by(first[1])} in {first[0]} and {_by(opened.size)} in {image.subject}",
                    remedy="pass size= to scale and crop them to size x size",
                )
    if first is None:
        raise InputError(name, expected="images", got="none", remedy="put JPEG or PNG files there")
    channels = 1 if grey else 3
    if size is not None:
        if size < 1 or channels * size**2 > MOST_VALUES:
            raise InputError(
                "size",
                expected=f"1 or more, and images of at most {MOST_VALUES:,} values",
                got=f"{size}, {channels * size**2:,} values",
                remedy="use what the network takes, e.g. 224",
            )
        return Frame.square(channels, size)
    width, height = first[1]
    return Frame(channels, height, width, min(width, height))


def no_images(name: str) -> InputError:
    """The error for a ``size`` where nothing can be scaled."""
    return InputError(
        name,
        expected="images of any size, for size=",
        got="data of a fixed shape",
        remedy="leave size out",
    )


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


def _decode(image: Encoded, frame: Frame) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Bytes of shape ``(channels, height, width)``."""
    with _opened(image) as opened:
        try:
            opened.load()
        except _UNREADABLE as error:
            raise _broken(image, error) from error
        _refuse_thin(image, opened.size, frame)
        picture = _fitted(_plain(opened, "L" if frame.channels == 1 else "RGB"), frame)
        pixels = np.array(picture, dtype=np.uint8)
    return pixels[None] if frame.channels == 1 else pixels.transpose(2, 0, 1)


def _opened(image: Encoded) -> Any:
    pillow = package("PIL.Image", extra="data", purpose="images")
    content = image.content
    source = io.BytesIO(content) if isinstance(content, bytes) else content
    if isinstance(content, Path) and not content.is_file():
        raise _broken(image, OSError("no file, but a folder, a pipe or a device"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.DecompressionBombWarning)  # our limit is below
            opened = pillow.open(source, formats=_FORMATS)
    except (*_UNREADABLE, pillow.DecompressionBombError) as error:
        raise _broken(image, error) from error
    if math.prod(opened.size) > MOST_PIXELS:
        opened.close()
        raise InputError(
            image.subject,
            expected=f"at most {MOST_PIXELS:,} pixels",
            got=f"{_by(opened.size)}",
            remedy="make it smaller before: no network takes so many",
        )
    return opened


def _broken(image: Encoded, error: Exception) -> InputError:
    return InputError(
        image.subject,
        expected="a whole JPEG or PNG image",
        got=str(error) or type(error).__name__,
        remedy="the file is damaged: replace or remove it",
    )


def _plain(opened: Any, mode: str) -> Any:
    """An 8-bit picture of ``mode`` ("L" or "RGB"), without transparency."""
    pillow = package("PIL.Image", extra="data", purpose="images")
    if opened.mode[0] == "I":
        # Pillow would clip 16 bits to 255 instead of scaling them.
        opened = pillow.fromarray((np.asarray(opened) / 257).round().astype(np.uint8))
    if opened.has_transparency_data:
        opened = opened.convert("RGBA")
        white = pillow.new("RGBA", opened.size, "white")
        opened = pillow.alpha_composite(white, opened)
    return opened.convert(mode)


def _refuse_thin(image: Encoded, size: tuple[int, int], frame: Frame) -> None:
    """Refuse what would be huge when its shorter side is as long as is wanted."""
    scaled = max(size) * frame.short_side // min(size)
    if scaled * frame.short_side > MOST_PIXELS and size != (frame.width, frame.height):
        raise InputError(
            image.subject,
            expected=f"at most {MOST_PIXELS:,} pixels, scaled until a side has {frame.short_side}",
            got=f"{scaled} x {frame.short_side} of {_by(size)}",
            remedy="cut it before: nearly all of it would be cut off",
        )


def _fitted(picture: Any, frame: Frame) -> Any:
    pillow = package("PIL.Image", extra="data", purpose="images")
    width, height = picture.size
    if (width, height) == (frame.width, frame.height):
        return picture
    short = min(width, height)
    scaled = [frame.short_side * side // short for side in (width, height)]
    picture = picture.resize(scaled, pillow.Resampling.BILINEAR)
    left, top = round((scaled[0] - frame.width) / 2), round((scaled[1] - frame.height) / 2)
    return picture.crop((left, top, left + frame.width, top + frame.height))
