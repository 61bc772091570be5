"""Event files hold the numbers of the log; a resume hides what is done again."""

from __future__ import annotations

import sys

import pytest

from attribound.basics.errors import InputError
from attribound.training.log import EventFiles
from attribound.training.trainer import Hardware, train
from training_runs import config, records

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def scalars(folder, name) -> list[tuple[int, float]]:
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


def test_every_number_of_the_log_is_in_the_event_files(tmp_path) -> None:
    out = tmp_path / "run"
    train(config(), out, progress=False, tensorboard=True, hardware=Hardware("cpu"))
    log = records(out)
    losses = [(r["step"], r["terms"]["ce_attacked"]) for r in log if r["kind"] == "steps"]
    found = scalars(out / "tensorboard", "steps/terms.ce_attacked")
    assert [step for step, _ in found] == [step for step, _ in losses]
    assert [v for _, v in found] == pytest.approx([v for _, v in losses], rel=1e-6)
    clean = [(r["step"], r["clean_accuracy"]) for r in log if r["kind"] == "evaluation"]
    assert scalars(out / "tensorboard", "evaluation/clean_accuracy") == [
        (step, pytest.approx(value)) for step, value in clean
    ]


def test_a_missing_tensorboard_says_what_to_install(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(InputError, match=r"pip install 'attribound\[tensorboard\]'"):
        EventFiles(tmp_path, 0)
