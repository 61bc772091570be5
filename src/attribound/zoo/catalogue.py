"""The models of the zoo by name: their cards, their files, themselves."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from attribound.basics.errors import InputError
from attribound.basics.whole_files import sha256_of
from attribound.models import config_from_json
from attribound.models import load as load_network
from attribound.zoo.naming import check_name, unknown
from attribound.zoo.packs import contents
from attribound.zoo.places import find, own_directory, places
from attribound.zoo.record import Card
from attribound.zoo.storage import read_card


def names() -> tuple[str, ...]:
    """All names, of models whose weights are here and of those known by their card only."""
    found = {
        card.relative_to(place).with_suffix("").as_posix()
        for place in places()
        for card in place.glob("[!.]*/[!.]*.json")
    }
    packed = (file for place in places() for file in contents(place))
    found |= {file.removesuffix(".json") for file in packed if file.endswith(".json")}
    return tuple(sorted(found))


def card(name: str) -> Card:
    """The card of the model ``name``.

    Raises:
        InputError: there is no such model (the nearest names are given), or its card
            is damaged.
    """
    file = find(f"{check_name(name)}.json")
    if file is None:
        raise unknown(name, names())
    found = read_card(file)
    if found.name != name:
        raise InputError(
            f"card {file}",
            expected=f"the card of {name}",
            got=f"that of {found.name}",
            remedy="the file has the wrong name: move it",
        )
    return found


def cards() -> tuple[Card, ...]:
    """All cards, by name."""
    return tuple(card(name) for name in names())


def path(name: str) -> Path:
    """The weights of the model ``name``, a safetensors file with the checksum of its card.

    Raises:
        InputError: there is no such model; its weights are not here (the message says
            which file to put where); or they are not those of the card.
    """
    wanted = card(name).weights
    file = find(f"{name}.safetensors")
    if file is None:
        raise InputError(
            f"weights of {name}",
            expected=f"{name}.safetensors ({wanted.bytes:,} bytes, sha256 {wanted.sha256})",
            got="no such file",
            remedy="install attribound-zoo, which has the weights of all (pip install ./zoo in a "
            f"clone); or put it at {own_directory() / name}.safetensors, or set ATTRIBOUND_ZOO "
            "to the directory that has it",
        )
    digest = sha256_of(file)
    if digest != wanted.sha256:
        raise InputError(
            f"weights of {name}",
            expected=f"a file with sha256 {wanted.sha256}, {wanted.bytes:,} bytes",
            got=f"sha256 {digest}, {file.stat().st_size:,} bytes in {file}",
            remedy="the file is damaged or of another model: replace it",
        )
    return file


def load(name: str) -> nn.Module:
    """The model ``name`` in eval mode, on the CPU, ready to be bounded.

    The file must have the checksum of the card, and be of the network the card says.

    Raises:
        InputError: as :func:`card` and :func:`path`.
    """
    return load_network(path(name), config_from_json(card(name).network))
