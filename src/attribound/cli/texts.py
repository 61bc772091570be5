"""Options that are texts, as plain settings: balls with their radii, lists of names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attribound.basics.errors import InputError
from attribound.basics.later import Later

if TYPE_CHECKING:
    from attribound import values
else:
    values = Later("attribound.values")


def balls(
    texts: Sequence[str] | None, eps: Sequence[str] | None, before: object = ()
) -> list[dict[str, Any]] | None:
    """A table for each ball, with its own radii or the only ones.

    Radii without balls are for those of ``before``, the settings of a file, if there are any.
    """
    if not texts and not eps:
        return None
    lists = [_radii(each) for each in eps or ["0.1"]]
    shapes = [values.parse_text(text) for text in texts or ()]
    shapes = shapes or _shapes(_list(before)) or [{"kind": "l2"}]
    if len(lists) not in (1, len(shapes)):
        raise InputError(
            "--eps",
            expected=f"once for all balls, or {len(shapes)} times, once for each",
            got=f"{len(lists)} times",
            remedy="write several radii of one ball as --eps 0.05,0.1",
        )
    each = lists if len(lists) == len(shapes) else lists * len(shapes)
    return [{"epsilon": radii, **ball} for ball, radii in zip(shapes, each, strict=True)]


def _shapes(balls: Sequence[Any]) -> list[dict[str, Any]]:
    """The balls of a file without their radii, each once."""
    tables = [values.parse_text(each) if isinstance(each, str) else each for each in balls]
    found: list[dict[str, Any]] = []
    for table in tables:
        shape = {name: value for name, value in table.items() if name != "epsilon"}
        if shape not in found:
            found.append(shape)
    return found


def _list(value: object) -> list[Any]:
    """``value`` if it is a list; what else a file has there is refused with the other settings."""
    return value if isinstance(value, list) else []


def several(texts: Sequence[str] | None) -> list[str] | None:
    """What was given again and again; names without settings also with commas."""
    if texts is None:
        return None
    split = [[text] if ":" in text else text.split(",") for text in texts]
    return [each.strip() for part in split for each in part]


def _radii(text: str) -> list[float]:
    try:
        return [float(each) for each in text.split(",")]
    except ValueError as error:
        raise InputError(
            "--eps", expected="numbers with commas", got=repr(text), remedy="write e.g. 0.05,0.1"
        ) from error
