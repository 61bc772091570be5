"""Names, protocols and files of the zoo."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import attribound as ab
import tiny_zoo
from attribound.attacks import IFIA, MassCentre, TopK
from attribound.basics.errors import InputError
from attribound.values import from_spec, to_spec
from attribound.zoo import AttributionCheck, CardProtocol
from attribound.zoo.naming import check_describes, check_name, unknown
from attribound.zoo.storage import (
    read_card,
    to_json,
    write_card,
)

PROTOCOL = tiny_zoo.quick()


def test_it_is_its_own_setting() -> None:
    plain = to_spec(PROTOCOL, whole=True)
    assert plain["predictions"]["ball"]["kind"] == "linf"
    assert plain["attributions"]["attack"]["objective"] == {"kind": "top_k", "k": 8}
    assert from_spec(plain, CardProtocol) == PROTOCOL


def test_any_attribution_and_ball_can_be_measured_with() -> None:
    other = replace(
        PROTOCOL.attributions, attribution=ab.Saliency(), ball=ab.L2Ball(0.3), attack=IFIA(TopK(3))
    )
    changed = replace(PROTOCOL, attributions=other)
    again = from_spec(to_spec(changed, whole=True), CardProtocol)
    assert again.attributions == other
    assert (again.attributions.k, again.attributions.attribution.name) == (3, "saliency")


@pytest.mark.parametrize("objective", [MassCentre(), TopK()])
def test_an_attack_without_a_number_of_features_is_refused(objective) -> None:
    own = PROTOCOL.attributions
    with pytest.raises(ab.InputError, match="expected IFIA on the k most important features"):
        AttributionCheck(
            images=None, attribution=own.attribution, ball=own.ball, attack=IFIA(objective)
        )


def test_the_whole_test_set_if_asked_for() -> None:
    few = PROTOCOL
    assert few.predictions.images == 40
    assert few.whole().predictions.images is None
    assert few.whole().attributions == few.attributions
    assert few.whole().limited(7).predictions.images == 7


KNOWN = ("fashion-mnist/at", "fashion-mnist/trades-igr", "mnist/at")


@pytest.mark.parametrize("name", [*KNOWN, "cifar10/at-resnet18"])
def test_names(name) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["at", "../at", "mnist/../at", "mnist/.at", "/at", "mnist/at/x", "MNIST/at", "mnist/", 3],
)
def test_refuses_what_is_no_name(name) -> None:
    with pytest.raises(InputError, match="expected <data>/<method>"):
        check_name(name)


@pytest.mark.parametrize(
    ("name", "data", "method", "architecture"),
    [
        ("mnist/at", "mnist", "at", "small_cnn"),
        ("mnist/trades-igr", "mnist", "trades+igr", "small_cnn"),
        ("mnist/ce-mlp", "mnist", "ce", "mlp"),
        ("mnist/ce-small-cnn", "mnist", "ce", "small_cnn"),
        ("cifar10/trades-igr-resnet18-wide", "cifar10", "trades+igr", "resnet18"),
    ],
)
def test_names_that_say_what_a_model_is(name, data, method, architecture) -> None:
    check_describes(name, data, method, architecture)


@pytest.mark.parametrize(
    ("name", "data", "method", "architecture"),
    [
        ("fashion-mnist/at", "mnist", "at", "small_cnn"),
        ("mnist/trades-igr", "mnist", "trades", "small_cnn"),
        ("mnist/trades", "mnist", "trades+igr", "small_cnn"),
        ("mnist/at-mlp", "mnist", "at", "small_cnn"),
        ("mnist/at-mlpx", "mnist", "at", "mlp"),
    ],
)
def test_refuses_names_that_say_something_else(name, data, method, architecture) -> None:
    with pytest.raises(InputError, match="for that is what it is, got"):
        check_describes(name, data, method, architecture)


def test_an_unknown_name_gives_the_nearest() -> None:
    message = str(unknown("fashion-mnist/trades-irg", KNOWN))
    assert "such as fashion-mnist/trades-igr" in message
    assert "attribound.zoo.names()" in message


def test_a_name_like_no_other_gives_none() -> None:
    assert "expected a model of the zoo, got 'xyz'" in str(unknown("xyz", KNOWN))


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
