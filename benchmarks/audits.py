"""``make bench-audits``: whole audits, another commit against this one, as ratios of CPU time.

Each side runs in processes of its own with its own sources, in turn, on one thread, at the same
images with the same settings, a few images at a time: so many rounds interleave. What is imported
on first use is imported before, by an audit of a tiny network. Bounds and attacks are compared,
too: what is faster because it looks less hard is no gain. Beside audits 20 repeats of IFIA, whose
perturbations are compared number by number. *searched* is a strong audit without its certificate.

Rows go to ``audits.txt`` as they are made, after every few images; a case that is there with all
of its images is not made again but with ``--anew``: strong audits take minutes an image.
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

from attribound.basics.tables import render

ROOT = Path(__file__).resolve().parents[1]
TEXT = Path(__file__).parent / "audits.txt"
#: The commit before attacks ran in batches and networks were differentiated without autograd.
BEFORE = "fdd97a4"
#: Images of each case, in the order they are measured.
PLAN = {
    ("SmallCNN", "ifia"): 4,
    ("ResNet-18", "ifia"): 1,
    ("SmallCNN", "quick"): 16,
    ("ResNet-18", "quick"): 16,
    ("SmallCNN", "searched"): 16,
    ("SmallCNN", "strong"): 16,
    ("ResNet-18", "strong"): 16,
}
AT_ONCE = 4
#: Of ratios of times, by protocol.
GOALS = {"ifia": 1.8, "quick": 1.5, "searched": 1.5, "strong": 1.5}
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
x, labels = x[first:last], labels[first:last]
quick = dict(attributions=[ab.Saliency()], balls=[ab.L2Ball(0.1)], protocol="quick")
small = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Softplus(), torch.nn.Linear(4, 2))
ab.audit(small.eval(), (torch.rand(2, 4), torch.zeros(2, dtype=torch.long)), **quick)  # imports all
if protocol == "ifia":
    attribution, ball = ab.IntegratedGradients(model, steps=5), ab.LinfBall(0.05, low=0, high=1)
    attack = ab.attacks.IFIA(steps=10)
    attack.seeded(99)(attribution, x[:1], ball)  # the network is probed before
    start = time.process_time()
    found = attack.repeat(20)(attribution, x, ball)
    spent = time.process_time() - start
    moved = torch.stack([each.delta for each in found.trials], 1).flatten(1).tolist()
    samples = [[{}, {"ifia": each}, delta]
               for each, delta in zip(found.deviation.tolist(), moved, strict=True)]
else:
    settings = dict(protocol=protocol)
    if protocol == "searched":  # strong, but for proofs
        settings = dict(protocol="strong", claims=["first_order", "adjusted", "mean_value"])
    start = time.process_time()
    run = ab.audit(
        model, (x, labels), attributions=[ab.IntegratedGradients(steps=20)],
        balls=[ab.L2Ball(0.1)], batch=last - first, **settings,
    )
    spent = time.process_time() - start
    samples = [[{b["claim"]: b["euclidean"] for b in row["bounds"]},
                {a["attack"]: a["deviation"] for a in row["attacks"]}, []]
               for row in run.rows().to_pylist()]
print(json.dumps([spent, samples]))
"""


@dataclass(frozen=True)
class Audited:
    """CPU-seconds of an audit, and of each sample its bounds, what attacks found, and where."""

    seconds: float
    samples: list[tuple[dict[str, float], dict[str, float], list[float]]]


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
    pairs = [
        pair
        for a, b in zip(before, after, strict=True)
        for pair in zip(a.samples, b.samples, strict=True)
    ]
    bounds = [b[0]["mean_value"] / a[0]["mean_value"] - 1 for a, b in pairs if "mean_value" in b[0]]
    found = [max(b[1].values()) / max(a[1].values()) - 1 for a, b in pairs]
    apart = [abs(u - v) for a, b in pairs for u, v in zip(a[2], b[2], strict=True)]
    return {
        "images": str(len(pairs)),
        "seconds": f"{spent / len(pairs):.1f}",
        "before/now": f"{then / spent:.2f}",
        "rounds": f"{min(ratios):.2f}-{max(ratios):.2f}",
        "mean-value": f"{mean(bounds):+.2%}" if bounds else "-",
        "lowest": f"{min(bounds):+.2%}" if bounds else "-",
        "attacks": f"{mean(found):+.2%}",
        "weakest": f"{min(found):+.2%}",
        "apart": f"{max(apart):.0e}" if apart else "-",
    }


def stored() -> dict[tuple[str, str], list[str]]:
    """The rows that are there, as they are written, without their goals."""
    lines = TEXT.read_text().splitlines() if TEXT.is_file() else []
    rows = [line.split() for line in lines]
    return {(row[0], row[1]): row[:-2] for row in rows if tuple(row[:2]) in PLAN}


def write(rows: dict[tuple[str, str], list[str]], before: str) -> None:
    """All rows in the order of the plan."""
    title = (
        f"One thread, l2 0.1, IG of 20 steps, {AT_ONCE} images at a time; ifia: 20 repeats of 10 "
        "steps, linf 0.05, IG of 5.\n"
        f"CPU-seconds an image now; time at {before} / now, in all and of each round; mean-value "
        "bounds and the\nstrongest attacks now against then, on average (goal: -0.1% or more) and "
        "of the worst image; perturbations apart"
    )
    heads = ["network", "protocol", "images", "seconds", "before/now", "rounds", "mean-value"]
    heads += ["lowest", "attacks", "weakest", "apart", "goal"]
    there = [[*rows[case], f">= {GOALS[case[1]]}"] for case in PLAN if case in rows]
    lines = [render(title, heads, there)]
    short = [" ".join(case) for case, images in PLAN.items() if _images(rows.get(case)) < images]
    if short:
        lines.append(f"not measured yet, or with fewer images than planned: {', '.join(short)}")
    TEXT.write_text("\n".join(lines) + "\n")


def _images(row: list[str] | None) -> int:
    return 0 if row is None else int(row[2])


def main() -> None:
    """Compare what is asked for and not there yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", default=BEFORE, help="commit of the other side")
    parser.add_argument("--images", type=int, help="of every case, in place of the plan's")
    parser.add_argument("--networks", nargs="+", default=["SmallCNN", "ResNet-18"])
    parser.add_argument("--protocols", nargs="+", default=list(GOALS), choices=list(GOALS))
    parser.add_argument("--anew", action="store_true", help="what is there, too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(other), given.before], check=True)
        try:
            for (network, protocol), planned in PLAN.items():
                last = given.images or planned
                wanted = network in given.networks and protocol in given.protocols
                there = _images(stored().get((network, protocol))) >= last
                if not wanted or (there and not given.anew):
                    continue
                before, after = [], []
                for first in range(0, last, AT_ONCE):
                    images = range(first, min(first + AT_ONCE, last))
                    before.append(audited(other, network, protocol, images))
                    after.append(audited(ROOT, network, protocol, images))
                    row = compared(before, after)
                    print(network, protocol, row, file=sys.stderr, flush=True)
                    made = [network, protocol, *row.values()]
                    write({**stored(), (network, protocol): made}, given.before)
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
    print(TEXT.read_text(), end="")


if __name__ == "__main__":
    main()
