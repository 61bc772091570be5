from __future__ import annotations

import pytest
from torch import nn

from attribound.networks.modes import eval_mode


def test_every_module_returns_to_its_own_mode() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.BatchNorm1d(2), nn.Dropout())).train()
    model[1][0].eval()  # a frozen batch norm
    before = [module.training for module in model.modules()]
    with eval_mode(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == before


def test_also_after_an_error() -> None:
    model = nn.Dropout()
    with pytest.raises(ZeroDivisionError), eval_mode(model):
        1 / 0  # noqa: B018
    assert model.training


def test_a_function_has_no_mode() -> None:
    with eval_mode(abs):
        pass
