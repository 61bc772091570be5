"""Trained models by name, each with a card that says how it was made and what it is worth."""

from attribound.zoo.catalogue import card, cards, load, names, path
from attribound.zoo.leaderboard import markdown
from attribound.zoo.measuring import measure
from attribound.zoo.protocol import PROTOCOLS, Protocol, protocol_of
from attribound.zoo.record import Card, Licence, Measured, WarmStart, Weights

__all__ = [
    "PROTOCOLS",
    "Card",
    "Licence",
    "Measured",
    "Protocol",
    "WarmStart",
    "Weights",
    "card",
    "cards",
    "load",
    "markdown",
    "measure",
    "names",
    "path",
    "protocol_of",
]
