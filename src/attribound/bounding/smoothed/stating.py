"""What is known of the average of one example, stated as a bound."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attribound.attributions import Attribution
from attribound.basics.tensors import round_up
from attribound.bounding.method import Question
from attribound.bounding.smoothed.averaging import ExampleAverage
from attribound.bounding.smoothed.reach import Reach
from attribound.bounding.smoothed.turning import Turning
from attribound.results import Bracket, SmoothedBound, Status, averaged_title, claim_named

#: Cosine with the attribution at x below which the averaged map is called another explanation.
ALIKE = 0.7


def reservations(attribution: Attribution, example: ExampleAverage, degrees: float) -> Status:
    """What is to be said against the bound of an example; kinks are nothing to an average."""
    status = attribution.reserved & ~Status.KINKED
    if degrees >= 180:
        status |= Status.ANGLE_UNBOUNDED
    if example.average.shown_length == 0:
        status |= Status.ZERO_ATTRIBUTION
    if example.similarity < ALIKE:
        status |= Status.ANOTHER_EXPLANATION
    if example.misclassified:
        status |= Status.MISCLASSIFIED
    return status


def stated(
    question: Question, row: slice, example: ExampleAverage, turning: Turning, to: Reach
) -> SmoothedBound:
    """The bound of one example in its ball."""
    x = question.x[row]
    known = example.average
    degrees, form = turning.moves(to.shift)
    distance = turning.distance(to.shift)

    def up(value: float) -> Tensor:
        return round_up(torch.tensor([value], dtype=torch.float64), x)

    euclidean, angle = up(distance), up(degrees)
    cosine = up(2 * math.sin(math.radians(degrees) / 2) ** 2)
    least = -up(-max(known.length, 0.0))
    smallest = float(to.sigma[to.sigma > 0].min())
    claim = claim_named("smoothed")
    # The map is shown in the dtype of the inputs, which turns it by less than this.
    rounded = math.degrees(torch.finfo(x.dtype).eps)
    return SmoothedBound(
        ball=question.ball.rows(question.x, row),
        target=question.target[row],
        claim=claim,
        euclidean=euclidean,
        adjusted=euclidean,
        cosine=cosine,
        degrees=angle,
        adjusted_cosine=cosine,
        adjusted_degrees=angle,
        # The derivative of the growth with the shift, at 0.
        xi=Bracket(up(0.0), up(known.deviation / smallest), example.alpha),
        direction=torch.zeros_like(x),
        source=(form + to.remark,),
        values={str(claim): euclidean},
        attribution_norm=least,
        label=None,
        products=torch.tensor([example.draws], device=x.device),
        status=(reservations(question.attribution, example, degrees),),
        subject=averaged_title(question.attribution.subject),
        shown_degrees=up(min(turning.shown(to.shift) + rounded, 180.0)),
        map=torch.from_numpy(known.shown).to(x).view(1, *example.shape),
        similarity=torch.tensor([example.similarity]).to(x),
        label_share=(
            None if example.label_share is None else torch.tensor([example.label_share]).to(x)
        ),
        draws=example.draws,
        sigma=to.size,
        alpha=example.alpha,
    )
