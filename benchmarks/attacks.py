"""``make bench``: attacks with equal gradient budgets, and what they cost, in CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import foolbox
import torch
from captum.metrics import sensitivity_max
from torch import Tensor

import attribound as ab
import fashion
from attribound.attacks import IFIA, PGD, Attack, AttributionAscent, RandomPerturbation
from attribound.basics.tables import render
from attribound.basics.tensors import norm

IMAGES = 16
STEPS = 5
BALLS = [ab.L2Ball(0.05), ab.LinfBall(0.01)]


def captum_deviation(
    attribution: ab.IntegratedGradients, x: Tensor, ball: ab.Ball, draws: int
) -> Tensor:
    """Captum's sensitivity_max with draws from the sphere of the ball, as a deviation."""
    target = attribution.targets(x)
    count = [0]

    def perturb(inputs: Tensor, _radius: float) -> Tensor:
        count[0] += 1
        return inputs + ball.sample_sphere(inputs, count[0])

    def explain(inputs: Tensor | tuple[Tensor], target: Tensor) -> Tensor | tuple[Tensor]:
        if isinstance(inputs, tuple):  # a tuple for a tuple, as Captum's own explainers do
            return (attribution(inputs[0], target),)
        return attribution(inputs, target)

    found = sensitivity_max(
        explain, x, perturb, n_perturb_samples=draws, max_examples_per_batch=IMAGES, target=target
    )
    return found * norm(attribution(x, target))


def budgets(name: str) -> None:
    """Mean deviation found, relative to the ascent's, all with the ascent's budget."""
    x = fashion.images("t10k")[0][:IMAGES]
    attribution = ab.IntegratedGradients(fashion.network(name), steps=STEPS)
    rows = []
    for ball in BALLS:
        ascent = AttributionAscent()(attribution, x, ball)
        spent = ascent.evaluations
        linear = ab.bound(attribution, x, ball, method=ab.FirstOrder(dense=False)).xi.lower
        rivals = {
            "Captum sensitivity_max": captum_deviation(attribution, x, ball, spent // STEPS - 1),
            "random, as many draws": RandomPerturbation()
            .repeat(spent // STEPS)(attribution, x, ball)
            .deviation,
            "PGD-20 on cross-entropy, repeated": PGD()
            .repeat(spent // 20)(attribution, x, ball)
            .deviation,
            "IFIA top-100": IFIA(steps=spent // (2 * STEPS))(attribution, x, ball).deviation,
            "ascent by projected gradients": AttributionAscent(step=ab.attacks.Ascend())(
                attribution, x, ball
            ).deviation,
        }
        for rival, deviation in rivals.items():
            share = (ascent.deviation.mean() / deviation.mean()).item()
            goal = {"Captum": ">= 5", "PGD-20": ">= 1.5"}.get(rival.split()[0], "")
            if ball.name != "l2":
                goal = ""
            rows.append([f"{ball}", rival, share, goal])
        if ball.name == "l2":
            tight = (ascent.deviation / (ball.epsilon * linear)).mean().item()
            rows.append([f"{ball}", "first-order optimum (mean of ratios)", tight, ""])
    title = (
        f"Fashion-MNIST {name}, IG of {STEPS} steps, {IMAGES} images, {spent} gradients each: "
        "mean deviation found by AttributionAscent / by"
    )
    print(render(title, ["ball", "", "ratio", "goal"], rows), flush=True)


def ifia_step() -> None:
    """Time of a step of IFIA / one attribution and one product with its Jacobian's adjoint."""
    x = fashion.images("t10k")[0][:IMAGES]
    attribution = ab.IntegratedGradients(fashion.network("nat"), steps=STEPS)
    target, ball, count = attribution.targets(x), ab.LinfBall(0.05, low=0, high=1), 20

    def raw() -> None:
        for _ in range(count):
            attribution.relinearize(x, target).jacobian.rmatvec(x)

    def attack(steps: int) -> float:
        return processor_seconds(lambda: IFIA(steps=steps)(attribution, x, ball))

    attack(1)
    ratios = [(attack(count + 1) - attack(1)) / processor_seconds(raw) for _ in range(5)]
    print(f"\ntime of one IFIA step / one raw gradient of the attribution: {median(ratios):.2f}")


def foolbox_pgd() -> None:
    """CPU time of Foolbox's PGD-20, whole call / ours, which judges the maps, too.

    With weights that want gradients, as models come, and with frozen ones.
    """
    x, labels = (part[:IMAGES] for part in fashion.images("t10k"))
    ball = ab.L2Ball(0.5, low=0, high=1)
    rows = []
    for frozen in (False, True):
        model = fashion.network("at")
        model.requires_grad_(not frozen)
        attribution, ours = ab.Saliency(model), PGD()
        theirs = foolbox.attacks.L2PGD(rel_stepsize=2.5 / 20, steps=20)
        wrapped = foolbox.PyTorchModel(model, bounds=(0, 1))

        def by_us(attribution: ab.Attribution = attribution, ours: PGD = ours) -> None:
            ours(attribution, x, ball, labels)

        def by_them(theirs: Any = theirs, wrapped: Any = wrapped) -> None:
            theirs(wrapped, x, labels, epsilons=[ball.epsilon])

        by_us(), by_them()
        ratios = [processor_seconds(by_them) / processor_seconds(by_us) for _ in range(9)]
        rows.append(["frozen" if frozen else "as they come", median(ratios), ">= 1"])
    title = f"PGD-20, l2, {IMAGES} images of Fashion-MNIST, whole call: time of Foolbox / ours"
    print(render(title, ["weights", "ratio", "goal"], rows), flush=True)


def repeats_at_once() -> None:
    """CPU time of the repeats of an attack one after the other / as rows of one batch."""
    x = fashion.images("t10k")[0][:2]
    attribution = ab.IntegratedGradients(fashion.network("at"), steps=STEPS)
    ball, rows = ab.LinfBall(0.05, low=0, high=1), []
    for name, attack in {"IFIA, 10 steps": IFIA(steps=10), "PGD-20": PGD()}.items():

        def one_by_one(attack: Attack = attack) -> list[Tensor]:
            return [attack.seeded(i)(attribution, x, ball).delta for i in range(20)]

        def at_once(attack: Attack = attack) -> list[Tensor]:
            return [trial.delta for trial in attack.repeat(20)(attribution, x, ball).trials]

        apart = max(
            float((a - b).abs().max()) for a, b in zip(one_by_one(), at_once(), strict=True)
        )
        ratios = [processor_seconds(one_by_one) / processor_seconds(at_once) for _ in range(3)]
        rows.append([name, median(ratios), apart])
    title = f"20 repeats, {len(x)} images, IG of {STEPS} steps: one after the other / in one batch"
    print(render(title, ["attack", "ratio", "perturbations apart"], rows), flush=True)


def processor_seconds(work: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    torch.set_num_threads(1)
    foolbox_pgd()
    repeats_at_once()
    for each in fashion.NETWORKS:
        budgets(each)
    ifia_step()
