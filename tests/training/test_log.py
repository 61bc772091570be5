"""Records as lines; what is after the checkpoint is cut off."""

from __future__ import annotations

import json

import pytest

from attribound.basics.errors import InputError
from attribound.training.log import EvaluationRecord, Log, Meter, StepRecord


def record(step: int) -> StepRecord:
    return StepRecord(step, 0.5, 0.1, 0.01, 2.0, {"ce": 2.0}, 1.0, 0.5, 0.25, 3.0, 4.0)


def test_a_record_is_a_line_of_json(tmp_path) -> None:
    log = Log(tmp_path / "log.jsonl", 0)
    log.append(record(3))
    log.append(EvaluationRecord(3, 1.0, 0.5, None, None, None, 1.0, 2.0))
    log.close()
    first, second = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert (first["kind"], first["step"], first["terms"]) == ("steps", 3, {"ce": 2.0})
    assert (second["kind"], second["adversarial_accuracy"]) == ("evaluation", None)


def test_what_is_after_the_checkpoint_is_cut_off(tmp_path) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path, 0)
    log.append(record(1))
    kept = log.written()
    log.append(record(2))
    log.close()
    with path.open("a") as file:
        file.write('{"step": 3, "torn')
    log = Log(path, kept)
    log.append(record(2))
    log.close()
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2]


def test_a_log_that_lost_records_is_refused(tmp_path) -> None:
    (tmp_path / "log.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"log\.jsonl: expected the 10 bytes .* got 3 bytes"):
        Log(tmp_path / "log.jsonl", 10)


def test_not_a_number_is_not_written(tmp_path) -> None:
    log = Log(tmp_path / "log.jsonl", 0)
    with pytest.raises(ValueError, match="not JSON compliant"):
        log.append(EvaluationRecord(3, 1.0, float("nan"), None, None, None, 1.0, 2.0))
    log.close()


def test_means_continue_from_stored_sums() -> None:
    meter = Meter()
    meter.add({"loss": 1.0})
    meter.add({"loss": 2.0})
    again = Meter(meter.sums)
    again.add({"loss": 6.0})
    assert again.flush() == {"loss": 3.0}
    assert again.sums == {}
