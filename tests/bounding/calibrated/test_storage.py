from __future__ import annotations

import json
import math
import os
from dataclasses import fields, replace

import pytest
import torch

import attribound as ab
from attribound.bounding.calibrated import Calibration, Provenance

SCORES = (0.0, 0.1, 1 / 3, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, math.inf)
CALIBRATION = Calibration(
    alpha=0.15,
    scores={0: tuple(sorted(SCORES)), 3: (0.5,)},
    provenance=Provenance(
        model="sha256:ab",
        attribution={"kind": "saliency"},
        ball=ab.LinfBall(8 / 255, low=0, high=1),
        target="predicted",
        base=ab.MeanValue(shells=2, attack=None),
        attack={"kind": "pgd", "loss": "kl — of TRADES"},
        code={"mine:Attack": "sha256:cd"},
        version="0.1.0",
        original="sha256:ef",
    ),
)


@pytest.mark.parametrize(
    "ball",
    [ab.L2Ball(0.1), ab.LinfBall(8 / 255, low=0, high=1), ab.LpBall(0.1, 3, low=-math.inf)]
    + [
        ab.L2Ball(0.1, scale=torch.tensor([0.1, 0.0], dtype=d))
        for d in (torch.float64, torch.float32)
    ],
    ids=repr,
)
@pytest.mark.parametrize("scores", [CALIBRATION.scores, {None: tuple(sorted(SCORES))}])
def test_round_trip(tmp_path, ball, scores) -> None:
    """Floats, infinities and all, to the bit."""
    provenance = replace(CALIBRATION.provenance, ball=ball)
    saved = replace(CALIBRATION, scores=scores, provenance=provenance)
    saved.save(tmp_path / "it.json")
    loaded = Calibration.load(str(tmp_path / "it.json"))
    assert loaded == saved
    assert list(loaded.scores) == list(saved.scores)
    assert loaded.factors == saved.factors


def test_the_check_of_the_round_trip_sees_one_bit(tmp_path) -> None:
    scores = {0: tuple(sorted(SCORES)), 3: (math.nextafter(0.5, 1),)}
    assert replace(CALIBRATION, scores=scores) != CALIBRATION


