"""``make bench``: derivatives of a traced network against those of autograd, as ratios of one run.

CPU time on one thread, medians over interleaved rounds; GFLOP/s beside a matrix product's in the
same rounds. ``python benchmarks/structured.py compile`` tries torch.compile instead.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from statistics import median

import torch
from captum import attr
from torch import Tensor, nn
from torch._functorch import config as functorch_config
from torch.utils.flop_counter import FlopCounterMode

import attribound as ab
import fashion
from attribound.basics.tables import render
from attribound.models import ResNet18
from attribound.networks.classifier import Classifier
from attribound.operators import dense

ROUNDS = int(os.environ.get("ATTRIBOUND_ROUNDS", "9"))
GEMM = 1024
IMAGES = 10
STEPS = 20
#: Passes over the network that each job needs.
PASSES = {"gradient": 2, "HVP": 2, "gradient of an objective": 4}
#: Autograd / structured, at least.
GOALS = {
    ("SmallCNN", 40, "HVP"): 1.2,
    ("SmallCNN", 40, "gradient of an objective"): 1.35,
    ("ResNet-18", 20, "HVP"): 1.6,
    ("ResNet-18", 20, "gradient of an objective"): 1.8,
    ("ResNet-18", 40, "HVP"): 1.6,
    ("ResNet-18", 40, "gradient of an objective"): 1.8,
}
Jobs = dict[str, Callable[[], object]]


def seconds(work: Callable[[], object]) -> float:
    """CPU time of one call: there is one thread, and others may use the machine."""
    start = time.process_time()
    work()
    return time.process_time() - start


def rounds(work: Jobs) -> list[dict[str, float]]:
    """Times of all jobs, round by round; a first round is not counted."""
    return [{name: seconds(run) for name, run in work.items()} for _ in range(ROUNDS + 1)][1:]


def ratio(times: list[dict[str, float]], above: str, below: str) -> float:
    """Median over rounds: the machine is noisy, neighbours in time are comparable."""
    return median(one[above] / one[below] for one in times)


def small_cnn() -> nn.Module:
    """The network of the paper for small images, as trained."""
    return fashion.network("nat")


def resnet() -> nn.Module:
    """ResNet-18 a quarter as wide as usual; untrained: no cost here depends on the weights."""
    torch.manual_seed(0)
    return ResNet18(width=16).eval()


def flops(model: nn.Module, x: Tensor) -> int:
    """Operations of one forward pass."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x)
    return counter.get_total_flops()


def jobs(classifier: Classifier, x: Tensor) -> Jobs:
    """The three derivatives that attributions, bounds and attacks are made of."""
    target = classifier.targets(x)
    v = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    _, product = classifier.linearise(x, target)

    def objective() -> None:
        gradient, fresh = classifier.linearise(x, target)
        fresh(gradient)

    return {
        "gradient": lambda: classifier.gradient(x.clone().requires_grad_(), target),
        "HVP": lambda: product(v),
        "gradient of an objective": objective,
    }


def derivatives(name: str, model: nn.Module, x: Tensor) -> list[list[object]]:
    """One row a job: autograd / structured, and how fast both are."""
    with torch.no_grad():
        both = {"autograd": Classifier(model, structured=False), "structured": Classifier(model)}
        assert both["structured"].is_structured(x)
        work: Jobs = {
            f"{way} {job}": run
            for way, classifier in both.items()
            for job, run in jobs(classifier, x).items()
        }
        square = torch.randn(GEMM, GEMM)
        work["GEMM"] = lambda: square @ square
        times = rounds(work)
    peak = 2 * GEMM**3 / median(one["GEMM"] for one in times) / 1e9
    rows = []
    for job, passes in PASSES.items():
        needed = passes * flops(model, x) / 1e9
        speed = {way: needed / median(one[f"{way} {job}"] for one in times) for way in both}
        goal = GOALS.get((name, len(x), job))
        share = f"{speed['structured'] / peak:.0%}"
        rows.append(
            [
                name,
                len(x),
                job,
                ratio(times, f"autograd {job}", f"structured {job}"),
                "" if goal is None else f">= {goal}",
                speed["autograd"],
                speed["structured"],
                peak,
                share + (" (aim: 50%)" if job == "HVP" and len(x) == 40 else ""),
            ]
        )
    return rows


def layers() -> nn.Module:
    """A network of linear layers for the same images, with random weights."""
    torch.manual_seed(0)
    wide = [nn.Flatten(), nn.Linear(784, 100), nn.Softplus(20.0), nn.Linear(100, 100)]
    return nn.Sequential(*wide, nn.Softplus(20.0), nn.Linear(100, 10)).eval()


