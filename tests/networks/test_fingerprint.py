from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import attribound as ab
import cases
from attribound.networks.fingerprint import fingerprint, tensor_digest, without_addresses


class Net(nn.Module):
    """Its settings are everywhere but in its ``repr``."""

    power = 1.0

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 2)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("scale", torch.ones(3), persistent=False)
        self.offset = torch.zeros(2)
        self.table = np.zeros(2)
        self.settings = {"slope": 0.1, "sizes": [1, 2]}
        self.activation = F.relu
        self.hidden = [nn.Linear(2, 2, bias=False)]  # not registered
        self.circle = [self]

    def forward(self, x):
        x = (x - self.mean) * self.scale
        return self.settings["slope"] * self.activation(self.layer(x)) ** self.power + self.offset


class Powerful(Net):
    power = 2.0


def change_weight(net) -> None:
    net.layer.weight.data[0, 0] += 1e-6


def change_bias(net) -> None:
    net.layer.bias = nn.Parameter(torch.zeros(2))


CHANGES = {
    "weight": change_weight,
    "parameter": change_bias,
    "dtype": lambda net: net.double(),
    "buffer": lambda net: net.mean.add_(1),
    "buffer that is not saved": lambda net: net.scale.mul_(2),
    "plain tensor": lambda net: net.offset.add_(1),
    "array": lambda net: net.table.__setitem__(0, 1.0),
    "number in a dictionary": lambda net: net.settings.update(slope=0.2),
    "item in a list": lambda net: net.settings["sizes"].append(3),
    "function": lambda net: setattr(net, "activation", F.gelu),
    "weight that is not registered": lambda net: net.hidden[0].weight.data.zero_(),
    "class": lambda net: setattr(net, "__class__", Powerful),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_seen(change) -> None:
    changed = Net()
    change(changed)
    assert fingerprint("model", changed) != fingerprint("model", Net())


def test_copies_modes_and_gradients_change_nothing() -> None:
    net = Net()
    before = fingerprint("model", net)
    assert before.startswith("sha256:")
    assert before == fingerprint("model", copy.deepcopy(net)) == fingerprint("model", net.eval())
    net.requires_grad_(False)
    net._cache = torch.rand(3)
    assert fingerprint("model", net) == before
    saved = nn.Sequential(nn.Conv2d(1, 2, (3, 3)), nn.Conv2d(2, 2, (3, 3)))
    again = pickle.loads(pickle.dumps(saved))
    assert fingerprint("model", again) == fingerprint("model", saved)


def test_another_process_finds_the_same() -> None:
    code = (
        "import torch; from attribound.networks.fingerprint import fingerprint; "
        "torch.manual_seed(0); print(fingerprint('m', torch.nn.TransformerEncoderLayer(4, 2)))"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    torch.manual_seed(0)
    assert there.stdout.strip() == fingerprint("m", nn.TransformerEncoderLayer(4, 2))


def test_the_sharpness_of_smooth_copies_is_seen() -> None:
    """As a module it is in the ``repr``, for functions in the class."""
    modules = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    for net in (modules, cases.Functional(F.relu), Net()):
        assert fingerprint("m", ab.smooth(net, 5)) == fingerprint("m", ab.smooth(net, 5))
        assert fingerprint("m", ab.smooth(net, 5)) != fingerprint("m", ab.smooth(net, 20))


def test_a_hash_of_the_state_alone_would_mistake_a_quadratic() -> None:
    """Its matrices are plain attributes: not in the state, not in the ``repr``."""
    one, other = (cases.quadratic([top, 1.0])[0].classifier.model for top in (3.0, 4.0))
    assert one.state_dict() == other.state_dict()
    assert repr(one) == repr(other)
    assert fingerprint("model", one) != fingerprint("model", other)


def test_moving_a_text_from_one_name_to_the_next_is_seen() -> None:
    one, other = nn.Module(), nn.Module()
    one.a, one.b = "xy", "z"
    other.a, other.b = "x", "yz"
    assert fingerprint("model", one) != fingerprint("model", other)


@dataclass
class Widths:
    first: int


def test_unusual_values_are_read() -> None:
    net = nn.Module()
    net.register_buffer("empty", torch.zeros(0))
    net.register_buffer("narrow", torch.zeros(2, dtype=torch.bfloat16))
    net.register_buffer("turned", torch.arange(6.0).view(2, 3).T)
    net.widths = Widths(3)
    before = fingerprint("model", net)
    net.widths.first = 4
    assert fingerprint("model", net) != before


def test_tensors_are_told_apart_by_shape_dtype_and_bytes() -> None:
    zeros = torch.zeros(2, 3)
    others = [zeros.T, zeros.double(), zeros + 1, -zeros]
    assert len({tensor_digest(t) for t in [zeros, *others]}) == 5
    assert tensor_digest(zeros.clone()) == tensor_digest(zeros)


def test_addresses_are_left_out() -> None:
    assert without_addresses("<function f at 0x7f00aB>, 0x10") == "<function f>, 0x10"


def test_functions_need_a_name() -> None:
    def model(x):
        return x

    with pytest.raises(ab.ModelError, match=r"model: expected a torch\.nn\.Module, or a function"):
        fingerprint("model", model)
    with pytest.raises(ab.ModelError, match=r"got a function without one; .* set its fingerprint"):
        fingerprint("model", model)
    model.fingerprint = "identity, 2026"
    assert fingerprint("model", model) == "named:identity, 2026"
