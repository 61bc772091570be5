"""``make bench``: what a step of each training method costs against the passes it counts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import attribound as ab
from attribound.basics.tables import render
from attribound.models import SmallCNN
from attribound.training import (
    ART,
    AT,
    CE,
    TRADES,
    AdvAAT,
    ATWithIGR,
    IGNorm,
    IGSumNorm,
    Passes,
    Step,
    TRADESWithIGR,
    TrainingObjective,
)
from attribound.values import from_spec

BATCH = 128
ROUNDS = int(os.environ.get("ATTRIBOUND_ROUNDS", "5"))
GOAL = 1.3
BALL = ab.LinfBall(0.1, low=0, high=1)
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}

#: Few steps and nodes: the costs of both are proportional to their numbers.
METHODS: tuple[TrainingObjective, ...] = (
    CE(),
    AT(steps=3),
    TRADES(steps=3),
    IGNorm(steps=2, ig_steps=4, attack_ig_steps=2),
    IGSumNorm(steps=2, ig_steps=4, attack_ig_steps=2),
    AdvAAT(steps=2, ig=ab.IntegratedGradients(steps=2)),
    ART(steps=2),
    ATWithIGR(base=AT(steps=3), ig=ab.IntegratedGradients(steps=2)),
    TRADESWithIGR(base=TRADES(steps=3), ig=ab.IntegratedGradients(steps=2)),
)


def network(memory_format: torch.memory_format) -> nn.Module:
    """SmallCNN in train mode, with a last layer that is not zero."""
    torch.manual_seed(0)
    model = SmallCNN()
    nn.init.normal_(model.classifier.fc3.weight, std=0.1)
    return model.to(memory_format=memory_format).train()


def batch(memory_format: torch.memory_format) -> tuple[Tensor, Tensor]:
    """Noise: no cost here depends on the image."""
    x = torch.rand(BATCH, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    return x.to(memory_format=memory_format), torch.arange(BATCH) % 10


def raw_passes(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Callable[[], object]]:
    """The passes that methods count, each as one writes it in plain PyTorch."""

    def to_inputs(work: Callable[[Tensor], object]) -> Callable[[], object]:
        def run() -> None:
            model.requires_grad_(False)
            work(x.clone().requires_grad_())
            model.requires_grad_(True)

        return run

    def gradient(point: Tensor, again: bool) -> Tensor:
        score = cross_entropy(model(point), y, reduction="sum")
        return torch.autograd.grad(score, point, create_graph=again)[0]

    def forward() -> None:
        with torch.no_grad():
            model(x)

    def first_to_parameters() -> None:
        model.zero_grad()
        cross_entropy(model(x), y).backward()

    def second_to_parameters() -> None:
        model.zero_grad()
        point = x.clone().requires_grad_()
        gradient(point, again=True).abs().sum().backward()

    return {
        "forward": forward,
        "first_in": to_inputs(lambda z: gradient(z, again=False)),
        "first": first_to_parameters,
        "second_in": to_inputs(
            lambda z: torch.autograd.grad(gradient(z, again=True).abs().sum(), z)
        ),
        "second": second_to_parameters,
    }


def step(method: TrainingObjective, model: nn.Module, x: Tensor, y: Tensor) -> Callable[[], object]:
    """One step of training up to the gradients."""

    def run() -> None:
        model.zero_grad()
        method(Step(model, x, y, BALL, seed=0)).total.backward()

    return run


def seconds(work: Callable[[], object]) -> float:
    """CPU time of one call: there is one thread, and others may use the machine."""
    start = time.process_time()
    work()
    return time.process_time() - start


def medians(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median times of interleaved rounds; a first round is not counted."""
    rounds = [{name: seconds(run) for name, run in work.items()} for _ in range(ROUNDS + 1)]
    return {name: median(times[name] for times in rounds[1:]) for name in work}


def expected(method: TrainingObjective, raw: dict[str, float]) -> float:
    """The time of the passes that ``method`` counts."""

    def of(passes: Passes, first: str, second: str) -> float:
        return (
            passes.first * raw[first]
            + passes.second * raw[second]
            + passes.forward * raw["forward"]
        )

    attack = of(method.attack_passes, "first_in", "second_in")
    return attack + of(method.loss_passes, "first", "second")


def main() -> None:
    """Both tables."""
    torch.set_num_threads(1)
    work: dict[str, Callable[[], object]] = {}
    for name, memory_format in FORMATS.items():
        model = network(memory_format)
        x, y = batch(memory_format)
        steps = {method.name: step(method, model, x, y) for method in METHODS}
        together = raw_passes(model, x, y) | steps
        work |= {f"{name} {key}": run for key, run in together.items()}
    times = medians(work)
    plain, last = ({key: times[f"{name} {key}"] for key in together} for name in FORMATS)
    rows = []
    for method in METHODS:
        passes = method.passes
        rows.append(
            [
                method.name,
                passes.first,
                passes.second,
                passes.forward,
                plain[method.name] / expected(method, plain),
                f"<= {GOAL}",
                plain[method.name] / plain["first"],
                expected(from_spec(method.name, TrainingObjective), plain) / plain["first"],
                plain[method.name] / last[method.name],
            ]
        )
    title = (
        f"SmallCNN, batch {BATCH}, one thread, CPU time, medians of {ROUNDS} interleaved rounds: "
        "time of a step of training / its passes written in plain PyTorch"
    )
    header = ["method", "first", "second", "forward", "ratio", "goal"]
    header += ["in forward+backwards", "with default settings", "contiguous / channels_last"]
    print(render(title, header, rows))
    kinds = [[kind, plain[kind] / plain["first"]] for kind in raw_passes(model, x, y)]
    print(render("One pass / a forward and a backward to the parameters", ["pass", ""], kinds))


if __name__ == "__main__":
    main()
