"""``make bench-audits``: whole audits, another commit against this one, as ratios of CPU time.

Each side runs in processes of its own with its own sources, in turn, on one thread, at the same
images with the same settings. Bounds and attacks are compared, too: what is faster because it
looks less hard is no gain.
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
from statistics import mean, median

from attribound.basics.tables import render

ROOT = Path(__file__).resolve().parents[1]
TEXT = Path(__file__).parent / "audits.txt"
#: The commit before attacks ran in batches and networks were differentiated without autograd.
BEFORE = "fdd97a4"
#: Run by both sides: nothing in it that one of them lacks.
SIDE = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import torch
import attribound as ab
import fashion, credit
torch.set_num_threads(1)
network, protocol, images = sys.argv[2], sys.argv[3], int(sys.argv[4])
if network == "SmallCNN":
    model, (x, labels) = fashion.network("at"), fashion.images("t10k")
else:
    model = ab.models.load(sys.argv[1] + "/../zoo/models/cifar10/at-resnet18.safetensors").eval()
    pictures = ab.data.load("cifar10", "test", root=credit.shared("cifar10").parent)
    x, labels = pictures.read(torch.arange(images)), pictures.labels[:images]
start = time.process_time()
run = ab.audit(
    model, (x[:images], labels[:images]), attributions=[ab.IntegratedGradients(steps=20)],
    balls=[ab.L2Ball(0.1)], protocol=protocol, batch=images,
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


def audited(root: Path, network: str, protocol: str, images: int) -> Audited:
    """An audit by the sources in ``root``."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
    benchmarks = ROOT / "benchmarks"  # the same networks and images for both
    command = [sys.executable, "-c", SIDE, str(benchmarks), network, protocol, str(images)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the audit by {root.name} failed:\n{done.stderr}")
    return Audited(*json.loads(done.stdout.splitlines()[-1]))


def compared(before: Sequence[Audited], after: Sequence[Audited]) -> list[object]:
    """The ratio of times, and bounds and attacks afterwards / before, on average."""
    ratio = median(a.seconds / b.seconds for a, b in zip(before, after, strict=True))
    pairs = [*zip(before[0].samples, after[0].samples, strict=True)]
    mean_value = [b[0]["mean_value"] / a[0]["mean_value"] for a, b in pairs]
    strongest = [max(b[1].values()) / max(a[1].values()) for a, b in pairs]
    return [after[0].seconds, ratio, mean(mean_value), mean(strongest)]


def main() -> None:
    """Compare audits of the networks and protocols that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", default=BEFORE, help="commit of the other side")
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--networks", nargs="+", default=["SmallCNN", "ResNet-18"])
    parser.add_argument("--protocols", nargs="+", default=["quick", "strong"])
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(other), given.before], check=True)
        try:
            for network in given.networks:
                for protocol in given.protocols:
                    asked = network, protocol, given.images
                    both = [
                        (audited(other, *asked), audited(ROOT, *asked)) for _ in range(given.rounds)
                    ]
                    before, after = zip(*both, strict=True)
                    rows.append([network, protocol, *compared(before, after), ">= 1.5"])
                    print(rows[-1], file=sys.stderr, flush=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
    title = (
        f"Audits of {given.images} images, IG of 20 steps, l2 0.1, one thread: CPU-seconds now,\n"
        f"time at {given.before} / now, mean-value bounds and strongest attacks now / then"
    )
    heads = ["network", "protocol", "seconds", "before / after", "mean-value", "attacks", "goal"]
    print(render(title, heads, rows))


if __name__ == "__main__":
    main()
