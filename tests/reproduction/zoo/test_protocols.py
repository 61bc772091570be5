from __future__ import annotations

import pytest

import attribound as ab
from attribound.attacks import IFIA, PGD, TopK
from reproduction.zoo.protocols import PROTOCOLS, protocol_of


def test_the_protocols_are_those_of_the_paper() -> None:
    mnist, cifar = protocol_of("mnist"), protocol_of("cifar10")
    assert mnist.predictions.ball == ab.LinfBall(0.3, low=0, high=1)
    assert mnist.predictions.attack == PGD(steps=40, step_size=2.5 * 0.3 / 40)
    assert cifar.attributions.attack == IFIA(TopK(1000), steps=50, step_size=2.5 * 4 / 255 / 50)


def test_no_protocol_for_other_data() -> None:
    with pytest.raises(ab.InputError, match="protocol: expected data among digits, mnist"):
        protocol_of("mine")


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_limit_lowers_every_number_of_images(name) -> None:
    few = protocol_of(name).limited(7)
    assert (few.images, few.predictions.images, few.attributions.images) == (7, 7, 7)
    assert few.limited(9) == few
    own = protocol_of(name)
    assert own.limited(10**6).attributions.images == own.attributions.images


@pytest.mark.parametrize("name", PROTOCOLS)
def test_it_is_what_the_cards_of_its_data_say(name) -> None:
    """Up to the number of images, which some have more of."""
    for card in ab.zoo.cards():
        if card.data == name:
            found = card.measured.protocol.limited(1)
            assert found == protocol_of(name).limited(1)
