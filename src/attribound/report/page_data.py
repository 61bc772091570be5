"""What the page computes with: numbers of every sample, small enough to be embedded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attribound.auditing.rows import COPY, YOURS
from attribound.report.gallery import class_name
from attribound.report.groups import Group, Numbers, records
from attribound.report.subjects import A_COPY, network

#: Rows the page holds at most, over all settings: some 100 bytes each.
ROWS = 4000
_DIGITS = 7


def page_data(
    groups: Sequence[Group], classes: Sequence[str], rows: int = ROWS, copy: str = A_COPY
) -> dict[str, Any]:
    """Everything the scripts of the page need, as JSON knows it.

    ``networks`` names those that were attacked: the user's own, and a smooth copy if there is
    one, which is called ``copy``. What is known of each is under ``yours`` and ``copy``.

    Of a run with more than ``rows`` rows, evenly spread samples are taken; the page says so.
    """
    settings = sum(len(group.cells) for group in groups)
    most = max(rows // max(settings, 1), 1)
    made = records(claim.name for group in groups for claim in group.plain)
    found = [_group(group, most) for group in groups]
    labels = {label for group in found for label in (*group["labels"], *group["predictions"])}
    return {
        "claims": {
            claim.name: {
                "title": claim.title,
                "moves": claim.moves.value,
                "colour": claim.colour,
                "symbol": claim.symbol,
            }
            for claim in made
        },
        # Those that occur: some data sets have thousands.
        "classes": {label: class_name(label, classes) for label in labels if label is not None},
        "networks": {subject: network(subject, copy) for subject in _subjects(groups)},
        "groups": found,
    }


def _subjects(groups: Sequence[Group]) -> tuple[str, ...]:
    return (YOURS, COPY) if any(group.has_copy for group in groups) else (YOURS,)


def _group(group: Group, most: int) -> dict[str, Any]:
    chosen = _spread(len(group.samples), most)
    return {
        "title": group.title,
        "linear": group.linear,
        "total": len(group.samples),
        "samples": group.samples[chosen].tolist(),
        "labels": _whole(group.constant("label")[chosen]),
        "predictions": _whole(group.constant("prediction")[chosen]),
        "norms": _numbers(group.constant("attribution_norm")[chosen]),
        "epsilons": [*group.epsilons],
        "subjects": {claim.name: group.subject(claim) for claim in group.plain},
        "attacks": {
            subject: {
                field: [_numbers(values[chosen]) for values in read(field).values()]
                for field in ("deviation", "degrees")
            }
            for subject, read in _attacks(group).items()
        },
        "bounds": {
            claim.name: [_numbers(values[chosen]) for values in group.bounds(claim).values()]
            for claim in group.plain
        },
        # The norms are of what was bounded: a claim about another network brings its angles.
        "angles": {
            claim.name: [
                _numbers(values[chosen]) for values in group.bounds(claim, "degrees").values()
            ]
            for claim in group.plain
            if group.has_copy and group.subject(claim) == YOURS
        },
        # By position in ``samples``: rounded numbers must not decide what was exceeded.
        "exceeded": {
            subject: {
                claim.name: [
                    np.flatnonzero(np.nan_to_num(flags[chosen])).tolist()
                    for flags in group.bounds(claim, field).values()
                ]
                for claim in group.plain
                if field == "yours_exceeded" or group.subject(claim) == subject
            }
            for subject, field in _flags(group).items()
        },
    }


def _attacks(group: Group) -> dict[str, Callable[[str], dict[float, Numbers]]]:
    """The strongest attacks by the network they were made on."""
    return {YOURS: group.yours, COPY: group.attacks} if group.has_copy else {YOURS: group.attacks}


def _flags(group: Group) -> dict[str, str]:
    """The field of bounds that says whether an attack on a network exceeded them."""
    both = {YOURS: "yours_exceeded", COPY: "exceeded"}
    return both if group.has_copy else {YOURS: "exceeded"}


def _spread(count: int, most: int) -> NDArray[np.int64]:
    """At most ``most`` of ``count`` positions, evenly spread, the first and last among them."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).round().astype(np.int64))


def _whole(values: Numbers) -> list[int | None]:
    return [None if math.isnan(value) else int(value) for value in values.tolist()]


def _numbers(values: Numbers) -> list[float | str | None]:
    """Rounded; infinite ones as the text ``"inf"``, missing ones as None: JSON has neither."""
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf"
    return float(f"{value:.{_DIGITS}g}")


#: What could end a script element, start a comment in it, or end a line in old JavaScript.
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def script_json(data: object) -> str:
    r"""JSON that stays inside the script element it is written into, whatever is in it.

    >>> script_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character, escaped in _UNSAFE.items():
        text = text.replace(character, escaped)
    return text
