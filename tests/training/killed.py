"""Train in child processes that are killed at random moments; the last one finishes.

Called with a directory and a config as JSON; prints the steps at which children began.
They are forked after the imports, so that most of their life is training.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from attribound.training import Hardware, TrainingConfig, train
from attribound.values import from_spec

KILLS = 4


def newest(out: Path) -> str:
    found = sorted(entry.name for entry in out.glob("checkpoints/step-*"))
    return found[-1] if found else ""


def main() -> None:
    torch.set_num_threads(1)
    out, config = Path(sys.argv[1]), from_spec(json.loads(sys.argv[2]), TrainingConfig)
    draw = random.Random(0)
    began = []
    for number in range(KILLS + 1):
        before = newest(out)
        began.append(before)
        child = os.fork()
        if child == 0:
            try:
                train(config, out, resume=True, progress=False, hardware=Hardware("cpu"))
            finally:
                os._exit(0 if (out / "summary.json").exists() else 1)
        if number < KILLS:
            # The first before it could save anything, the others soon after they did: in a
            # step, in an evaluation, or while the next checkpoint is being written.
            while number and newest(out) == before and os.waitpid(child, os.WNOHANG) == (0, 0):
                time.sleep(0.002)
            time.sleep(draw.uniform(0, 0.15))
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != (-signal.SIGKILL if number < KILLS else 0):
            sys.exit(f"child {number} ended with {status}")
    sys.stdout.write(json.dumps(began))


if __name__ == "__main__":
    main()
