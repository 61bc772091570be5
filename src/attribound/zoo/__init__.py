"""Trained models by name, each with a card that says how it was made and what it is worth."""

from attribound.zoo.catalogue import card, cards, load, names, path
from attribound.zoo.leaderboard import markdown
from attribound.zoo.naming import check_describes, check_name
from attribound.zoo.packs import is_unpacked, pack
from attribound.zoo.places import find, own_directory, shipped_directory
from attribound.zoo.protocol import AttributionCheck, CardProtocol, PredictionCheck
from attribound.zoo.record import Card, Licence, Measurement, WarmStart, Weights
from attribound.zoo.storage import parse_card, to_json, write_card

__all__ = [
    "AttributionCheck",
    "Card",
    "CardProtocol",
    "Licence",
    "Measurement",
    "PredictionCheck",
    "WarmStart",
    "Weights",
    "card",
    "cards",
    "check_describes",
    "check_name",
    "find",
    "is_unpacked",
    "load",
    "markdown",
    "names",
    "own_directory",
    "pack",
    "parse_card",
    "path",
    "shipped_directory",
    "to_json",
    "write_card",
]
