"""How models are measured, and by which protocols."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import attribound as ab
import tiny_zoo
from attribound.attacks import IFIA, PGD, TopK
from attribound.metrics import Mean, Share, attacked_accuracy, attribution_similarity
from attribound.models import build
from reproduction.zoo.comparison import Remeasured, compare
from reproduction.zoo.measuring import images_of, measure
from reproduction.zoo.protocols import PROTOCOLS, protocol_of


@pytest.fixture(scope="module")
def case():
    torch.manual_seed(0)
    return build(tiny_zoo.CONFIG).eval(), *images_of("digits")


def test_each_number_has_its_own_images(case) -> None:
    model, x, y = case
    usual = tiny_zoo.quick()
    protocol = replace(usual, images=None, predictions=replace(usual.predictions, images=30))
    measured = measure(model, x, y, protocol)
    right = (model(x).argmax(1) == y).tolist()
    assert measured.protocol == protocol
    assert measured.clean == Share(sum(right), len(x))
    assert measured.first == measured.clean  # digits has fewer than 1,000
    attack, ball = protocol.predictions.attack, protocol.predictions.ball
    assert measured.attacked == attacked_accuracy(model, x[:30], y[:30], ball, attack)
    # The fifth correct image is the last one looked at.
    end = [i for i, is_right in enumerate(right) if is_right][4] + 1
    other = protocol.attributions
    attribution = ab.IntegratedGradients(model, 5, quadrature="midpoint")
    assert measured.similarity == attribution_similarity(
        attribution, x[:end], y[:end], other.ball, other.attack, other.k
    )
    assert measured.similarity.misclassified == end - 5


def test_the_first_thousand_are_counted_apart(case) -> None:
    model, x, y = case
    many, labels = x.repeat(4, 1, 1, 1), y.repeat(4)
    usual = tiny_zoo.quick()
    measured = measure(model, many, labels, replace(usual, images=1200))
    right = model(many[:1200]).argmax(1) == labels[:1200]
    assert measured.clean == Share(int(right.sum()), 1200)
    assert measured.first == Share(int(right[:1000].sum()), 1000)
    assert measured.clean.value != measured.first.value


def test_measuring_again_gives_the_same(case) -> None:
    model, x, y = case
    first = measure(model, x, y, tiny_zoo.quick())
    assert measure(model, x, y, tiny_zoo.quick(), progress=True) == first
    assert all(difference.agrees for difference in compare(first, first))


def test_all_images_may_be_explained(case) -> None:
    model, x, y = case
    usual = tiny_zoo.quick()
    protocol = replace(
        usual,
        attributions=replace(
            usual.attributions, images=None, attack=replace(usual.attributions.attack, steps=1)
        ),
    )
    measured = measure(model, x[:20], y[:20], protocol)
    assert measured.similarity.n + measured.similarity.misclassified == 20


def test_nothing_right_is_measured_too(case) -> None:
    model, x, y = case
    wrong = (model(x).argmax(1) + 1) % 10
    measured = measure(model, x, wrong, tiny_zoo.quick())
    assert measured.clean == Share(0, 40)
    assert measured.similarity is None
    assert [d.what for d in compare(measure(model, x, y, tiny_zoo.quick()), measured)] == [
        "clean",
        "attacked",
    ]


@pytest.mark.parametrize(("after", "agrees"), [(0.5, True), (0.52, True), (0.53, False)])
def test_two_standard_errors_decide(after, agrees) -> None:
    assert Remeasured("kendall", 0.5, after, 0.0125).agrees is agrees


def test_another_model_is_noticed(case) -> None:
    """What `python -m reproduction.zoo measure` is for."""
    model, x, y = case
    measured = measure(model, x, y, tiny_zoo.quick())
    other = replace(
        measured,
        clean=Share(39, 40),
        similarity=replace(measured.similarity, kendall=Mean(0.1, 0.01, 5)),
    )
    differing = {d.what for d in compare(measured, other) if not d.agrees}
    assert differing == {"clean", "kendall"}


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
