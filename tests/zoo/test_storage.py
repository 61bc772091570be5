from __future__ import annotations

import json

import pytest

import tiny_zoo
from attribound.basics.errors import InputError
from attribound.zoo.storage import (
    read_card,
    to_json,
    write_card,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return tiny_zoo.make(tmp_path_factory.mktemp("zoo"))


def test_a_card_comes_back_as_it_was(made, tmp_path) -> None:
    write_card(made, tmp_path / "new" / "card.json")
    assert read_card(tmp_path / "new" / "card.json") == made
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["card.json"]


def leaves(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ((f"{key}.{path}", leaf) for path, leaf in leaves(inner))
    elif not isinstance(value, list):
        yield "", value


def test_numbers_are_numbers(made) -> None:
    """The only texts are names, digests, versions, licences and the date."""
    for path, leaf in leaves(json.loads(to_json(made))):
        if isinstance(leaf, str) and not path.startswith(("date", "versions", "licence")):
            assert not leaf.replace(".", "").isdigit(), path


def put(value, *path):
    def change(card):
        for key in path[:-1]:
            card = card[key]
        card[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(1, "colour"), "first in colour: Unexpected"),
        (put(1, "measured", "clean", "colour"), "first in measured.clean.colour: Unexpected"),
        (
            put(1, "measured", "protocol", "predictions", "ball", "x"),
            "predictions.ball.x: expected",
        ),
        (lambda card: card.pop("commit"), "first in commit: Field required"),
        (lambda card: card["measured"]["similarity"].pop("k"), "similarity.k: Field required"),
        (put("12", "seed"), "first in seed: Input should be a valid integer"),
        (put("0.5", "measured", "similarity", "kendall", "value"), "valid number"),
        (put(41, "measured", "clean", "count"), "got 41 of 40"),
        (put("ABC", "weights", "sha256"), "sha256: expected 64 hexadecimal digits"),
        (put({"name": "x", "sha256": "0" * 64}, "warm_start"), "name of a model: expected <data>"),
        (put("linfty", "measured", "protocol", "predictions", "ball", "kind"), "got 'linfty'"),
        (put("nowhere", "name"), "name of a model: expected <data>/<method>"),
    ],
)
def test_refuses_what_is_no_card(made, tmp_path, change, message) -> None:
    card = json.loads(to_json(made))
    change(card)
    path = tmp_path / "card.json"
    path.write_text(json.dumps(card))
    with pytest.raises(InputError, match=r"card card\.json: expected every key") as error:
        read_card(path)
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"cpu_seconds": NaN}'])
def test_refuses_what_is_no_json_object(tmp_path, text) -> None:
    (tmp_path / "card.json").write_text(text)
    with pytest.raises(InputError, match=r"card card\.json: expected every key of a card"):
        read_card(tmp_path / "card.json")
