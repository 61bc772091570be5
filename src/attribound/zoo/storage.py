"""Cards as JSON files: read strictly, written whole."""

from __future__ import annotations

import functools
import importlib
import json
from pathlib import Path
from typing import Any

from attribound.basics.errors import InputError
from attribound.basics.whole_files import write_whole
from attribound.values import to_spec
from attribound.zoo.record import Card


def read_card(path: Path) -> Card:
    """The card in a JSON file.

    Raises:
        InputError: a key is unknown or missing, or a value not of its type: numbers
            must be numbers.
    """
    return parse_card(path.read_bytes(), path.name)


def parse_card(text: str | bytes, subject: str) -> Card:
    """The card that is ``text``; errors call it ``subject``."""
    adapter, invalid = _adapter()
    try:
        card: Card = adapter.validate_json(text, strict=True)
    except invalid as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise InputError(
            f"card {subject}",
            expected="every key of a card, no other, each of its type",
            got=f"{error.error_count()} faults, first in {where}: {first['msg']}",
            remedy="restore the file, and read cards of a newer attribound with that one",
        ) from error
    return card


def to_json(card: Card) -> str:
    """The text of the card's file."""
    adapter, _ = _adapter()
    # Without warnings: values that are not of their type are an error when it is read.
    plain: dict[str, Any] = adapter.dump_python(
        card, mode="json", warnings=False, exclude={"measured": {"protocol"}}
    )
    protocol = to_spec(card.measured.protocol, whole=True)
    plain["measured"] = {"protocol": protocol, **plain["measured"]}
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def write_card(card: Card, path: Path) -> None:
    """Write ``card`` to ``path``; the file is complete or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, to_json(card).encode())


@functools.cache
def _adapter() -> tuple[Any, type[Any]]:
    """Pydantic's reader of cards, and its error; on demand, for bounds do without it."""
    pydantic = importlib.import_module("pydantic")
    return pydantic.TypeAdapter(Card), pydantic.ValidationError
