"""As a user asks: convolutions, limits, refusals, what the result says."""

from __future__ import annotations

import itertools
import math
import re
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import attribound as ab
from attribound.bounding.certified import certify
from attribound.bounding.certified.relu import deviation
from attribound.bounding.certified.relu.bound import evaluation_unit
from attribound.models.normalisation import Normalisation, Normalise


def convolutional(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    net = nn.Sequential(
        Normalise(Normalisation((0.5,), (0.25,))),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.AvgPool2d(2),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(36, 10),
        nn.LeakyReLU(0.1),
        nn.Linear(10, 3),
    )
    net(torch.rand(20, 1, 6, 6))  # statistics
    return net.eval()


def dense(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 3)
    ).eval()


@pytest.mark.parametrize("ball", [ab.L2Ball(0.1, low=0, high=1), ab.LinfBall(0.02, low=0, high=1)])
@pytest.mark.parametrize("many", [0, 10_000])
def test_holds_on_convolutions_against_samples(ball, many, monkeypatch) -> None:
    """With branching, and with all items together."""
    monkeypatch.setattr(deviation, "BRANCHED", many)
    net, x = convolutional(), torch.rand(1, 1, 6, 6)
    x[0, 0, 0] = 0.0
    for attribution in (ab.Saliency(net), ab.InputXGradient(net), ab.IntegratedGradients(net, 3)):
        bound = ab.bound(attribution, x, ball, method=ab.Certified(nodes=12))
        clean, many_x = attribution(x, bound.target), x.expand(200, 1, 6, 6)
        for draw in (ball.sample, ball.sample_sphere):
            points = many_x + ball.project(draw(many_x, 0), many_x)
            maps = attribution(points, bound.target.expand(200))
            assert ((maps - clean).flatten(1).norm(dim=1) <= bound.euclidean).all()
        assert bound.gap.attained.item() <= bound.euclidean.item() <= bound.gap.root.item() * 1.0001
        assert bound.subject == "your network"
        assert bound.claim.name == "certified"


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_climbing_over_switches_attains_more_inside_the_ball(p, monkeypatch) -> None:
    """Many neurons that could switch, none by much: the furthest of them alone is not the worst."""
    radius = {1.0: 0.5, 2.0: 0.2, math.inf: 0.02}[p]
    ball = ab.LpBall(radius, p, low=0.0, high=1.0)
    climbed, tried, gains = deviation.Moving._climbed, [], []

    def kept(*asked):
        tried.append(climbed(*asked))
        return tried[-1]

    for seed in range(3):
        net, x = convolutional(seed), torch.rand(1, 1, 6, 6)
        for kind in (ab.Saliency(net), ab.IntegratedGradients(net, 3)):
            monkeypatch.setattr(deviation.Moving, "_climbed", lambda *_: torch.zeros(0, 36))
            without = ab.bound(kind, x, ball, method=ab.Certified(nodes=1))
            monkeypatch.setattr(deviation.Moving, "_climbed", kept)
            found = ab.bound(kind, x, ball, method=ab.Certified(nodes=1))
            assert found.gap.attained.item() <= found.euclidean.item()
            gains.append(found.gap.attained.item() / without.gap.attained.item())
            deltas = tried[-1].reshape(-1, 1, 6, 6)
            points = deltas + x.double()
            assert ball.contains(deltas, x.double().expand_as(deltas), 1e-9).all()
            assert ((points >= -1e-6) & (points <= 1 + 1e-6)).all()  # roundings of x
    assert min(gains) >= 1
    assert max(gains) > 1.02


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_a_search_beside_what_is_known_attains_more_inside_the_ball(p, monkeypatch) -> None:
    """Of many items, where a bound of all together is all that is there."""
    monkeypatch.setattr(deviation, "BRANCHED", 0)
    ball = ab.LpBall({2.0: 0.2, math.inf: 0.02}[p], p, low=0.0, high=1.0)
    beside, tried, gains = deviation.Moving._beside, [], []

    def kept(*asked):
        tried.append(beside(*asked))
        return tried[-1]

    for seed in range(3):
        net, x = convolutional(seed), torch.rand(1, 1, 6, 6)
        for kind in (ab.Saliency(net), ab.InputXGradient(net)):
            monkeypatch.setattr(deviation.Moving, "_beside", lambda *_: torch.zeros(0, 36))
            without = ab.bound(kind, x, ball, claim="certified")
            monkeypatch.setattr(deviation.Moving, "_beside", kept)
            found = ab.bound(kind, x, ball, claim="certified")
            assert found.gap.attained.item() <= found.euclidean.item()
            assert found.euclidean.item() == without.euclidean.item()
            gains.append(found.gap.attained.item() / without.gap.attained.item())
            deltas = tried[-1].reshape(-1, 1, 6, 6)
            points = deltas + x.double()
            assert ball.contains(deltas, x.double().expand_as(deltas), 1e-9).all()
            assert ((points >= -1e-6) & (points <= 1 + 1e-6)).all()  # roundings of x
    assert min(gains) >= 1
    assert max(gains) > 1.005


