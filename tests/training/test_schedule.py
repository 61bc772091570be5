"""Schedules against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch.optim import lr_scheduler

from attribound.basics.errors import InputError
from attribound.training.config import WarmUp
from attribound.training.schedule import Constant, Cosine, MultiStep, OneCycle

STEPS, PER_EPOCH, RATE = 60, 6, 0.2


def rates(schedule) -> list[float]:
    return [RATE * schedule.factor(step, STEPS, PER_EPOCH) for step in range(STEPS)]


def reference(make) -> list[float]:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], RATE)
    scheduler = make(optimiser)
    found = []
    for _ in range(STEPS):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return found


REFERENCES = {
    "constant": (Constant(), lambda o: lr_scheduler.ConstantLR(o, 1.0)),
    "cosine": (Cosine(), lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS)),
    "one-cycle": (
        OneCycle(rise=0.25, start=0.1, end=1e-3),
        lambda o: lr_scheduler.OneCycleLR(
            o,
            RATE,
            STEPS,
            pct_start=0.25,
            div_factor=10,
            final_div_factor=1e3,
            cycle_momentum=False,
        ),
    ),
    "multistep": (
        MultiStep(milestones=(3, 7.5), gamma=0.3),
        lambda o: lr_scheduler.MultiStepLR(o, [18, 45], 0.3),
    ),
}


@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize("name", [n for n in REFERENCES if n != "one-cycle"])
def test_rates_are_those_of_pytorch(name) -> None:
    schedule, make = REFERENCES[name]
    assert rates(schedule) == pytest.approx(reference(make), rel=1e-9)


def test_one_cycle_is_that_of_pytorch() -> None:
    """Apart, because PyTorch's raises when it is asked for a step after the last."""
    schedule, make = REFERENCES["one-cycle"]
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], RATE)
    scheduler = make(optimiser)
    found = [optimiser.param_groups[0]["lr"]]
    for _ in range(STEPS - 1):
        optimiser.step()
        scheduler.step()
        found.append(optimiser.param_groups[0]["lr"])
    assert rates(schedule) == pytest.approx(found, rel=1e-9)
    broken = OneCycle(rise=0.3, start=0.1, end=1e-3)
    assert rates(broken) != pytest.approx(found, rel=1e-2)


def test_one_cycle_of_a_single_step() -> None:
    assert OneCycle().factor(0, 1, 1) == pytest.approx(0.04 * 1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OneCycle(rise=1.0), r"rise: expected a number between 0 and 1"),
        (lambda: MultiStep(milestones=(5, 3)), r"milestones: expected epochs in rising"),
        (lambda: MultiStep(gamma=0.0), r"gamma"),
    ],
)
def test_impossible_schedules_are_refused(make, message) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_epsilon_rises_in_equal_steps_and_stays() -> None:
    by_epochs = [WarmUp(epochs=2).factor(step, STEPS, PER_EPOCH) for step in range(STEPS)]
    assert by_epochs[:12] == pytest.approx([(i + 1) / 12 for i in range(12)])
    assert set(by_epochs[12:]) == {1.0}
    assert by_epochs == [WarmUp(fraction=0.2).factor(s, STEPS, PER_EPOCH) for s in range(STEPS)]
    assert WarmUp().factor(0, STEPS, PER_EPOCH) == 1.0


def test_a_warm_up_of_two_lengths_is_refused() -> None:
    with pytest.raises(InputError, match="WarmUp: expected epochs or fraction, got both"):
        WarmUp(epochs=1, fraction=0.1)
