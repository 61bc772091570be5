"""Audit the explanations of a shipped network on shipped images, with every claim and a report.

Run it with ``make demo``: a minute or two on two cores, no download. It calibrates on some of the
images, then bounds and attacks the integrated gradients of others, and leaves a run in runs/demo
that ``attribound report``, ``compare`` and ``runs`` read.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

import attribound as ab
from attribound.auditing.engines import LocalEngine
from attribound.auditing.sources import chosen
from attribound.auditing.store import is_run
from attribound.data import Examples
from attribound.report import console, write_html

MODEL, DATA = "zoo:fashion-mnist/at-mlp", "fashion-mnist-sample"
IG = ab.IntegratedGradients(steps=5, quadrature="midpoint", label="IG, 5 midpoints")
BALLS = (ab.L2Ball(0.05), ab.L2Ball(0.1), ab.LinfBall(0.005, low=0, high=1))


def others(sample: Examples, audited: int) -> Tensor:
    """The indices of all images but those that an audit of ``audited`` takes."""
    free = torch.ones(len(sample), dtype=torch.bool)
    free[chosen(len(sample), audited)] = False
    return free.nonzero().flatten()


def calibrate(folder: Path, audited: int) -> None:
    """Calibrate every ball on images that will not be audited."""
    sample = ab.data.load(DATA)
    x = sample.read(others(sample, audited))
    model = ab.zoo.load(MODEL.removeprefix("zoo:"))
    folder.mkdir(parents=True, exist_ok=True)
    for number, ball in enumerate(BALLS):
        ab.calibrate(IG.of(model), x, ball).save(folder / f"{number}.json")


def main(out: Path = Path("runs/demo"), audited: int = 20) -> None:
    """Calibrate, audit, print the table, write the page; an earlier demo is replaced."""
    # Small problems: more threads hardly help, and wait for each other on a busy machine.
    torch.set_num_threads(1)
    if is_run(out):
        shutil.rmtree(out)
    calibrations = out.with_name(f"{out.name}-calibrations")
    # Shown while it lasts, as is the progress of the audit: what stays begins with the answer.
    with Console(stderr=True).status(f"Calibrating {MODEL} on images that will not be audited"):
        calibrate(calibrations, audited)
    run = ab.audit(
        MODEL,
        DATA,
        out=out,
        limit=audited,
        attributions=[IG],
        balls=BALLS,
        protocol="strong",
        calibrated=ab.Calibrated(str(calibrations)),
        batch=5,
        maps="all",
        engine=LocalEngine(workers=os.cpu_count() or 1),
        progress=sys.stderr.isatty(),
    )
    Console(width=100).print(console(run))
    print(f"The page: {write_html(run)}")


if __name__ == "__main__":
    main()
