"""Laws that every training objective obeys; test_objective_laws.py shows that each can fail."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd import Function

import cases
import laws
from attribound.attacks.objectives import Problem
from attribound.attributions import IntegratedGradients, Saliency
from attribound.balls import Ball, LinfBall
from attribound.networks.frozen import frozen
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
from attribound.training.inner import Adversarial

#: Every method with settings small enough for a slow formula.
SMALL: dict[str, TrainingObjective] = {
    "ce": CE(),
    "at": AT(steps=4),
    "trades": TRADES(steps=4, beta=3.0),
    "ig_norm": IGNorm(steps=4, weight=2.0, ig_steps=3, attack_ig_steps=2),
    "ig_sum_norm": IGSumNorm(steps=4, weight=0.7, ig_steps=3, attack_ig_steps=2),
    "advaat": AdvAAT(steps=4, weight=0.8, ig=IntegratedGradients(steps=3)),
    "art": ART(steps=4, weight=0.6, k=5),
    "at+igr": ATWithIGR(base=AT(steps=4), weight=0.5, ig=IntegratedGradients(steps=3)),
    "trades+igr": TRADESWithIGR(base=TRADES(steps=4), weight=1.5, ig=IntegratedGradients(steps=3)),
}
BALL = LinfBall(0.1, low=0, high=1)


def step_on(network: str, ball: Ball = BALL, seed: int = 5) -> Step:
    """A batch on one of the networks of ``cases``, in train mode, with mixed labels."""
    model, x = cases.NETWORKS[network]()
    x = (x - x.min()) / (x.max() - x.min())
    classes = model(x).shape[1]
    return Step(model.train(), x, torch.arange(len(x)) % classes, ball, seed)


def nearby(step: Step) -> Tensor:
    """Some x' that no attack found."""
    noise = torch.randn(step.x.shape, generator=torch.Generator().manual_seed(2)).to(step.x)
    return step.x + 0.05 * noise


def gradients_are_those_of_the_terms(objective: TrainingObjective, step: Step) -> None:
    """Each term changes with the parameters as its gradient says; x' is held fixed."""
    moved = nearby(step)
    parameters = list(step.model.parameters())
    generator = torch.Generator().manual_seed(1)
    v = [torch.randn(p.shape, generator=generator).to(p) for p in parameters]
    h = 1e-5

    def shifted(times: float) -> dict[str, Tensor]:
        with torch.no_grad():
            for p, direction in zip(parameters, v, strict=True):
                p.add_(direction, alpha=times * h)
            values = objective.losses(step, moved)
            for p, direction in zip(parameters, v, strict=True):
                p.sub_(direction, alpha=times * h)
        return values

    ahead, behind = shifted(1), shifted(-1)
    for name, term in objective.losses(step, moved).items():
        gradient = torch.autograd.grad(term, parameters, retain_graph=True, allow_unused=True)
        along = sum((g * d).sum() for g, d in zip(gradient, v, strict=True) if g is not None)
        truth = (ahead[name] - behind[name]) / (2 * h)
        assert abs(along - truth) <= 1e-6 * (1 + abs(truth)), f"{name}: {along} but {truth}"


def attack_stays_inside(objective: TrainingObjective, step: Step) -> None:
    """x' is in the ball and in the range, and has no graph."""
    attacked = objective.attack(step)
    laws.inside(attacked - step.x, step.ball)
    assert attacked.min() >= -1e-6
    assert attacked.max() <= 1 + 1e-6
    assert not attacked.requires_grad


def attack_rises(objective: Adversarial, step: Step) -> None:
    """What the attack climbs is larger at x' than where it began, for most and on average."""
    model = step.model.eval()
    attacked = objective.attack(step)
    with frozen(model):
        problem = Problem(Saliency(model), step.x, step.y, step.x)
        begin = objective.start.begin(problem, step.ball, step.seed).deltas[0]
        began = step.x + step.ball.project(begin, step.x)
        climbed = objective.climbed(step)
        before, after = (climbed.evaluate(problem, z, slope=False).score for z in (began, attacked))
    assert after.mean() > before.mean()
    assert (after >= before).double().mean() > 0.5


class _Count(Function):
    @staticmethod
    def forward(ctx, x: Tensor, probe: Probe) -> Tensor:
        probe.forwards += len(x)
        ctx.probe = probe
        return x.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return _CountAgain.apply(gradient, ctx.probe), None


class _CountAgain(Function):
    @staticmethod
    def forward(ctx, gradient: Tensor, probe: Probe) -> Tensor:
        probe.backwards += len(gradient)
        ctx.probe = probe
        return gradient.clone()

    @staticmethod
    def backward(ctx, v: Tensor):
        ctx.probe.doubles += len(v)
        return v.clone(), None


@dataclass(eq=False)
class Probe(nn.Module):
    """The identity; counts the examples that pass it forwards, backwards and backwards again."""

    forwards: int = 0
    backwards: int = 0
    doubles: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return _Count.apply(x, self)


def costs_what_it_says(objective: TrainingObjective, step: Step) -> None:
    """The passes of a step are those it counts; two gradients of one forward are two passes."""
    probe = Probe()
    first, *rest = step.model
    model = nn.Sequential(first, probe, *rest)
    objective(Step(model, step.x, step.y, step.ball, step.seed)).total.backward()
    batch, passes = len(step.x), objective.passes
    shared = passes.second // 2 if isinstance(objective, ART) else 0
    made = Passes(
        first=(probe.backwards // batch + shared) - 2 * passes.second,
        second=probe.doubles // batch,
        forward=probe.forwards // batch + shared - passes.first - passes.second,
    )
    assert made == passes


def leaves_the_model_alone(objective: TrainingObjective, step: Step) -> None:
    """Modes, what requires gradients, buffers and the global generator are as before an attack."""
    odd = next(step.model.children())
    odd.training = False
    next(step.model.parameters()).requires_grad_(False)

    def state():
        modes = [m.training for m in step.model.modules()]
        trained = [p.requires_grad for p in step.model.parameters()]
        values = [t.clone() for t in (*step.model.parameters(), *step.model.buffers())]
        return modes, trained, values, torch.random.get_rng_state()

    modes, trained, values, generator = state()
    objective.attack(step)
    again = state()
    assert again[:2] == (modes, trained)
    assert all(torch.equal(a, b) for a, b in zip(values, again[2], strict=True))
    assert torch.equal(generator, again[3])
    assert all(p.grad is None for p in step.model.parameters())
    objective.losses(step, nearby(step))
    again = state()
    assert again[:2] == (modes, trained)
