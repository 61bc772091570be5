from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
from attribound.attacks import IFIA, PGD, TopK
from attribound.basics.errors import InputError
from attribound.zoo.protocol import PROTOCOLS, Ball, Explanation, protocol_of
from cases import tabular


@pytest.mark.parametrize(("norm", "p"), [("l1", 1), ("l2", 2), ("linf", math.inf)])
def test_balls(norm, p) -> None:
    ball = Ball(norm=norm, epsilon=0.1, low=0.0, high=None)()
    assert ball == ab.LpBall(0.1, p, low=0)


def test_the_protocols_are_those_of_the_paper() -> None:
    mnist, cifar = protocol_of("mnist"), protocol_of("cifar10")
    assert mnist.predictions.ball() == ab.LinfBall(0.3, low=0, high=1)
    assert mnist.predictions.attack == PGD(steps=40, step_size=2.5 * 0.3 / 40)
    assert cifar.attributions.attack == IFIA(TopK(1000), steps=50, step_size=2.5 * 4 / 255 / 50)


def test_the_whole_test_set_if_asked_for() -> None:
    few = protocol_of("mnist")
    assert few.predictions.images == 2000
    assert few.whole().predictions.images is None
    assert few.whole().attributions == few.attributions
    assert few.whole().limited(7).predictions.images == 7


def test_no_protocol_for_other_data() -> None:
    with pytest.raises(InputError, match="protocol: expected data among digits, mnist"):
        protocol_of("mine")


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_limit_lowers_every_number_of_images(name) -> None:
    few = protocol_of(name).limited(7)
    assert (few.images, few.predictions.images, few.attributions.images) == (7, 7, 7)
    assert few.limited(9) == few
    own = protocol_of(name)
    assert own.limited(10**6).attributions.images == own.attributions.images


def test_explanations() -> None:
    model, x = tabular()
    saliency = Explanation(method="saliency", steps=1, baseline=0.0, quadrature="midpoint")
    torch.testing.assert_close(saliency(model)(x), ab.Saliency(model)(x))
    ig = Explanation(method="integrated_gradients", steps=3, baseline=0.5, quadrature="midpoint")
    torch.testing.assert_close(ig(model)(x), ab.IntegratedGradients(model, 3, 0.5, "midpoint")(x))
