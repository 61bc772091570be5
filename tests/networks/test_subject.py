"""Copies know what they are copies of."""

from __future__ import annotations

import copy
import pickle

import torch
from torch import nn

import attribound as ab
from attribound.networks.fingerprint import fingerprint
from attribound.networks.subject import copy_of, original_of, subject_of


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()


def test_a_copy_and_its_original() -> None:
    net = network()
    smooth = ab.smooth(net, 50)
    assert original_of(smooth) is net
    assert original_of(net) is net
    assert copy_of(net) is None
    assert subject_of(net) == subject_of(None) == "your network"
    assert subject_of(smooth) == "its smooth copy, β = 50"


def test_a_copy_of_a_copy_is_one_of_the_original() -> None:
    net = network()
    again = ab.smooth(ab.smooth(net, 5), 100)
    assert original_of(again) is net
    assert subject_of(again) == "its smooth copy, β = 100"


def test_it_survives_copies_and_pickles_and_changes_nothing() -> None:
    smooth = ab.smooth(network(), 20)
    for same in (copy.deepcopy(smooth), pickle.loads(pickle.dumps(smooth))):
        assert subject_of(same) == "its smooth copy, β = 20"
        assert fingerprint("m", same) == fingerprint("m", smooth)
    assert smooth.state_dict().keys() == network().state_dict().keys()
    assert len([*smooth.modules()]) == 4


def test_a_module_that_is_replaced_whole() -> None:
    assert subject_of(ab.smooth(nn.ReLU(), 20)) == "its smooth copy, β = 20"


def test_every_result_says_whose_it_is() -> None:
    net, x = network(), torch.rand(2, 3)
    smooth = ab.smooth(net, 20)
    ball = ab.L2Ball(0.1)
    for claim in ("first_order", "adjusted", "mean_value", "certified"):
        bound = ab.bound(ab.Saliency(smooth), x, ball, claim=claim)
        assert bound.subject == "its smooth copy, β = 20"
        assert "of its smooth copy, β = 20, l2 ball" in repr(bound)
    assert ab.max_epsilon(ab.Saliency(smooth), x, degrees=10).subject == "its smooth copy, β = 20"
    attack = ab.attacks.PGD()
    assert "Attacked your network" in repr(attack(ab.Saliency(net), x, ball))
    assert attack.repeat(2)(ab.Saliency(smooth), x, ball).subject == "its smooth copy, β = 20"
