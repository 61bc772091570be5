"""The models that ship: each is what its card says."""

from __future__ import annotations

from pathlib import Path

import pytest

import shared
from attribound import data, models, zoo
from attribound.basics.whole_files import sha256_of
from attribound.metrics import clean_accuracy
from attribound.zoo.naming import check_describes
from attribound.zoo.packs import contents
from attribound.zoo.places import PACKAGED
from reproduction.zoo.measuring import FIRST

#: Where the card lies says which models ship; others may be in a directory of the developer's.
CARDS = sorted(file.relative_to(PACKAGED) for file in PACKAGED.rglob("*.json"))
PACKED = [file.removesuffix(".json") for file in contents(PACKAGED) if file.endswith(".json")]
NAMES = [file.with_suffix("").as_posix() for file in CARDS] + PACKED
DEFAULT = Path("/usr/share/datasets/fashion-mnist")


def weights_of(name: str) -> Path:
    if name in PACKED:
        return zoo.path(name)
    beside = PACKAGED / f"{name}.safetensors"
    kept = Path(__file__).resolve().parents[2] / "zoo" / "models" / f"{name}.safetensors"
    return beside if beside.is_file() else shared.needed(kept, "it is in the whole repository")


def images_of(name: str):
    if name in ("digits", "credit-german"):
        return data.arrays(data.load(name, "test"))
    if name == "fashion-mnist":
        shared.needed(DEFAULT, "install dataset-fashion-mnist")
        return data.arrays(data.load(name, "test", download=False))
    if name == "credit-taiwan":
        root = shared.shared("credit", "taiwan.csv").parents[1]
        return data.arrays(data.load(name, "test", root=root))
    root = shared.shared(name).parent
    return data.arrays(data.load(name, "test", root=root, download=False))


def test_every_weight_in_the_package_has_a_card() -> None:
    weights = {
        file.relative_to(PACKAGED).with_suffix("") for file in PACKAGED.rglob("*.safetensors")
    }
    assert weights <= {card.with_suffix("") for card in CARDS}


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_whole_and_says_what_its_name_says(name) -> None:
    card = zoo.card(name)
    check_describes(name, card.data, card.method, card.network["architecture"])
    assert models.config_from_json(card.network).to_json() == card.network
    assert card.training["settings"]["seed"] == card.seed
    assert card.training["settings"]["epochs"] == card.epochs
    assert card.measured.similarity is not None
    if card.warm_start is not None and card.warm_start.name in NAMES:
        assert zoo.card(card.warm_start.name).weights.sha256 == card.warm_start.sha256


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_have_the_checksum_of_the_card(name) -> None:
    card, file = zoo.card(name), weights_of(name)
    assert sha256_of(file) == card.weights.sha256
    assert file.stat().st_size == card.weights.bytes


@pytest.mark.parametrize("name", NAMES)
def test_the_accuracy_on_1000_images_is_that_of_the_card(name) -> None:
    card = zoo.card(name)
    model = models.load(weights_of(name), models.config_from_json(card.network))
    x, y = images_of(card.data)
    found = clean_accuracy(model, x[:FIRST], y[:FIRST])
    assert found.n == card.measured.first.n
    # One image: where two logits are equal to the last digit, processors may differ.
    assert abs(found.count - card.measured.first.count) <= 1
