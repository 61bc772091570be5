"""``reasons``: which of the largest scores of an attribution provably stay so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from attribound.attacks import Attack
from attribound.attacks.displace import By, first_of
from attribound.balls import Ball, check_ball
from attribound.basics.errors import InputError
from attribound.basics.tensors import round_up
from attribound.bounding.guarantees import ClaimOrMethod, Explained, as_attribution, chosen
from attribound.bounding.method import Method, Question
from attribound.bounding.reasons.attained import attack as attack_list
from attribound.bounding.reasons.attained import attained, perturbations
from attribound.bounding.reasons.averaged import scores_of
from attribound.bounding.reasons.deciding import Decided, decide
from attribound.bounding.reasons.motions import motions
from attribound.bounding.reasons.record import Displacement, Reasons
from attribound.networks.inputs import Target, check_inputs


def reasons(  # noqa: PLR0913 - the names users type
    attribution: Explained,
    x: Tensor,
    ball: Ball,
    k: int = 4,
    target: Target = None,
    method: Method | None = None,
    *,
    claim: ClaimOrMethod | None = None,
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
        method: tolerances, effort, limits, progress.
        claim: ``first_order`` (rows of the Jacobian), ``mean_value`` (rows where attacks lead),
            ``certified`` (proved), ``smoothed`` (of the averaged map, which has a list of its own:
            scores one by one and in pairs, or votes with ``ab.Smoothed(normaliser="top")``); others
            by their bound on the whole map. Default: that of ``method``, else ``first_order``.
        by: ``value`` for the largest scores, ``absolute`` for the largest in size.
        names: of all scores, in the order of the flattened map.
        attack: one to make in place of the default; False for none.

    Returns:
        One row per example; its ``repr`` is a table.
    """
    attribution = as_attribution(attribution)
    x = check_inputs(x)
    check_ball(ball, x)
    settings = chosen(method, claim)
    labels = attribution.targets(x, target)
    clean = attribution(x, labels)
    first_of(clean, k, by)  # refuses what can't be asked
    called = check_names(names, clean[0].numel())
    question = Question(attribution, x, ball, labels, wanted=(settings,), predicted=target is None)
    left: Displacement | None = None
    if attack is not False:
        found = (
            attack_list(question, k, by)
            if attack is True
            else [attack(attribution, x, ball, labels)]
        )
        left = attained(settings, question, clean, perturbations(found), k, by)
        if settings.uses_attacks:
            question.attacked = tuple(found)
    return replace(answer(settings, question, clean, k, by), attained=left, names=called)


def answer(method: Method, question: Question, clean: Tensor, k: int, by: By) -> Reasons:
    """The reasons under the claim of one method, without names and attacks.

    Args:
        method: of the claim.
        question: what is asked of it; its bounds are made use of.
        clean: the maps at x, ``(batch, *scores)``.
        k: how many scores are on the list.
        by: how it is ranked.
    """
    decided, values = [], []
    for row, motion in enumerate(motions(method, question, clean, k, by)):
        scores = scores_of(motion, clean[row])
        decided.append(decide(scores, motion, k, by))
        values.append(scores[decided[-1].features])

    def column(name: str) -> Tensor:
        found = torch.stack([torch.as_tensor(getattr(each, name)) for each in decided])
        return found.to(question.x.device)

    about = method.speaks_of(question.attribution, question.x, question.ball)
    return Reasons(
        ball=question.ball,
        k=k,
        by=by,
        claim=method.claim,
        target=question.target,
        features=column("features"),
        values=torch.stack(values).to(clean),
        low=-round_up(_stacked(decided, "low", -1), clean),
        high=round_up(_stacked(decided, "high", 1), clean),
        sign_kept=column("sign_kept"),
        stays=column("stays"),
        kept=column("kept"),
        order_kept=column("order_kept"),
        attained=None,
        names=None,
        subject=about.subject,
    )


def _stacked(decided: list[Decided], name: str, sign: int) -> Tensor:
    return sign * torch.stack([getattr(each, name) for each in decided])


def check_names(names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    """``names`` of so many scores, refused if there are others."""
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
