"""Parts of a training: devices, optimisers, logs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from attribound.basics.errors import InputError
from attribound.training.log import EvaluationRecord, EventFiles, Log, Meter, StepRecord
from attribound.training.optimiser import SGD, Adam
from attribound.training.trainer import Hardware, train
from attribound.values import to_spec
from training_runs import DIGITS, config, records, weights


@pytest.mark.slow
def test_two_processes_do_what_one_does_with_the_whole_batch(tmp_path) -> None:
    """The batch of 65 does not divide by two, the last one of an epoch has fewer."""
    settings = config("batch=65", "precision=64-true", table={**DIGITS, "method": "ce"})
    train(settings, tmp_path / "one", progress=False, hardware=Hardware("cpu"))
    file = tmp_path / "two.json"
    file.write_text(json.dumps(to_spec(settings, whole=True)))
    script = (
        "import json, pathlib, sys\n"
        "from attribound.training import Hardware, TrainingConfig, train\n"
        "from attribound.values import from_spec\n"
        "document = json.loads(pathlib.Path(sys.argv[1]).read_text())\n"
        "config = from_spec(document, TrainingConfig)\n"
        "train(config, sys.argv[2], progress=False, hardware=Hardware('cpu', 2))\n"
    )
    (tmp_path / "two.py").write_text(script)
    command = [sys.executable, str(tmp_path / "two.py"), str(file), str(tmp_path / "two")]
    subprocess.run(command, check=True, capture_output=True)
    one, two = records(tmp_path / "one"), records(tmp_path / "two")
    losses = [[r["loss"] for r in run if r["kind"] == "steps"] for run in (one, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert [r.get("accuracy") for r in one] == [r.get("accuracy") for r in two]
    for name, value in weights(tmp_path / "one").items():
        torch.testing.assert_close(weights(tmp_path / "two")[name], value, rtol=1e-6, atol=1e-9)


def built(optimiser) -> dict[str, object]:
    return optimiser.build([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]


def test_adam_has_its_settings() -> None:
    group = built(Adam(lr=0.2, weight_decay=0.3, beta1=0.4, beta2=0.5))
    assert (group["lr"], group["weight_decay"], group["betas"]) == (0.2, 0.3, (0.4, 0.5))


def test_sgd_has_its_settings() -> None:
    group = built(SGD(lr=0.2, weight_decay=0.3, momentum=0.4, nesterov=True))
    found = [group[name] for name in ("lr", "weight_decay", "momentum", "nesterov")]
    assert found == [0.2, 0.3, 0.4, True]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Adam(lr=0), r"lr: expected a finite number above 0"),
        (lambda: Adam(weight_decay=-1), r"weight_decay: expected .* 0 or more"),
        (lambda: Adam(beta2=1.0), r"beta2"),
        (lambda: SGD(lr=float("nan")), r"lr"),
        (lambda: SGD(momentum=-0.1), r"momentum"),
        (lambda: SGD(momentum=0.0, nesterov=True), r"momentum: .* nesterov needs it"),
    ],
)
def test_impossible_rates_are_refused(make, message) -> None:
    with pytest.raises(InputError, match=message):
        make()


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
