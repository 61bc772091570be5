"""How many crossings are allowed, and what is refused by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import attribound as ab
from attribound.values import from_spec
from attributions.exact import reference
from attributions.exact.reference import exact


@pytest.mark.parametrize("text", ["exact:", "exact:0", "exact:many", "exact:-5", "exact:1.5"])
def test_a_limit_is_a_number(text) -> None:
    with pytest.raises(ab.InputError, match="quadrature: expected exact, or exact:N"):
        ab.IntegratedGradients(quadrature=text)


def test_settings_survive_texts() -> None:
    for text in ("ig:quadrature=exact", "ig:quadrature=exact:5000"):
        made = from_spec(text, ab.Attribution)
        assert made.name == text
        assert from_spec(made.name, ab.Attribution) == made
    assert made.points == 5000


def test_too_many_crossings_are_refused_with_their_number() -> None:
    net, x = reference.mlp((12, 10)), reference.rows()
    few = ab.IntegratedGradients(net, quadrature="exact:3")
    with pytest.raises(
        ab.InputError, match=r'at most 3 kinks, got one that crosses about \d+.*"exact:\d+"'
    ):
        few.linearize(x)
    with pytest.raises(ab.InputError, match="at most 6 kinks"):  # twice as many for values
        few(x)
    enough = ab.IntegratedGradients(net, quadrature="exact:21")  # fewer than there are neurons
    torch.testing.assert_close(enough(x), exact(net, 0.0)(x))


def test_jumps_that_would_not_fit_are_refused_before_anything_is_computed() -> None:
    net, x = reference.mlp((12, 10)), reference.rows()
    small = ab.Classifier(net, memory_limit=22 * 5 * 8 - 1)
    ig = ab.IntegratedGradients(small, quadrature="exact")
    with pytest.raises(ab.MemoryLimitError, match=r"jumps of one example, got .*22 of 5 features"):
        ig.linearize(x)
    torch.testing.assert_close(ig(x), exact(net, 0.0)(x))
    enough = ab.Classifier(net, memory_limit=22 * 5 * 8)
    ab.IntegratedGradients(enough, quadrature="exact").linearize(x)


REFUSED = {
    "smooth": (nn.Softplus(), "module '1': .*got Softplus; .*gauss_legendre"),
    "pooling": (nn.MaxPool1d(1), "got MaxPool1d"),
    "gelu": (nn.GELU(), "got GELU"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_networks_are_refused_by_name(name) -> None:
    module, message = REFUSED[name]
    net = nn.Sequential(nn.Linear(5, 4), module, nn.Linear(4, 3)).double().eval()
    with pytest.raises(ab.ModelError, match=message):
        exact(net)(reference.rows())


def test_what_is_no_sequence_and_what_runs_otherwise_is_refused() -> None:
    with pytest.raises(ab.ModelError, match="expected nested"):
        exact(ab.models.ResNet18(width=4).double().eval())(torch.rand(1, 3, 32, 32).double())
    net = reference.mlp((6,))
    net[0].register_forward_hook(lambda *_: None)
    with pytest.raises(ab.ModelError, match="with hooks"):
        exact(net)(reference.rows())


def test_attacks_through_copies_climb_midpoints() -> None:
    net, x = reference.mlp((12, 10)), reference.rows(2)
    ig, ball = exact(net), ab.L2Ball(0.2)
    assert ig.climbed().quadrature == "midpoint"
    assert ig.climbed().climbed() == ig.climbed()
    attack = ab.attacks.AttributionAscent(steps=2).through(50.0)
    found = attack(ig, x, ball)
    assert found.subject == "your network"
    moved = (ig(x + found.delta, ig.targets(x)) - ig(x)).norm(dim=1)
    torch.testing.assert_close(found.deviation, moved)


def test_examples_at_once_follow_the_limit() -> None:
    net, x = reference.mlp((6,)), reference.rows(1)
    small = ab.Classifier(net, memory_limit=8 * 5 * 1000 * 3)
    assert exact(small).examples_at_once(x) == 3
    assert ab.IntegratedGradients(small, quadrature="exact:10000").examples_at_once(x) == 1