def test_a_range_of_values_makes_it_smaller() -> None:
    """Dark pixels get no darker: fewer neurons can switch."""
    net, x = convolutional(), torch.zeros(1, 1, 6, 6)
    x[0, 0, 2:4, 2:4] = 0.8
    for kind in (ab.L2Ball, ab.LinfBall):
        whole = ab.bound(ab.Saliency(net), x, kind(0.05), claim="certified")
        ranged = ab.bound(ab.Saliency(net), x, kind(0.05, low=0, high=1), claim="certified")
        assert ranged.gap.neurons.item() < whole.gap.neurons.item()
        assert ranged.gap.root.item() < whole.gap.root.item()


def test_more_nodes_are_never_worse_and_limits_are_told() -> None:
    net, x = dense(), torch.rand(3, 6)
    ball = ab.L2Ball(0.3)
    values = [
        ab.bound(ab.Saliency(net), x, ball, method=ab.Certified(nodes=nodes))
        for nodes in (1, 8, 400)
    ]
    for fewer, more in itertools.pairwise(values):
        assert (more.euclidean <= fewer.euclidean * (1 + 1e-6)).all()
    assert ab.Status.STOPPED in values[0].status[0]
    assert "raise nodes or seconds" in values[0].status[0].explanation
    assert ab.Status.STOPPED not in values[2].status[0]
    hurried = ab.bound(ab.Saliency(net), x, ball, method=ab.Certified(seconds=0))
    assert (hurried.gap.nodes == 1).all()
    assert "neurons" in repr(values[2].gap)


@pytest.mark.parametrize("seed", [5, 14, 15, 19])
def test_what_the_last_node_says_is_attained_beyond_its_thresholds(seed) -> None:
    """Thresholds are lowered by what float32 rounds: on them the neurons have not switched yet."""
    net, x = dense(seed), torch.rand(1, 6)
    bound = ab.bound(ab.Saliency(net), x, ab.L2Ball(0.2), method=ab.Certified(nodes=600))
    assert bound.gap.exact.all()
    assert bound.source == ("switches, exact",)


def test_nothing_can_switch_in_a_tiny_ball() -> None:
    net, x = dense(), torch.rand(2, 6)
    bound = ab.bound(ab.Saliency(net), x, ab.L2Ball(1e-7), claim="certified")
    assert bound.gap.exact.all()
    assert (bound.gap.neurons == 0).all()
    assert (bound.euclidean < 1e-4 * bound.attribution_norm).all()
    assert bound.source == ("switches, exact",) * 2
    assert bound.xi.failure_probability == 0  # it is a proof


def test_memory_is_limited() -> None:
    net, x = dense(), torch.rand(1, 6)
    with pytest.raises(ab.MemoryLimitError, match="raise Certified"):
        ab.bound(ab.Saliency(net), x, ab.L2Ball(0.1), method=ab.Certified(memory_limit=100))


