"""The network follows from settings, warm start and data."""

from __future__ import annotations

import pytest
import torch

from attribound import models
from attribound.basics.errors import InputError
from attribound.basics.whole_files import sha256_of
from attribound.training.config import InitialWeights
from attribound.training.network import check_fit, first_network
from training_runs import same


def test_what_is_left_out_follows_from_the_data() -> None:
    def made(settings, shape, classes=10):
        return first_network(settings, None, shape, classes, 0).config

    assert made({}, (1, 28, 28)) == models.SmallCNNConfig()
    assert made({"width": 8}, (3, 32, 32), 5) == models.ResNet18Config(width=8, classes=5)
    assert made({"hidden": [4]}, (1, 8, 8)) == models.MLPConfig(features=64, hidden=(4,))
    assert made({"architecture": "mlp"}, (1, 28, 28)).features == 784


def test_new_weights_follow_from_the_seed_alone() -> None:
    def weights(seed):
        return first_network({"hidden": [4]}, None, (5,), 3, seed).model.state_dict()

    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    first = weights(0)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(3)
    assert same(weights(0), first)
    assert not same(weights(1), first)


@pytest.fixture
def stored(tmp_path):
    config = models.MLPConfig(features=5, hidden=(4,), classes=3)
    models.save(models.build(config), config, tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


def test_a_warm_start_brings_its_network(stored) -> None:
    for settings in ({}, {"architecture": "mlp", "features": 5, "hidden": [4], "classes": 3}):
        start = first_network(settings, InitialWeights(str(stored)), (5,), 3, 0)
        assert start.config == models.MLPConfig(features=5, hidden=(4,), classes=3)
        assert same(start.model.state_dict(), models.load(stored).state_dict())
        assert start.sha256 == sha256_of(stored)


def test_a_warm_start_of_another_network_is_refused(stored) -> None:
    warm = InitialWeights(str(stored))
    with pytest.raises(InputError, match=r"network\.hidden: expected \[4\], as in w\.safetensors"):
        first_network({"hidden": [7]}, warm, (5,), 3, 0)
    with pytest.raises(InputError, match=r"w\.safetensors: expected MLPConfig"):
        first_network({"architecture": "mlp", "hidden": [7]}, warm, (5,), 3, 0)


def test_a_warm_start_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"warm_start\.file: .*got zoo:x/y, .*zoo\.path"):
        first_network({}, InitialWeights("zoo:x/y"), (5,), 3, 0)


def test_a_network_for_other_data_is_refused() -> None:
    model = models.build(models.MLPConfig(features=5, hidden=(4,), classes=3))
    check_fit(model, torch.rand(2, 5), 3)
    assert model.training
    with pytest.raises(InputError, match=r"network: expected one for examples of shape \(6,\)"):
        check_fit(model, torch.rand(2, 6), 3)
    with pytest.raises(InputError, match=r"network\.classes: expected 4 or more"):
        check_fit(model, torch.rand(2, 5), 4)