def against_captum(name: str, model: nn.Module, x: Tensor) -> None:
    """Plain attributions of ten images, ours and Captum's, both told the labels."""
    target = model(x).argmax(1)
    ours, saliency = ab.IntegratedGradients(model, steps=STEPS), ab.Saliency(model)
    theirs, their_saliency = attr.IntegratedGradients(model), attr.Saliency(model)

    trusting = ab.Saliency(Classifier(model))
    trusting(x, target)
    vars(trusting.classifier)["_ready"] = lambda: None

    def captum_ig() -> Tensor:
        return theirs.attribute(x, target=target, n_steps=STEPS, method="riemann_right")

    def captum_saliency() -> Tensor:
        return their_saliency.attribute(x.requires_grad_(), target=target, abs=False)

    apart = [
        ((mine - his).norm() / his.norm()).item()
        for mine, his in [(ours(x, target), captum_ig()), (saliency(x, target), captum_saliency())]
    ]
    whole = rounds({"ours": lambda: ours(x, target), "Captum": captum_ig})
    # Apart: whoever is timed after Captum's integral pays for the memory that this gave back.
    times = rounds(
        {
            "ours": lambda: saliency(x, target),
            "Captum": captum_saliency,
            "trusting": lambda: trusting(x, target),
        }
    )
    shown = [
        ["integrated gradients", ratio(whole, "Captum", "ours"), ">= 1.1", apart[0]],
        ["saliency", ratio(times, "Captum", "ours"), ">= 1", apart[1]],
        ["the same, not looked at first", ratio(times, "Captum", "trusting"), "", ""],
    ]
    title = f"{name}, {IMAGES} images, {STEPS} steps: time of Captum / ours"
    print(render(title, ["", "ratio", "goal", "maps apart"], shown), flush=True)


def along(x: Tensor) -> None:
    """Points of a path through layers that narrow: these at every point, or once."""
    rows = []
    for name, widths in {
        "784-100-100-10": (784, 100, 100, 10),
        "3072-256-10": (3072, 256, 10),
    }.items():
        torch.manual_seed(0)
        pairs = pairwise(widths)
        made = [each for pair in pairs for each in (nn.Linear(*pair), nn.Softplus(20.0))]
        model = nn.Sequential(*made[:-1]).eval()
        points = x.flatten(1) if widths[0] == 784 else torch.rand(len(x), widths[0])
        together, apart = Classifier(model), Classifier(model)
        apart._structures.use_stem = lambda *_: None
        both = {"together": together, "apart": apart}
        maps = {way: ab.IntegratedGradients(each, steps=50) for way, each in both.items()}
        at = {way: each.linearize(points).jacobian for way, each in maps.items()}
        jobs: dict[str, Jobs] = {
            "integrated gradients": {way: partial(each, points) for way, each in maps.items()},
            "product with the Jacobian": {
                way: partial(each.matvec, points) for way, each in at.items()
            },
        }
        rows += [
            [name, job, ratio(rounds(work), "apart", "together")] for job, work in jobs.items()
        ]
    title = (
        f"50 points of a path, {len(x)} examples: all layers at each point / the first ones once"
    )
    print(render(title, ["network", "", "ratio"], rows), flush=True)


def blocks(x: Tensor) -> None:
    """The dense Jacobian of one image: many products at one point."""
    model = small_cnn()
    both = {
        way: ab.Saliency(Classifier(model, structured=way == "structured")).linearize(x[:1])
        for way in ("autograd", "structured")
    }
    times = rounds(
        {way: lambda made=made: dense(made.jacobian, 0, 64) for way, made in both.items()}
    )
    found = ratio(times, "autograd", "structured")
    print(f"\nDense Jacobian of one image, saliency: autograd / structured = {found:.2f}")


def compiled(x: Tensor) -> None:
    """What torch.compile makes of the gradient, for once."""
    functorch_config.donated_buffer = False  # said to stand in the way of create_graph
    model = small_cnn()
    target = model(x).argmax(1)
    made = torch.compile(model)

    def gradient(network: Callable[[Tensor], Tensor]) -> Tensor:
        point = x.clone().requires_grad_()
        score = network(point).gather(1, target.unsqueeze(1)).sum()
        return torch.autograd.grad(score, point)[0]

    first = seconds(lambda: gradient(made))
    structured = Classifier(model)
    times = rounds(
        {
            "plain": lambda: gradient(model),
            "compiled": lambda: gradient(made),
            "structured": lambda: structured.gradient(x.clone().requires_grad_(), target),
        }
    )
    off = (gradient(made) - gradient(model)).norm() / gradient(model).norm()
    print(f"torch.compile, gradient at {len(x)} points: the first takes {first:.0f} CPU-seconds")
    print(f"gradients apart by {off:.1g}")
    print(f"plain / compiled = {ratio(times, 'plain', 'compiled'):.2f}")
    print(f"compiled / structured = {ratio(times, 'compiled', 'structured'):.2f}")
    point = x.clone().requires_grad_()
    try:
        score = made(point).gather(1, target.unsqueeze(1)).sum()
        (slope,) = torch.autograd.grad(score, point, create_graph=True)
        torch.autograd.grad(slope.sum(), point)
    except RuntimeError as error:
        print(f"second derivative: {str(error).splitlines()[0]}")


def main() -> None:
    """All tables."""
    torch.set_num_threads(1)
    x = fashion.images("t10k")[0][:40].contiguous()
    if sys.argv[1:] == ["compile"]:
        compiled(x)
        return
    colour = torch.rand(40, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    rows = []
    for count in (5, 40):
        rows += derivatives("SmallCNN", small_cnn(), x[:count])
    for count in (20, 40):
        rows += derivatives("ResNet-18", resnet(), colour[:count])
    header = ["network", "points", "", "autograd / structured", "goal"]
    header += ["GFLOP/s, autograd", "structured", "GEMM", "structured / GEMM"]
    title = f"One thread, CPU time, medians of {ROUNDS} interleaved rounds"
    print(render(title, header, rows), flush=True)
    against_captum("SmallCNN", small_cnn(), x[:IMAGES])
    print()
    against_captum("784-100-100-10", layers(), x[:IMAGES])
    print()
    along(x[:IMAGES])
    blocks(x)


if __name__ == "__main__":
    main()
