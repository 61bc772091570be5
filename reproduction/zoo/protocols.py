"""How the models of each data set are measured."""

from __future__ import annotations

import attribound as ab
from attribound.attacks import IFIA, PGD, TopK
from attribound.auditing import FeatureMoments, TableSettings, ball_in_units
from attribound.data import load
from attribound.zoo import AttributionCheck, CardProtocol, PredictionCheck


def protocol_of(data: str) -> CardProtocol:
    """The usual protocol for a data set.

    Raises:
        InputError: there is none for it.
    """
    if data in TABLES:
        return _columns(data)
    if data not in PROTOCOLS:
        raise ab.InputError(
            "protocol",
            expected=f"data among {', '.join((*PROTOCOLS, *TABLES))}",
            got=repr(data),
            remedy="give a CardProtocol of your own",
        )
    return PROTOCOLS[data]


def _pixels(
    predictions: tuple[float, int],
    attributions: tuple[float, int, int],
    images: tuple[int | None, int] = (None, 200),
) -> CardProtocol:
    """Cubes around pixels in [0, 1]: (epsilon, steps) and (epsilon, steps, k), images of each."""
    (epsilon, steps), (radius, iterations, k) = predictions, attributions
    return CardProtocol(
        images=None,
        predictions=PredictionCheck(
            images=images[0],
            ball=ab.LinfBall(epsilon, low=0.0, high=1.0),
            attack=PGD(steps=steps, step_size=2.5 * epsilon / steps),
        ),
        attributions=AttributionCheck(
            images=images[1],
            attribution=ab.IntegratedGradients(steps=5, quadrature="midpoint"),
            ball=ab.LinfBall(radius, low=0.0, high=1.0),
            attack=IFIA(TopK(k), steps=iterations, step_size=2.5 * radius / iterations),
        ),
    )


def _columns(data: str) -> CardProtocol:
    """Balls of 0.1 standard deviations of the training part, categories frozen; four reasons."""
    train = load(data, "train")
    assert train.columns is not None
    moments = FeatureMoments.of(train)
    cube, ball = (
        ball_in_units(each, TableSettings(), train.columns, moments)
        for each in (ab.LinfBall(0.1), ab.L2Ball(0.1))
    )
    mean = moments.mean.float()
    return CardProtocol(
        images=None,
        predictions=PredictionCheck(images=1000, ball=cube, attack=PGD(steps=20, step_size=0.0125)),
        attributions=AttributionCheck(
            images=200,
            attribution=ab.IntegratedGradients(
                steps=5,
                quadrature="midpoint",
                baseline=mean,
                label="ig:steps=5,quadrature=midpoint from the mean",
            ),
            ball=ball,
            attack=IFIA(TopK(4), steps=50, step_size=0.005),
        ),
    )


#: Data of named columns.
TABLES = ("credit-german", "credit-taiwan")

#: By data set. Radii of the attack on predictions are those models are trained against;
#: fewer images where one costs more.
PROTOCOLS: dict[str, CardProtocol] = {
    "digits": _pixels((0.1, 20), (0.05, 50, 8)),
    "mnist": _pixels((0.3, 40), (0.05, 50, 100), (2000, 200)),
    "fashion-mnist": _pixels((0.1, 20), (0.05, 50, 100)),
    "cifar10": _pixels((8 / 255, 20), (4 / 255, 50, 1000), (2000, 100)),
    "flowers17": _pixels((8 / 255, 20), (4 / 255, 50, 1000), (None, 50)),
}
