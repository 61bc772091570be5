"""Optimisers are built with every setting."""

from __future__ import annotations

import pytest
import torch

from attribound.basics.errors import InputError
from attribound.training.optimiser import SGD, Adam


def built(optimiser) -> dict[str, object]:
    return optimiser.build([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]


def test_adam_has_its_settings() -> None:
    group = built(Adam(lr=0.2, weight_decay=0.3, beta1=0.4, beta2=0.5))
    assert (group["lr"], group["weight_decay"], group["betas"]) == (0.2, 0.3, (0.4, 0.5))


def test_sgd_has_its_settings() -> None:
    group = built(SGD(lr=0.2, weight_decay=0.3, momentum=0.4, nesterov=True))
    found = [group[name] for name in ("lr", "weight_decay", "momentum", "nesterov")]
    assert found == [0.2, 0.3, 0.4, True]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Adam(lr=0), r"lr: expected a finite number above 0"),
        (lambda: Adam(weight_decay=-1), r"weight_decay: expected .* 0 or more"),
        (lambda: Adam(beta2=1.0), r"beta2"),
        (lambda: SGD(lr=float("nan")), r"lr"),
        (lambda: SGD(momentum=-0.1), r"momentum"),
        (lambda: SGD(momentum=0.0, nesterov=True), r"momentum: .* nesterov needs it"),
    ],
)
def test_impossible_rates_are_refused(make, message) -> None:
    with pytest.raises(InputError, match=message):
        make()
