"""The bounds of some samples in several balls, under every claim that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, cast

from torch import Tensor

from attribound.auditing.at_work import Say, silent
from attribound.auditing.rows import AVERAGED, COPY, YOURS
from attribound.basics.errors import AttriboundError
from attribound.bounding.method import Method, Question
from attribound.results import YOURS as OWN
from attribound.results import Bound, SmoothedBound

#: What is known of one sample, one bound or one attack, by its name in the rows.
Fields = dict[str, Any]


def prepared(questions: Sequence[Question], methods: Sequence[Method], say: Say = silent) -> None:
    """Let methods answer the questions about all balls together where that saves work."""
    for method in methods:
        say(called(method))
        # What may not apply is asked again in each ball, and says why there.
        with suppress(AttriboundError) if method.may_not_apply else nullcontext():
            method.prepare(questions)


def put(
    question: Question,
    methods: Sequence[Method],
    say: Say = silent,
    of_values: Question | None = None,
) -> list[Question]:
    """The question that each method is asked.

    ``of_values`` is about the network itself where ``question`` is about a smooth copy of it. It
    is asked where a method needs no slopes, and first where one can speak of kinks; default:
    ``question``, too.
    """
    asked = []
    for method in methods:
        own = question if method.needs_slopes else of_values or question
        if method.of_kinked and of_values not in (None, question):
            say(called(method))
            own = _answered(of_values, method) or own
        asked.append(own)
    return asked


def bound_records(
    asked: Sequence[Question], methods: Sequence[Method], say: Say = silent
) -> list[list[Fields]]:
    """The bounds of each sample, a record a claim; each method answers its question.

    A claim that cannot be made here (a certificate of a network that has none, a
    calibration for something else) says why in its status; the others are not touched.
    """
    by_claim = []
    for question, method in zip(asked, methods, strict=True):
        say(called(method))
        by_claim.append(_records(question, method))
    return [list(records) for records in zip(*by_claim, strict=True)]


def _answered(of_values: Question, method: Method) -> Question | None:
    """The question about the network itself, if the method can answer it."""
    asked = replace(of_values, made={}, seconds={})  # nothing that was said of the copy
    with suppress(AttriboundError):
        asked.bound(method)
        return asked
    return None


def called(method: Method) -> str:
    """What is said of a method at work."""
    return method.claim.name.replace("_", "-")


def _records(question: Question, method: Method) -> list[Fields]:
    count = len(question.x)
    claim = method.claim.name
    try:
        bound = question.bound(method)
    except AttriboundError as error:
        if not method.may_not_apply:
            raise
        return [{"claim": claim, "status": f"does not apply: {error}"} for _ in range(count)]
    records = unstacked(_columns(bound))
    for record, status, source in zip(records, bound.status, bound.source, strict=True):
        record["claim"] = claim
        record["subject"] = AVERAGED if isinstance(bound, SmoothedBound) else whose(bound.subject)
        record["status"] = str(status)
        record["source"] = source
        record["seconds"] = question.seconds[method] / count
    return records


def whose(subject: str) -> str:
    """How rows call the network of a plain map."""
    return YOURS if subject == OWN else COPY


def _columns(bound: Bound) -> dict[str, Tensor]:
    own: dict[str, Tensor] = {}
    if isinstance(bound, SmoothedBound):
        own = {"shown_degrees": bound.shown_degrees, "similarity": bound.similarity}
        if bound.label_share is not None:
            own["label_share"] = bound.label_share
    return own | {
        "euclidean": bound.euclidean,
        "cosine": bound.cosine,
        "degrees": bound.degrees,
        "xi_lower": bound.xi.lower,
        "xi_upper": bound.xi.upper,
        "products": bound.products,
    }


def unstacked(columns: dict[str, Tensor]) -> list[Fields]:
    """Tensors of one value a sample as one record a sample."""
    lists = [cast("list[object]", column.detach().cpu().tolist()) for column in columns.values()]
    return [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]


def mark_exceeded(
    bounds: Sequence[Fields],
    strongest: Mapping[str, Fields | None],
    errors: Mapping[str, tuple[float, float]],
) -> None:
    """Say of each bound whether an attack exceeded it: as :class:`Validation` does.

    ``strongest`` has the strongest attack by its subject, ``errors`` what rounding may have added
    to its deviation and its degrees. A bound is held against the one on its own subject, and
    against the one on the user's network; but one of the averaged map only against attacks on
    that: plain maps are none of its business.
    """
    for bound in bounds:
        if bound.get("euclidean") is None:
            continue
        held = {"": bound["subject"]}
        if bound["subject"] != AVERAGED:
            held["yours_"] = YOURS
        for prefix, subject in held.items():
            attack = strongest.get(subject)
            if attack is not None:
                far, turned = errors[subject]
                bound[f"{prefix}exceeded"] = attack["deviation"] - far > bound["euclidean"]
                bound[f"{prefix}degrees_exceeded"] = attack["degrees"] - turned > bound["degrees"]
