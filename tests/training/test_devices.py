"""Several devices: the same training, its batches divided."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

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
