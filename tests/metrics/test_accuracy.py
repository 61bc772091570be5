from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import attribound as ab
from attribound.attacks import PGD
from attribound.metrics import Share, attacked_accuracy, beginning_with, clean_accuracy
from attribound.metrics import accuracy as module


@dataclass
class Lines:
    """Two classes, logits ±(w·x): an attack of size eps costs a margin of eps times |w|_dual."""

    model: nn.Module
    x: Tensor
    y: Tensor
    margin: Tensor
    weight: Tensor


@pytest.fixture
def lines() -> Lines:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(6, generator=generator).double()
    x = torch.randn(700, 6, generator=generator).double()
    y = (x @ weight > 0).long()
    y[::7] = 1 - y[::7]  # mislabelled
    linear = nn.Linear(6, 2, bias=False).double()
    linear.weight.data = torch.stack([-weight, weight])
    # Dropout: in train mode every answer would be noise.
    model = nn.Sequential(linear, nn.Dropout(0.9)).train()
    return Lines(model, x, y, (x @ weight) * (2 * y - 1), weight)


def test_clean_accuracy_is_the_share_of_positive_margins(lines) -> None:
    share = clean_accuracy(lines.model, lines.x, lines.y)
    assert share == Share(int((lines.margin > 0).sum()), 700)
    assert share == Share(600, 700)


@pytest.mark.parametrize(("ball", "dual"), [(ab.LinfBall(0.2), 1), (ab.L2Ball(0.3), 2)])
def test_attacked_accuracy_of_a_linear_model_in_closed_form(lines, ball, dual) -> None:
    cost = ball.epsilon * torch.linalg.vector_norm(lines.weight, dual)
    expected = int((lines.margin > cost).sum())
    assert 0 < expected < (lines.margin > 0).sum()  # the attack matters
    found = attacked_accuracy(lines.model, lines.x, lines.y, ball, PGD(steps=10, step_size=3.0))
    assert found == Share(expected, 700)


def test_the_range_of_the_ball_is_kept(lines) -> None:
    """Where no value may move outwards, signs against the margin are clipped away."""
    x = lines.x.clamp(0, 1)
    y = (x @ lines.weight > 0).long()
    ball = ab.LinfBall(0.2, low=0, high=1)
    low, high = ball.limits(x)
    signs = (2 * y - 1).unsqueeze(1) * lines.weight
    cost = -torch.where(signs > 0, low * signs, high * signs).sum(1)
    expected = int((((x @ lines.weight) * (2 * y - 1)) > cost).sum())
    assert attacked_accuracy(lines.model, x, y, ball, PGD(steps=20)) == Share(expected, 700)


def test_misclassified_examples_do_not_count_though_the_attack_could_mend_them(lines) -> None:
    wrong = lines.margin < 0
    share = attacked_accuracy(
        lines.model, lines.x[wrong], lines.y[wrong], ab.LinfBall(0.01), PGD(steps=2)
    )
    assert share == Share(0, 100)


def test_the_model_is_left_as_it_was(lines) -> None:
    before = [p.requires_grad for p in lines.model.parameters()]
    attacked_accuracy(lines.model, lines.x, lines.y, ab.LinfBall(0.1), PGD(steps=2))
    clean_accuracy(lines.model, lines.x, lines.y)
    assert lines.model.training
    assert lines.model[1].training
    assert [p.requires_grad for p in lines.model.parameters()] == before
    assert all(p.grad is None for p in lines.model.parameters())


def test_batches_change_nothing(lines, monkeypatch) -> None:
    ball, attack = ab.LinfBall(0.2), PGD(steps=3)
    whole = attacked_accuracy(lines.model, lines.x, lines.y, ball, attack)
    seen = []
    lines.model.register_forward_hook(lambda m, args, out: seen.append(len(out)))
    monkeypatch.setattr(module.slices, "__defaults__", (64,))
    assert attacked_accuracy(lines.model, lines.x, lines.y, ball, attack) == whole
    assert max(seen) == 64


def test_ctrl_c_stops(lines) -> None:
    def interrupt(module, args):
        if torch.is_grad_enabled():
            raise KeyboardInterrupt

    lines.model.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        attacked_accuracy(lines.model, lines.x, lines.y, ab.LinfBall(0.2), PGD(steps=3))
    assert lines.model.training


def test_refuses_inputs_outside_the_range(lines) -> None:
    with pytest.raises(ab.InputError, match="x: expected values from 0 to 1"):
        attacked_accuracy(lines.model, lines.x, lines.y, ab.LinfBall(0.1, low=0, high=1), PGD())


@pytest.mark.parametrize("wanted", [1, 2, 6, 7, 300, 600])
def test_the_beginning_has_as_many_as_were_asked_for(lines, wanted) -> None:
    count = beginning_with(wanted, lines.model, lines.x, lines.y)
    assert int((lines.margin[:count] > 0).sum()) == wanted
    assert lines.margin[count - 1] > 0  # no longer than needed


def test_the_beginning_is_everything_if_there_are_not_so_many(lines) -> None:
    assert beginning_with(601, lines.model, lines.x, lines.y) == 700


def test_a_beginning_with_none_is_refused(lines) -> None:
    with pytest.raises(ab.InputError, match="classified correctly: expected 1 or more, got 0"):
        beginning_with(0, lines.model, lines.x, lines.y)