def test_memory_counts_pairs_of_neurons_and_what_is_held_of_other_points() -> None:
    """A limit that does for one point of a path does not do for eight of them."""
    net, x, ball = dense(), torch.rand(1, 6), ab.L2Ball(0.4)

    def fits(points: int, limit: int) -> str:
        kind = ab.IntegratedGradients(net, steps=points, multiply_by_inputs=False)
        try:
            ab.bound(kind, x, ball, method=ab.Certified(memory_limit=limit))
        except ab.MemoryLimitError as error:
            return str(error)
        return ""

    def least(points: int) -> int:
        low, high = 1, 2**22
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(points, middle) else (low, middle)
        return high

    one, eight = least(1), least(8)
    neurons = int(ab.bound(ab.Saliency(net), x, ball, claim="certified").gap.neurons)
    assert neurons > 4
    every, ball = ball, ab.L2Ball(50.0)  # in which all forty neurons may switch
    assert least(1) == 8 * (6 + 20) * (20 + 20) + 8 * 4 * 40**2
    ball = every
    assert one >= 8 * 4 * neurons**2 + 8 * 6 * (20 + 20)
    assert eight > 2 * one
    for points, limit in ((1, one - 1), (8, eight - 1), (8, one)):
        said = re.search(r"at most (\S+) GiB, got (\S+) GiB for", fits(points, limit))
        assert said is not None
        assert float(said[1]) == pytest.approx(limit / 2**30, rel=1e-2)
        assert float(said[2]) >= float(said[1])  # what is held is in it


def test_points_of_a_path_keep_no_pairs_where_nobody_asks_for_them(monkeypatch) -> None:
    """Of the bound of all items; the ends along directions are made of them."""
    seen, right = [], deviation.Moving.along_path

    def along_path(self, *, alone=False):
        found = right(self, alone=alone)
        seen.append((alone, [tuple(node.compact.matrix.shape) for node, _ in found]))
        return found

    monkeypatch.setattr(deviation.Moving, "along_path", along_path)
    ig = ab.IntegratedGradients(dense(), steps=3)
    x, ball = torch.rand(1, 6), ab.L2Ball(0.3)
    ab.bound(ig, x, ball, claim="certified")
    ab.reasons(ig, x, ball, 2, claim="certified", attack=False)
    (first, alone), *others = seen
    assert first
    assert alone == [(0, 0)] * 3
    assert any(not each and all(n > 0 for n, _ in shapes) for each, shapes in others)


def test_what_moves_most_is_looked_at_first(monkeypatch) -> None:
    """So that what does not fit is refused before minutes are spent on the rest of the path."""
    looked, right = [], deviation.Moving.swept

    def swept(self, number, held=0):
        looked.append(self.path.nodes[number])
        return right(self, number, held)

    monkeypatch.setattr(deviation.Moving, "swept", swept)
    ig = ab.IntegratedGradients(dense(), steps=4, quadrature="midpoint")
    x, ball = torch.rand(1, 6), ab.L2Ball(0.1)
    bound = ab.bound(ig, x, ball, claim="certified")
    assert looked == [0.875, 0.625, 0.375, 0.125]
    points = x + ball.sample_sphere(x.expand(100, 6), 0)
    moved = ig(points, bound.target.expand(100)) - ig(x, bound.target)
    assert (moved.norm(dim=1) <= bound.euclidean).all()


@pytest.mark.parametrize(
    ("dtype", "width", "unit"), [(torch.bfloat16, 20, 2.0**-8), (torch.float16, 2, math.inf)]
)
def test_a_network_in_few_digits_gets_no_number(dtype, width, unit) -> None:
    """Sums of many terms in bfloat16 have no error bound worth the name; float16 underflows."""
    net = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 3)).eval().to(dtype)
    x = torch.rand(1, 2).to(dtype)
    assert evaluation_unit(ab.Saliency(net), x) == unit
    bound = ab.bound(ab.Saliency(net), x, ab.L2Ball(0.1), claim="certified")
    assert math.isinf(bound.euclidean.item())
    assert ab.Status.VACUOUS in bound.status[0]
    assert ab.Status.STOPPED in bound.status[0]
    assert bound.gap.attained.item() == 0


