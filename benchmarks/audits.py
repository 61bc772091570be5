"""``make bench-audits``: whole audits, another commit against this one, as ratios of CPU time.

Each side runs in processes of its own with its own sources, in turn, on one thread, at the same
images with the same settings, a few images at a time: so many rounds interleave. Bounds and attacks
are compared, too: what is faster because it looks less hard is no gain. A case is printed when it is
there; strong audits take minutes an image, so that there are fewer of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parents[1]
#: The commit before attacks ran in batches and networks were differentiated without autograd.
BEFORE = "fdd97a4"
#: Images of each case, in the order they are measured.
PLAN = {
    ("SmallCNN", "quick"): 16,
    ("ResNet-18", "quick"): 16,
    ("SmallCNN", "strong"): 2,
    ("ResNet-18", "strong"): 1,
}
AT_ONCE = 4
GOAL = 1.5
#: Run by both sides: nothing in it that one of them lacks.
SIDE = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import torch
import attribound as ab
import fashion, credit
torch.set_num_threads(1)
network, protocol, first, last = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
if network == "SmallCNN":
    model, (x, labels) = fashion.network("at"), fashion.images("t10k")
else:
    model = ab.models.load(sys.argv[1] + "/../zoo/models/cifar10/at-resnet18.safetensors").eval()
    pictures = ab.data.load("cifar10", "test", root=credit.shared("cifar10").parent)
    x, labels = pictures.read(torch.arange(last)), pictures.labels[:last]
start = time.process_time()
run = ab.audit(
    model, (x[first:last], labels[first:last]), attributions=[ab.IntegratedGradients(steps=20)],
    balls=[ab.L2Ball(0.1)], protocol=protocol, batch=last - first,
)
spent = time.process_time() - start
rows = run.rows().to_pylist()
print(json.dumps([spent, [
    [{b["claim"]: b["euclidean"] for b in row["bounds"]},
     {a["attack"]: a["deviation"] for a in row["attacks"]}] for row in rows
]]))
"""


@dataclass(frozen=True)
class Audited:
    """CPU-seconds of an audit, and of each sample its bounds and what attacks found."""

    seconds: float
    samples: list[list[dict[str, float]]]


def audited(root: Path, network: str, protocol: str, images: range) -> Audited:
    """An audit by the sources in ``root``."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
    benchmarks = ROOT / "benchmarks"  # the same networks and images for both
    asked = [str(benchmarks), network, protocol, str(images.start), str(images.stop)]
    command = [sys.executable, "-c", SIDE, *asked]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the audit by {root.name} failed:\n{done.stderr}")
    return Audited(*json.loads(done.stdout.splitlines()[-1]))


def compared(before: Sequence[Audited], after: Sequence[Audited]) -> dict[str, str]:
    """Times in all, and bounds and attacks afterwards / before: on average, and the worst."""
    spent, then = (sum(each.seconds for each in side) for side in (after, before))
    ratios = [a.seconds / b.seconds for a, b in zip(before, after, strict=True)]
    samples = [
        pair
        for a, b in zip(before, after, strict=True)
        for pair in zip(a.samples, b.samples, strict=True)
    ]
    mean_value = [b[0]["mean_value"] / a[0]["mean_value"] - 1 for a, b in samples]
    strongest = [max(b[1].values()) / max(a[1].values()) - 1 for a, b in samples]
    return {
        "images": str(len(samples)),
        "s an image": f"{spent / len(samples):.1f}",
        "before / after": f"{then / spent:.2f}",
        "(rounds)": f"{min(ratios):.2f}-{max(ratios):.2f}",
        "mean-value": f"{mean(mean_value):+.2%}",
        "(worst)": f"{min(mean_value):+.2%}",
        "attacks": f"{mean(strongest):+.2%}",
        "(weakest)": f"{min(strongest):+.2%}",
    }


def line(cells: Sequence[str]) -> str:
    """A line of the table, whose columns are known before its rows are."""
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


WIDTHS = (10, 9, 7, 11, 15, 10, 11, 8, 8, 10)


def main() -> None:
    """Compare audits of the networks and protocols that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", default=BEFORE, help="commit of the other side")
    parser.add_argument("--images", type=int, help="of every case, in place of the plan's")
    parser.add_argument("--networks", nargs="+", default=["SmallCNN", "ResNet-18"])
    parser.add_argument("--protocols", nargs="+", default=["quick", "strong"])
    given = parser.parse_args()
    print(
        f"Audits, IG of 20 steps, l2 0.1, {AT_ONCE} images at a time, one thread: CPU-seconds now, "
        f"time at {given.before} / now (goal: {GOAL}),\n"
        "mean-value bounds and strongest attacks now against then (goal: on average -0.1% or more)"
    )
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(other), given.before], check=True)
        try:
            heads = False
            for (network, protocol), planned in PLAN.items():
                if network not in given.networks or protocol not in given.protocols:
                    continue
                last = given.images or planned
                before, after = [], []
                for first in range(0, last, AT_ONCE):
                    images = range(first, min(first + AT_ONCE, last))
                    before.append(audited(other, network, protocol, images))
                    after.append(audited(ROOT, network, protocol, images))
                    found = compared(before, after)
                    print(network, protocol, found, file=sys.stderr, flush=True)
                if not heads:
                    print(line(["network", "protocol", *found]))
                heads = True
                print(line([network, protocol, *found.values()]), flush=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)


if __name__ == "__main__":
    main()
