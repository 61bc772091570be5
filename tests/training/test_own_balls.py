"""A ball of a user's own is trained against like those of the library."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor

import attribound as ab
import objective_laws as laws
from attribound.training import AT, Hardware, TrainingConfig, TrainingObjective, train
from attribound.values import from_spec, to_spec
from training_runs import config, weights


@dataclass(frozen=True, eq=False, repr=False)
class TopFrozen(ab.LinfBall):
    """Perturbations that leave the first feature of each row alone."""

    seen: ClassVar[list[float]] = []

    def scaling(self, x: Tensor) -> Tensor:
        self.seen.append(self.epsilon)
        scale = torch.ones_like(x)
        scale[..., 0] = 0
        return scale


@pytest.mark.parametrize("objective", laws.SMALL.values(), ids=laws.SMALL)
@pytest.mark.parametrize("network", ["tabular", "image"])
def test_every_inner_attack_keeps_to_it(objective: TrainingObjective, network: str) -> None:
    ball = TopFrozen(0.1, low=0, high=1)
    step = laws.step_on(network, ball)
    delta = objective.attack(step) - step.x
    assert torch.equal(delta[..., 0], torch.zeros_like(delta[..., 0]))
    assert ball.contains(delta, step.x).all()
    if isinstance(objective, laws.Adversarial):
        assert delta.abs().max() > 0
    moved = objective.attack(replace(step, ball=laws.BALL)) - step.x
    assert objective.name == "ce" or moved[..., 0].abs().max() > 0


def test_it_is_trained_against_by_its_name(tmp_path) -> None:
    settings = replace(
        config("epochs=1", "evaluation.explained=0", "epsilon_warm_up.epochs=1"),
        ball=TopFrozen(0.2, low=0, high=1),
    )
    assert to_spec(settings)["ball"]["kind"] == f"{__name__}:TopFrozen"
    TopFrozen.seen.clear()
    train(settings, tmp_path / "own", progress=False, hardware=Hardware("cpu"))
    assert min(TopFrozen.seen) == pytest.approx(0.2 / 8)  # the warm-up reaches it
    assert max(TopFrozen.seen) == pytest.approx(0.2)
    plain = replace(settings, ball=ab.LinfBall(0.2, low=0, high=1))
    train(plain, tmp_path / "plain", progress=False, hardware=Hardware("cpu"))
    own, cube = weights(tmp_path / "own"), weights(tmp_path / "plain")
    assert not all(torch.equal(own[name], cube[name]) for name in own)


def test_what_is_no_ball_is_refused(tmp_path) -> None:
    settings = replace(config("epochs=1"), ball="l2")
    with pytest.raises(ab.InputError, match="ball: expected a ball, got 'l2'"):
        train(settings, tmp_path / "run", progress=False, hardware=Hardware("cpu"))


def test_a_ball_with_units_comes_from_a_table() -> None:
    table = {"method": "at", "ball": {"kind": "l2", "epsilon": 0.5, "scale": [1.0, 0.0, 2.0]}}
    read = from_spec(table, TrainingConfig)
    assert read.method == AT()
    assert read.ball == ab.L2Ball(0.5, scale=torch.tensor([1.0, 0.0, 2.0]))