@pytest.mark.parametrize(("told", "unit"), [("bf16", 2.0**-8), ("tf32", 2.0**-11)])
@pytest.mark.parametrize("which", ["matmul", "conv"])
def test_products_in_fewer_digits_are_taken_at_their_word(told, unit, which, monkeypatch) -> None:
    """On processors, too; and by PyTorch's newer settings, after which the older can't be read."""
    monkeypatch.setattr(torch.backends.mkldnn, which, SimpleNamespace(fp32_precision=told))
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
    assert evaluation_unit(ab.Saliency(net), torch.rand(1, 2)) == unit
    assert evaluation_unit(ab.Saliency(net.double()), torch.rand(1, 2).double()) == 2.0**-53


def test_masks_that_underflow_count() -> None:
    """A preactivation of 6e-46 is zero in float32: the neuron is off."""
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 2)).eval()
    with torch.no_grad():
        net[0].weight.fill_(1e-30)
        net[2].weight.copy_(torch.tensor([[1e30], [0.0]]))
    saliency, label = ab.Saliency(net), torch.tensor([0])
    x = torch.tensor([[1e-15]])
    moved = saliency(x - 4e-16, label) - saliency(x, label)
    assert moved.norm().item() == pytest.approx(1, rel=1e-6)
    assert ab.bound(saliency, x, ab.L2Ball(4e-16), label, claim="certified").euclidean >= 1


def test_masks_of_the_evaluated_network_count() -> None:
    """A neuron on its kink up to the rounding of float32 may be on or off as it is evaluated."""
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2)).eval()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 1.0]]))
        net[0].bias.fill_(-0.75)
        net[2].weight.copy_(torch.tensor([[1.0], [0.0]]))
    x = torch.tensor([[0.25, 0.5 + 2**-24]])  # the sum is rounded in float32
    ball, label = ab.L2Ball(1e-12), torch.tensor([0])
    bound = ab.bound(ab.Saliency(net), x, ball, label, claim="certified")
    assert bound.euclidean.item() >= math.sqrt(2)
    clear = ab.bound(ab.Saliency(net.double()), x.double(), ball, label, claim="certified")
    assert clear.euclidean.item() < 1e-6


def test_audits_through_a_copy_certify_the_network_itself() -> None:
    """What can be said of your network is said of it; the rest is of the copy."""
    claims = ["first_order", ab.Certified(nodes=20)]
    data = (torch.rand(3, 6), torch.zeros(3, dtype=torch.long))
    run = ab.audit(
        dense(), data, smooth=20, attributions="saliency", balls=ab.L2Ball(0.1), claims=claims
    )
    records = run.bounds().to_pylist()
    assert {(each["claim"], each["subject"]) for each in records} == {
        ("first_order", "copy"),
        ("certified", "yours"),
    }
    assert not any(each["exceeded"] for each in records if each["claim"] == "certified")


def test_audits_through_a_copy_certify_that_if_they_must() -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Tanh(), nn.Linear(8, 3)).eval()
    data = (torch.rand(2, 6), torch.zeros(2, dtype=torch.long))
    run = ab.audit(
        net, data, smooth=5, attributions="saliency", balls=ab.L2Ball(0.01), claims="certified"
    )
    assert {each["subject"] for each in run.bounds().to_pylist()} == {"copy"}


def test_the_taylor_certificate_is_of_smooth_networks() -> None:
    net, x = dense(), torch.rand(1, 6)
    with pytest.raises(AssertionError):
        certify(ab.Saliency(net), x, ab.L2Ball(0.1), torch.tensor([0]), ab.Certified())