def test_the_file_is_json_for_people(tmp_path) -> None:
    CALIBRATION.save(tmp_path / "it.json")

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    text = (tmp_path / "it.json").read_text()
    document = json.loads(text, parse_constant=refuse)
    assert document["format"] == "attribound calibration"
    assert document["format_version"] == 3
    assert document["ball"] == {
        "kind": "linf",
        "epsilon": 8 / 255,
        "low": 0,
        "high": 1,
        "scale": None,
    }
    assert document["base"]["kind"] == "mean_value"
    assert (document["subject"], document["original"]) == ("yours", "sha256:ef")
    assert document["base"]["attack"] is None
    named = {each.name for each in fields(ab.MeanValue) if each.name != "progress"}
    assert named <= document["base"].keys(), "defaults, too, which may change one day"
    assert document["groups"][1] == {"class": 3, "samples": 1, "factor": "inf", "scores": [0.5]}
    assert "\n" in text


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "it.json"
    CALIBRATION.save(path)
    before = path.read_text()

    def fail(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        replace(CALIBRATION, alpha=0.5).save(path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def edited(*keys, value=None):
    """The document with one entry replaced, or removed if the value is missing."""

    def edit(document):
        inner = document
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        return document

    return edit


def without(key):
    return lambda document: {k: v for k, v in document.items() if k != key}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda _: [1], "another kind of file"),
        (lambda _: {"alpha": 0.1}, "another kind of file"),
        (edited("format", value="x"), "another kind of file"),
        (edited("format_version", value=2), "expected format version 3, got 2; use the attribound"),
        (without("alpha"), "no entry 'alpha'"),
        (without("groups"), "no entry 'groups'"),
        (without("model"), "no entry 'model'"),
        (without("ball"), "no entry 'ball'"),
        (edited("alpha", value=2), "alpha: expected a probability"),
        (edited("alpha", value="0.1"), "alpha: expected a probability"),
        (edited("model", value=3), "3 as model"),
        (without("subject"), "no entry 'subject'"),
        (without("original"), "no entry 'original'"),
        (edited("subject", value="mine"), "subject: expected one of yours, copy, got 'mine'"),
        (edited("subject", value="copy"), "'sha256:ef' as original of 'copy'"),
        (edited("original", value=3), "3 as original of 'yours'"),
        (edited("attack", value=3), "3 as attack"),
        (edited("code", value="x"), "'x' as code"),
        (
            edited("base", "kind", value="true"),
            r"Method: expected one of .*first_order.*got 'true'",
        ),
        (edited("base", "shells", value=0), "shells: expected a whole number, 1 or more, got 0"),
        (edited("base", "shell", value=1), "shell: expected only settings of mean_value: shells"),
        (edited("ball", "kind", value="cube"), "Ball: expected one of l2, linf, lp"),
        (edited("ball", "epsilon", value=None), "epsilon: expected a valid number, got None"),
        (edited("ball", "epsilon", value=-1), "epsilon: expected a finite radius"),
        (edited("ball", "p", value=2.0), "p: expected only settings of linf: epsilon"),
        (edited("ball", "high", value=True), "high.*got True"),
        (edited("ball", "low", value="zero"), "low.*got 'zero'"),
        (edited("groups", value=[]), r"classes \[\]"),
        (edited("groups", value=None), "not iterable"),
        (edited("groups", 0, "class", value=None), r"classes \[None, 3\]"),
        (edited("groups", 0, "class", value="3"), "class '3'"),
        (edited("groups", 0, "class", value=-1), "class -1"),
        (edited("groups", 0, "class", value=3), "scores of class 3 that are not"),
        (edited("groups", 1, "scores", value=[]), "scores of class 3 that are not"),
        (edited("groups", 1, "scores", value=[-0.5]), "scores of class 3 that are not"),
        (edited("groups", 0, "scores", 0, value=9), "scores of class 0 that are not"),
        (edited("groups", 1, "scores", value=[None]), "None where a number belongs"),
        (edited("groups", 1, "scores", value=[10**400]), "too large"),
        (edited("groups", 1, "scores", value=["0.5"]), "'0.5' where a number belongs"),
        (edited("groups", 1, "scores", value=[True]), "True where a number belongs"),
        (edited("groups", 0, "factor", value=0.5), "a factor that is not that of the scores"),
        (edited("groups", 1, "samples", value=7), "a factor that is not that of the scores"),
    ],
)
def test_refuses_files_that_are_not_what_was_saved(tmp_path, edit, message) -> None:
    path = tmp_path / "it.json"
    CALIBRATION.save(path)
    path.write_text(json.dumps(edit(json.loads(path.read_text()))))
    with pytest.raises(ab.InputError, match=rf"calibration file .*it\.json: .*{message}"):
        Calibration.load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"NaN,"])
def test_refuses_files_that_are_no_json(tmp_path, content) -> None:
    path = tmp_path / "it.json"
    path.write_bytes(content)
    with pytest.raises(
        ab.InputError, match=r"expected a file written by Calibration\.save, got no J"
    ):
        Calibration.load(path)


def test_a_file_cut_off_is_refused(tmp_path) -> None:
    path = tmp_path / "it.json"
    CALIBRATION.save(path)
    path.write_text(path.read_text()[:-50])
    with pytest.raises(ab.InputError, match="no JSON"):
        Calibration.load(path)


def test_a_missing_file_is_said_to_be_missing(tmp_path) -> None:
    with pytest.raises(ab.InputError, match=r"none\.json: .*, got No such file.*; check"):
        Calibration.load(tmp_path / "none.json")
