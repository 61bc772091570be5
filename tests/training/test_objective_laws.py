"""Every training method obeys the laws, and every law rejects a method broken on purpose."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

import attribound as ab
import objective_laws as laws
from attribound.attacks.objectives import Evaluation, PredictionLoss
from attribound.training import AT, AdvAAT, Step, TrainingObjective
from attribound.training.groups import mean_over_examples
from attribound.training.inner import Adversarial
from attribound.training.maps import explained, pearson

each = pytest.mark.parametrize("objective", laws.SMALL.values(), ids=laws.SMALL)
each_adversarial = pytest.mark.parametrize(
    "objective",
    [o for o in laws.SMALL.values() if isinstance(o, Adversarial)],
    ids=[n for n, o in laws.SMALL.items() if isinstance(o, Adversarial)],
)


@each
@pytest.mark.parametrize("network", ["tabular", "signal"])
def test_gradients_agree_with_finite_differences(
    objective: TrainingObjective, network: str
) -> None:
    laws.gradients_are_those_of_the_terms(objective, laws.step_on(network))


@each
@pytest.mark.parametrize("ball", [laws.BALL, ab.L2Ball(0.5, low=0, high=1)], ids=["linf", "l2"])
@pytest.mark.parametrize("network", ["tabular", "image"])
def test_attacks_stay_inside(objective: TrainingObjective, ball: ab.LpBall, network: str) -> None:
    laws.attack_stays_inside(objective, laws.step_on(network, ball))


@each_adversarial
@pytest.mark.parametrize("network", ["tabular", "image"])
def test_attacks_rise(objective: Adversarial, network: str) -> None:
    laws.attack_rises(objective, laws.step_on(network))


@each
def test_passes_are_those_made(objective: TrainingObjective) -> None:
    laws.costs_what_it_says(objective, laws.step_on("tabular"))


@each
@pytest.mark.parametrize("network", ["tabular", "image"])
def test_the_model_is_left_alone(objective: TrainingObjective, network: str) -> None:
    laws.leaves_the_model_alone(objective, laws.step_on(network))


@dataclass(frozen=True)
class Detached(AdvAAT):
    """Forgets that the attribution of x moves with the parameters."""

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        def term(rows: slice) -> Tensor:
            ig = ab.IntegratedGradients(steps=3)
            before, after = (
                explained(ig, step.model, z[rows], step.y[rows]) for z in (step.x, attacked)
            )
            return (1 - pearson(before.detach(), after)) / 2

        return {"attribution": mean_over_examples(step.model, attacked, 6, term)}


@dataclass(frozen=True)
class Overstepping(AT):
    def attack(self, step: Step) -> Tensor:
        return super().attack(replace(step, ball=step.ball.at_radius(1.1 * step.ball.epsilon)))


@dataclass(frozen=True)
class Downhill(PredictionLoss):
    def evaluate(self, problem, points, *, slope: bool) -> Evaluation:
        here = super().evaluate(problem, points, slope=slope)
        return here if here.slope is None else replace(here, slope=-here.slope)


@dataclass(frozen=True)
class Descending(AT):
    def climbed(self, step: Step) -> Downhill:
        return Downhill()


@dataclass(frozen=True)
class Wasteful(AT):
    """Looks at the clean prediction and uses it for nothing."""

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        step.model(step.x)
        return super().losses(step, attacked)


@dataclass(frozen=True)
class Untidy(AT):
    def attack(self, step: Step) -> Tensor:
        step.model.eval()
        attacked = super().attack(step)
        step.model.train()
        return attacked


@pytest.mark.parametrize(
    ("law", "broken"),
    [
        (laws.gradients_are_those_of_the_terms, Detached()),
        (laws.attack_stays_inside, Overstepping()),
        (laws.attack_rises, Descending()),
        (laws.costs_what_it_says, Wasteful()),
        (laws.leaves_the_model_alone, Untidy()),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_law_rejects_a_broken_objective(law, broken) -> None:
    law(laws.SMALL["advaat" if isinstance(broken, AdvAAT) else "at"], laws.step_on("tabular"))
    with pytest.raises(AssertionError):
        law(broken, laws.step_on("tabular"))


@each
def test_the_same_seed_gives_the_same_attack_and_another_another(
    objective: TrainingObjective,
) -> None:
    step = laws.step_on("tabular")
    attacked = objective.attack(step)
    torch.rand(3)
    assert torch.equal(objective.attack(step), attacked)
    if objective.name == "ce":
        assert torch.equal(attacked, step.x)
    else:
        assert not torch.equal(objective.attack(replace(step, seed=6)), attacked)


@each
def test_the_loss_is_the_sum_of_its_terms(objective: TrainingObjective) -> None:
    step = laws.step_on("tabular")
    losses = objective(step)
    assert tuple(losses.terms) == objective.terms
    torch.testing.assert_close(losses.total, sum(losses.terms.values()))
    assert all(term.shape == () for term in losses.terms.values())
    assert torch.equal(losses.attacked, objective.attack(step))
    losses.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in step.model.parameters())


@each
def test_channels_last_gives_the_same(objective: TrainingObjective) -> None:
    step = laws.step_on("image")
    step.model.eval()  # dropout aside
    plain = objective(step)
    last = {"memory_format": torch.channels_last}
    other = objective(replace(step, model=step.model.to(**last), x=step.x.to(**last)))
    torch.testing.assert_close(other.attacked, plain.attacked, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(other.total, plain.total, rtol=1e-9, atol=1e-9)


@each
def test_networks_whose_last_layer_is_zero_give_no_nan(objective: TrainingObjective) -> None:
    """So SmallCNN begins: all its attributions are zero."""
    step = laws.step_on("tabular")
    with torch.no_grad():
        for parameter in step.model[-1].parameters():
            parameter.zero_()
    losses = objective(step)
    losses.total.backward()
    assert torch.isfinite(losses.attacked).all()
    assert all(torch.isfinite(p.grad).all() for p in step.model.parameters())


class Failing(torch.nn.Module):
    """Fails when it was called so many times."""

    def __init__(self, after: int, error: type[BaseException]) -> None:
        super().__init__()
        self.left, self.error = after, error

    def forward(self, x: Tensor) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return x


@each
@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_model_is_restored_after_an_error(
    objective: TrainingObjective, error, share: float
) -> None:
    """At its first call, midway, at its last; Ctrl-C, too, which the search keeps to itself."""
    step = laws.step_on("tabular")
    watch = Failing(10**6, error)
    objective(replace(step, model=torch.nn.Sequential(watch, *step.model)))
    calls = 10**6 - watch.left
    model = torch.nn.Sequential(Failing(int(share * (calls - 1)), error), *step.model)
    with pytest.raises(error):
        objective(replace(step, model=model))
    assert all(module.training for module in model.modules())
    assert all(p.requires_grad for p in model.parameters())
