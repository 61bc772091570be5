"""Calibrations as JSON files that people can read."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.limits import read_json
from attribound.basics.trusting import from_file
from attribound.basics.whole_files import write_whole
from attribound.bounding.calibrated.conformal import Scores, check_alpha, conformal_factor
from attribound.bounding.calibrated.provenance import Provenance, check_subject
from attribound.bounding.method import Method
from attribound.values import from_spec, to_spec

FORMAT = "attribound calibration"
VERSION = 3
_INFINITE = {"inf": math.inf, "-inf": -math.inf}  # JSON has no infinity
_TEXTS = ("model", "target", "version", "subject")
_TABLES = ("attribution", "attack", "code")

PathLike = str | os.PathLike[str]


def save(path: PathLike, alpha: float, scores: Scores, provenance: Provenance) -> None:
    """Write a calibration, whole or not at all: an interrupted write leaves the old file."""
    document = {
        "format": FORMAT,
        "format_version": VERSION,
        "alpha": alpha,
        **{name: getattr(provenance, name) for name in _TEXTS},
        "original": provenance.original,
        **{name: getattr(provenance, name) for name in _TABLES},
        "ball": to_spec(provenance.ball, whole=True),
        "base": to_spec(provenance.base, whole=True),
        "sample_hashes": list(provenance.samples),
        "groups": [
            {
                "class": group,
                "samples": len(own),
                "factor": _encode(conformal_factor(own, alpha)),
                "scores": [_encode(score) for score in own],
            }
            for group, own in scores.items()
        ],
    }
    if not Path(path).parent.is_dir():
        raise InputError(
            f"calibration file {os.fspath(path)}",
            expected="a folder to write it into",
            got=f"no folder {Path(path).parent}",
            remedy="make the folder first",
        )
    write_whole(Path(path), f"{json.dumps(document, indent=1, allow_nan=False)}\n".encode())


def load(path: PathLike) -> tuple[float, Scores, Provenance]:
    """What ``save`` wrote; refuses other files, and those that were changed or cut off."""
    try:
        document = read_json(Path(path))
    except InputError:
        raise
    except OSError as error:
        raise _refusal(path, error.strerror or str(error)) from error
    except ValueError as error:  # no JSON, or no text
        raise _refusal(path, f"no JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _refusal(path, "another kind of file")
    if document.get("format_version") != VERSION:
        raise InputError(
            f"calibration file {os.fspath(path)}",
            expected=f"format version {VERSION}",
            got=repr(document.get("format_version")),
            remedy="use the attribound that wrote it, or calibrate again",
        )
    try:
        alpha = check_alpha(document["alpha"])
        return alpha, _scores(document["groups"], alpha), _provenance(document)
    except KeyError as error:
        raise _refusal(path, f"no entry {error}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise _refusal(path, str(error)) from error


def _scores(groups: list[dict[str, Any]], alpha: float) -> Scores:
    found: Scores = {}
    for group in groups:
        label, own = group["class"], tuple(_decode(score) for score in group["scores"])
        if label is not None and (type(label) is not int or label < 0):
            raise TypeError(f"class {label!r}")
        if label in found or not own or list(own) != sorted(own) or own[0] < 0:
            raise ValueError(f"scores of class {label!r} that are not sorted, positive and single")
        if len(own) != group["samples"] or conformal_factor(own, alpha) != _decode(group["factor"]):
            raise ValueError("a factor that is not that of the scores")
        found[label] = own
    if not found or (None in found and len(found) > 1):
        raise ValueError(f"classes {list(found)}")
    return found


def _provenance(document: dict[str, Any]) -> Provenance:
    texts = {name: document[name] for name in _TEXTS}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise TypeError(f"{text!r} as {name}")
    check_subject(texts["subject"])
    original = document["original"]
    if original is not None and not (isinstance(original, str) and texts["subject"] == "yours"):
        raise TypeError(f"{original!r} as original of {texts['subject']!r}")
    tables = {name: document[name] for name in _TABLES}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise TypeError(f"{table!r} as {name}")
    with from_file():  # ``bound`` may read it in a worker, where nobody is asked
        ball, base = from_spec(document["ball"], Ball), from_spec(document["base"], Method)
    samples = tuple(document.get("sample_hashes", ()))  # unknown of older files
    if not all(isinstance(each, str) for each in samples):
        raise TypeError("sample_hashes that are no texts")
    return Provenance(ball=ball, base=base, original=original, samples=samples, **texts, **tables)


def _encode(value: float | None) -> float | str | None:
    """A number as JSON has it; floats come back exactly."""
    return value if value is None or math.isfinite(value) else str(float(value))


def _decode(value: object) -> float:
    if isinstance(value, str) and value in _INFINITE:
        return _INFINITE[value]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"{value!r} where a number belongs")
    return float(value)


def _refusal(path: PathLike, reason: str) -> InputError:
    return InputError(
        f"calibration file {os.fspath(path)}",
        expected="a file written by Calibration.save",
        got=reason,
        remedy="check the path, or calibrate again and save",
    )
