from __future__ import annotations

import pytest
from torch import nn

from attribound.networks.frozen import frozen


def flags(model: nn.Module) -> list[bool]:
    return [parameter.requires_grad for parameter in model.parameters()]


def test_restores_exactly_the_flags_that_were_set() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].bias.requires_grad_(False)
    before = flags(model)
    seen = []

    def fail() -> None:
        with frozen(model):
            seen.extend(flags(model))
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert not any(seen)
    assert flags(model) == before


def test_a_function_has_nothing_to_freeze() -> None:
    with frozen(len):
        pass
