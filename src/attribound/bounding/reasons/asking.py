"""``reasons``: which of the largest scores of an attribution provably stay so."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attribound.attacks import Attack
from attribound.attacks.displace import By, first_of
from attribound.attributions import Attribution
from attribound.balls import Ball, check_ball
from attribound.basics.errors import InputError
from attribound.basics.tensors import round_up
from attribound.bounding.guarantees import ClaimOrMethod, method_of
from attribound.bounding.method import Question
from attribound.bounding.reasons.attained import attack as attacks_on
from attribound.bounding.reasons.attained import displacement
from attribound.bounding.reasons.deciding import Decided, decide
from attribound.bounding.reasons.motions import motions
from attribound.bounding.reasons.record import Reasons
from attribound.networks.inputs import Target, check_inputs


def reasons(  # noqa: PLR0913 - the names users type
    attribution: Attribution,
    x: Tensor,
    ball: Ball,
    k: int = 4,
    target: Target = None,
    *,
    claim: ClaimOrMethod = "first_order",
    by: By = "value",
    names: Sequence[str] | None = None,
    attack: Attack | bool = True,
) -> Reasons:
    """Which of the k largest scores of each example stay so, whatever happens in ``ball``.

    The answer holds as far as ``claim`` does. Scores are bounded one by one and in pairs, with
    rivals among all scores; what the bound on the whole map implies is used, too. Beside it stands
    what an attack aimed at the list achieved: together they are a bracket.

    Args:
        attribution: g, e.g. ``ab.IntegratedGradients(model)`` or ``ab.Grouped(...)``.
        x: inputs ``(batch, *features)``.
        ball: the perturbations.
        k: how many scores are given as reasons.
        target: labels to explain; default: the predicted class.
        claim: a name, or a method where it is not the default: ``first_order`` (rows of the
            Jacobian), ``mean_value`` (rows where attacks lead), ``certified`` (proved); others by
            their bound on the whole map.
        by: ``value`` for the largest scores, ``absolute`` for the largest in size.
        names: of all scores, in the order of the flattened map.
        attack: one to make in place of the default; False for none.

    Returns:
        One row per example; its ``repr`` is a table.
    """
    x = check_inputs(x)
    check_ball(ball, x)
    method = method_of(claim)
    labels = attribution.targets(x, target)
    clean = attribution(x, labels)
    first_of(clean, k, by)  # refuses what can't be asked
    called = _checked(names, clean[0].numel())
    question = Question(attribution, x, ball, labels, wanted=(method,), predicted=target is None)
    attained = None
    if attack is not False:
        found = attacks_on(question, k, by, None if attack is True else attack)
        attained = displacement(question, clean, found, k, by)
        if method.uses_attacks:
            question.attacked = tuple(found)
    decided = []
    maps = clean.detach().flatten(1).to("cpu", torch.float64)
    for scores, motion in zip(maps, motions(method, question, clean), strict=True):
        decided.append(decide(scores, motion, k, by))

    def column(name: str) -> Tensor:
        return torch.stack([torch.as_tensor(getattr(each, name)) for each in decided]).to(x.device)

    return Reasons(
        ball=ball,
        k=k,
        by=by,
        claim=method.claim,
        target=labels,
        features=column("features"),
        values=clean.flatten(1).gather(1, column("features")),
        low=-round_up(_stacked(decided, "low", -1), clean),
        high=round_up(_stacked(decided, "high", 1), clean),
        sign_kept=column("sign_kept"),
        stays=column("stays"),
        kept=column("kept"),
        order_kept=column("order_kept"),
        attained=attained,
        names=called,
        subject=attribution.subject,
    )


def _stacked(decided: list[Decided], name: str, sign: int) -> Tensor:
    return sign * torch.stack([getattr(each, name) for each in decided])


def _checked(names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    called = tuple(str(each) for each in names)
    if isinstance(names, str) or len(called) != count:
        raise InputError(
            "names",
            expected=f"{count} names, one a score",
            got=repr(names) if isinstance(names, str) else f"{len(called)}",
            remedy="name all scores of the flattened map, or groups if scores are grouped",
        )
    return called
