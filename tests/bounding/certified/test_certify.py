from __future__ import annotations

import math
import re
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import attribound as ab
import fashion
from attribound.basics.rounding import SLACK
from attribound.bounding.certified import (
    INTERVAL,
    TAYLOR,
    Certified,
    certify,
    deviation,
    expanding,
    remainder,
)
from attribound.bounding.certified.certify import check_memory
from attribound.bounding.certified.expansion import Expansion, expand
from attribound.bounding.certified.network import unroll
from attribound.models import SmallCNN
from attribound.networks.plain import refuse_another
from bounding.certified import reference
from shared import needed

SLOW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
P = [1.0, 1.5, 2.0, 3.0, math.inf]


def run(attribution, x, ball, target=None):
    labels = torch.zeros(len(x), dtype=torch.long) if target is None else target
    return certify(attribution, x, ball, labels, Certified())


def never_exceeded(attribution, x, ball, certificate) -> None:
    labels = torch.zeros(len(x), dtype=torch.long)
    found = reference.worst_found(attribution, x, ball, labels)
    for bound in (certificate.value, certificate.taylor, certificate.interval):
        assert (found <= bound).all(), f"{found} above {bound}"


@SLOW
@given(
    reference.networks(),
    st.sampled_from(["saliency", "input_x_gradient", "ig", "ig_gauss", "ig_unmultiplied"]),
    st.sampled_from(P),
    st.sampled_from([1e-3, 0.03, 0.3, 2.0]),
)
def test_no_attack_exceeds_it(case, name, p, epsilon) -> None:
    """Neither the Taylor model nor interval propagation, on random networks."""
    net, x = case
    attribution = reference.attributions(net)[name]
    ball = ab.LpBall(epsilon, p)
    never_exceeded(attribution, x, ball, run(attribution, x, ball))


def network_and_input():
    return (
        reference.dense_network([6, 7, 5, 4], ["softplus6", "tanh", "softplus1"], 2.0, 3),
        torch.rand(2, 6, generator=torch.Generator().manual_seed(0)).double(),
    )


@pytest.mark.parametrize("epsilon", [1e-2, 1e-4, 1e-6])
def test_approaches_the_first_order_bound(epsilon) -> None:
    """T / (epsilon |J|) -> 1 linearly in epsilon, against dense autograd; and never below 1."""
    net, x = network_and_input()
    labels = torch.zeros(2, dtype=torch.long)
    steepest = reference.spectral_norms(ab.Saliency(net), x, labels)
    ratio = run(ab.Saliency(net), x, ab.L2Ball(epsilon)).value / (epsilon * steepest)
    assert (ratio >= 1).all()
    assert (ratio <= 1 + 20 * epsilon + 1e-6).all()


@pytest.mark.parametrize("name", ["saliency", "input_x_gradient", "ig"])
def test_is_nearly_attained_in_small_balls(name) -> None:
    net, x = network_and_input()
    attribution = reference.attributions(net)[name]
    for ball in (ab.L2Ball(1e-3), ab.LpBall(1e-3, 1)):
        found = reference.worst_found(attribution, x, ball, torch.zeros(2, dtype=torch.long))
        assert (run(attribution, x, ball).value <= 1.05 * found).all()


def test_closed_form_of_one_neuron() -> None:
    """f = w tanh(v x) at 0, where the slope is largest: g moves by |w v| tanh(v eps)^2."""
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Tanh(), nn.Linear(1, 1, bias=False))
    net = net.double().eval()
    with torch.no_grad():
        net[0].weight.fill_(2.0)
        net[2].weight.fill_(3.0)
    x = torch.zeros(1, 1).double()
    for epsilon in (0.01, 0.1, 0.5):
        exact = 6 * math.tanh(2 * epsilon) ** 2
        bound = run(ab.Saliency(net), x, ab.L2Ball(epsilon)).value.item()
        assert exact <= bound <= 1.15 * exact


def test_a_linear_network_has_a_constant_saliency() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 2)).double().eval()
    x = torch.rand(2, 6).double()
    assert (run(ab.Saliency(net), x, ab.LinfBall(1.0)).value <= 1e-12).all()
    product = run(ab.InputXGradient(net), x, ab.L2Ball(0.1)).value
    torch.testing.assert_close(product, (0.1 * net[1].weight[0].abs().max()).expand(2).detach())


def test_smaller_bound_is_the_value_and_named() -> None:
    net, x = network_and_input()
    small, large = (run(ab.Saliency(net), x, ab.L2Ball(e)) for e in (0.01, 50.0))
    assert small.source == (TAYLOR, TAYLOR)
    assert large.source == (INTERVAL, INTERVAL)
    for each in (small, large):
        torch.testing.assert_close(each.value, torch.minimum(each.taylor, each.interval))


def test_examples_do_not_see_each_other() -> None:
    net, x = network_and_input()
    attribution, ball = ab.IntegratedGradients(net, 2, baseline=0.5 * x), ab.L2Ball(0.1)
    both = run(attribution, x, ball).value
    alone = run(ab.IntegratedGradients(net, 2, baseline=0.5 * x[1]), x[1:], ball).value
    torch.testing.assert_close(both[1:], alone, rtol=1e-9, atol=0)


def test_depends_on_the_target() -> None:
    net, x = network_and_input()
    first, second = (
        run(ab.Saliency(net), x, ab.L2Ball(0.1), torch.full((2,), label)) for label in (0, 1)
    )
    assert not torch.isclose(first.value, second.value).any()


def test_is_rounded_up_in_float32() -> None:
    """In several balls: the nearest float is below in half of them."""
    net, x = network_and_input()
    for epsilon in (0.02, 0.03, 0.05, 0.1, 0.11, 0.13):
        ball = ab.L2Ball(epsilon)
        single = run(ab.Saliency(net), x.float(), ball)
        exact = run(ab.Saliency(net), x.float().double(), ball)
        for name in ("value", "taylor", "interval"):
            own, wanted = getattr(single, name), getattr(exact, name)
            assert own.dtype == torch.float32
            assert wanted.dtype == torch.float64
            assert (own.double() >= wanted).all()
            assert (own.double() <= wanted * (1 + 1e-6)).all()


def test_a_value_range_is_not_made_use_of() -> None:
    net, x = network_and_input()
    free, ranged = (
        run(ab.Saliency(net), x, ball).value
        for ball in (ab.LinfBall(0.1), ab.LinfBall(0.1, low=0, high=1))
    )
    torch.testing.assert_close(free, ranged)


def test_certifies_smoothed_networks_and_relu_in_place() -> None:
    torch.manual_seed(0)
    kinked = nn.Sequential(
        nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(inplace=True), nn.Linear(5, 2)
    )
    net = ab.smooth(kinked.double().eval(), beta=5.0)
    x = torch.rand(2, 4).double()
    torch.testing.assert_close(unroll(net, (4,)).logits(x), net(x).detach(), rtol=1e-8, atol=1e-8)
    never_exceeded(ab.Saliency(net), x, ab.L2Ball(0.1), run(ab.Saliency(net), x, ab.L2Ball(0.1)))


def test_the_switch_of_softplus_to_the_identity_is_covered() -> None:
    """With a low threshold the slope jumps by five percent: bounds of softplus miss it."""
    net = nn.Sequential(
        nn.Linear(1, 1, bias=False), nn.Softplus(1.0, threshold=3.0), nn.Linear(1, 1, bias=False)
    )
    net = net.double().eval()
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[2].weight.fill_(1.0)
    x = torch.tensor([[2.999]], dtype=torch.float64)

    def slope(at: torch.Tensor) -> torch.Tensor:
        point = at.clone().requires_grad_()
        return torch.autograd.grad(net(point).sum(), point)[0]

    jump = (slope(x + 0.01) - slope(x)).norm()
    bound = run(ab.Saliency(net), x, ab.L2Ball(0.01)).value
    assert jump > 0.04
    assert bound >= jump
    net[1].threshold = 20.0
    assert run(ab.Saliency(net), x, ab.L2Ball(0.01)).value < jump / 10


def broken(monkeypatch, field: str, factor: float) -> None:
    """Every constant ``field`` of the activations, times ``factor``."""
    honest = remainder.curvature
    monkeypatch.setattr(
        remainder,
        "curvature",
        lambda *args: replace(c := honest(*args), **{field: factor * getattr(c, field)}),
    )


def curved() -> tuple[ab.Attribution, torch.Tensor]:
    """A neuron at an inflection of f'': what f''' does is all of the remainder."""
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Softplus(4.0), nn.Linear(1, 1, bias=False))
    net = net.double().eval()
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[2].weight.fill_(1.0)
    return ab.Saliency(net), torch.full((1, 1), -0.6).double()


def test_without_the_third_derivative_an_attack_exceeds_it(monkeypatch) -> None:
    attribution, x = curved()
    ball = ab.L2Ball(0.2)
    never_exceeded(attribution, x, ball, run(attribution, x, ball))
    broken(monkeypatch, "twist", 0.0)
    with pytest.raises(AssertionError, match="above"):
        never_exceeded(attribution, x, ball, run(attribution, x, ball))


def deep() -> tuple[ab.Attribution, torch.Tensor]:
    """Two neurons in a row, curving the same way: the remainder of z_1 counts."""
    net = nn.Sequential(
        *[nn.Linear(1, 1, bias=False), nn.Softplus(4.0)] * 2, nn.Linear(1, 1, bias=False)
    )
    net = net.double().eval()
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.Linear):
                layer.weight.fill_(1.0)
        net[2].weight.fill_(1.0)
        net[4].weight.fill_(1.0)
    return ab.Saliency(net), torch.full((1, 1), -0.6).double()


def test_without_the_higher_orders_an_attack_exceeds_it(monkeypatch) -> None:
    """The quadratic part alone, with the remainders r and rho taken for zero, is no bound."""
    attribution, x = deep()
    ball = ab.L2Ball(0.4)
    certificate = run(attribution, x, ball)
    never_exceeded(attribution, x, ball, certificate)
    honest = deviation.remainder
    monkeypatch.setattr(
        deviation,
        "remainder",
        lambda *args: replace(honest(*args), linear=0.0, constant=0.0, cross=_no_form(1)),
    )
    with pytest.raises(AssertionError, match="above"):
        never_exceeded(attribution, x, ball, run(attribution, x, ball))


def _no_form(size: int):
    return deviation.Form.zero(size)


@pytest.mark.parametrize("part", ["_moving_factor", "_product"])
def test_without_the_moving_factor_an_attack_exceeds_it(part, monkeypatch) -> None:
    """Of the expansion alone, and of both bounds."""
    net = nn.Sequential(nn.Linear(1, 1), nn.Softplus(1.0), nn.Linear(1, 1)).double().eval()
    with torch.no_grad():
        net[0].weight.fill_(1.0), net[0].bias.zero_(), net[2].weight.fill_(1.0)
    x, ball = torch.zeros(1, 1).double(), ab.L2Ball(0.5)
    attribution = ab.InputXGradient(net)
    never_exceeded(attribution, x, ball, run(attribution, x, ball))
    monkeypatch.setattr(deviation, part, lambda *_: 0.0)
    with pytest.raises(AssertionError, match="above"):
        never_exceeded(attribution, x, ball, run(attribution, x, ball))


def test_defects_cover_a_forged_expansion(monkeypatch) -> None:
    """With margins for it, a gradient computed wrongly in the fifth digit is covered; else not."""
    net, x = network_and_input()
    attribution, ball = ab.Saliency(net), ab.L2Ball(1e-9)
    honest = expanding.expand

    def forged(*args) -> Expansion:
        whole = honest(*args)
        return replace(whole, jacobian=0.9 * whole.jacobian)

    true = run(attribution, x, ball).value
    monkeypatch.setattr(expanding, "expand", forged)
    assert (run(attribution, x, ball).value < true).all()

    def admitted(*args) -> Expansion:
        whole = forged(*args)
        return replace(whole, jacobian_error=0.2 * whole.jacobian_norm)

    monkeypatch.setattr(expanding, "expand", admitted)
    assert (run(attribution, x, ball).value >= true).all()


def test_refuses_attributions_of_another_kind() -> None:
    net, x = network_and_input()
    with pytest.raises(ab.ModelError, match=r"attribution: expected Saliency.*got smooth_grad"):
        run(ab.SmoothGrad(net), x, ab.L2Ball(0.1))

    class Other(ab.Saliency):
        def _value(self, x, target):
            return 2 * super()._value(x, target)

    with pytest.raises(ab.ModelError, match=r"attribution: expected Saliency.*got .*Other"):
        run(Other(net), x, ab.L2Ball(0.1))
    with pytest.raises(ab.ModelError, match=r"attribution: expected Saliency.*got"):
        run(ab.FunctionAttribution(lambda points, target: points**2), x, ab.L2Ball(0.1))


@pytest.mark.parametrize(
    "limits", [{"memory_limit": 0}, {"widest": -1}, {"nodes": 0}, {"seconds": -1}]
)
def test_refuses_limits_that_allow_nothing(limits) -> None:
    with pytest.raises(
        ab.InputError, match="Certified: expected memory_limit > 0, widest >= 0, nodes"
    ):
        Certified(**limits)


def test_refuses_what_would_not_fit() -> None:
    net, x = network_and_input()
    labels = torch.zeros(2, dtype=torch.long)
    with pytest.raises(ab.MemoryLimitError, match=r"certificate: expected at most .* GiB"):
        certify(ab.Saliency(net), x, ab.L2Ball(0.1), labels, Certified(memory_limit=1000))


def test_the_networks_of_the_paper_fit_the_default_limit() -> None:
    x = torch.rand(1, 1, 28, 28)
    check_memory(unroll(SmallCNN().eval(), (1, 28, 28)), x, Certified().memory_limit)


def test_bounds_a_trained_network_within_half_of_an_attack() -> None:
    """An adversarially trained MLP on Fashion-MNIST, l2 radius .05: the goal of the project."""
    needed(fashion.FASHION, "install dataset-fashion-mnist")
    needed(fashion.WEIGHTS, "run benchmarks/fashion.py")
    net = fashion.network("mlp-at-b5").double()
    x = fashion.images("t10k")[0][:4].double()
    saliency, ball = ab.Saliency(net), ab.L2Ball(0.05)
    labels = saliency.targets(x)
    certificate = run(saliency, x, ball, labels)
    found = ab.attacks.AttributionAscent()(saliency, x, ball, labels).deviation
    assert (found <= certificate.value).all()
    assert (certificate.value / found).mean() <= 1.5


def test_the_derivation_names_files_that_exist() -> None:
    root = Path(__file__).resolve().parents[3]
    names = set(re.findall(r"`(\w+\.py)`", (root / "docs" / "certificate.md").read_text()))
    assert len(names) >= 7
    package = root / "src" / "attribound"
    folders = [package / "bounding" / "certified", package / "networks", package / "basics"]
    assert all(any((folder / name).exists() for folder in folders) for name in names)


def test_an_overflow_proves_nothing_and_says_infinity() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Softplus(5), nn.Linear(3, 2)).double().eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(1e200)
    found = run(ab.Saliency(net), torch.rand(1, 2).double(), ab.L2Ball(0.1))
    assert torch.isinf(found.value).all()
    with pytest.raises(ab.ProbeError, match="expected a network that computes what its modules sa"):
        refuse_another(ab.Classifier(net), torch.zeros(1, 2).double(), torch.rand(1, 2).double())
    fine, overflown = ab.Classifier(nn.Linear(2, 2).double()), torch.full((1, 2), math.inf)
    with pytest.raises(ab.ProbeError, match="expected a network that computes what its modules sa"):
        refuse_another(fine, overflown.double(), torch.rand(1, 2).double())


def test_points_of_a_path_take_the_memory_of_two(monkeypatch) -> None:
    """However many there are: a bound forgets each before the next but one is expanded."""
    net, x = network_and_input()
    labels = torch.zeros(2, dtype=torch.long)
    ig, ball = ab.IntegratedGradients(net, steps=6), ab.L2Ball(0.1)
    together = certify(ig, x, ball, labels, Certified()).value
    alive: list[weakref.ref[Expansion]] = []
    most = []

    def counted(*asked) -> Expansion:
        most.append(sum(each() is not None for each in alive) + 1)
        made = expand(*asked)
        alive.append(weakref.ref(made))
        return made

    monkeypatch.setattr(expanding, "expand", counted)
    monkeypatch.setattr(expanding, "_TOGETHER", 1)
    apart = certify(ig, x, ball, labels, Certified()).value
    torch.testing.assert_close(apart, together, rtol=1e-12, atol=0)
    assert len(most) == 24  # of each point twice: first without products of layers
    assert max(most) == 2


def test_refuses_points_of_a_path_that_would_not_fit_at_once() -> None:
    """Reasons keep all of them, a bound two."""
    network, x = unroll(SmallCNN().eval(), (1, 28, 28)), torch.rand(1, 1, 28, 28)
    limit = Certified().memory_limit
    check_memory(network, x, limit, 2)
    with pytest.raises(ab.MemoryLimitError, match="50960 neurons at 20 points of a path"):
        check_memory(network, x, limit, 20)


def test_memory_is_counted_in_dense_derivatives() -> None:
    """J and U of every layer, five strips of the widest stage, ten matrices as wide as high."""
    net, x = network_and_input()
    network = unroll(net, (6,))
    needed = 8 * 6 * (2 * (7 + 5 + 4) + 5 * 7 + 10 * 6)
    check_memory(network, x, needed)
    with pytest.raises(ab.MemoryLimitError, match="certificate"):
        check_memory(network, x, needed - 1)


@pytest.mark.parametrize(("dtype", "share"), [(torch.float32, 1e-3), (torch.float64, 1e-7)])
def test_another_network_is_one_whose_logits_differ_by_more_than_evaluation(dtype, share) -> None:
    """Of the largest logit; where all are zero, of a millionth."""
    net = nn.Linear(2, 2).to(dtype)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.5]]))
        net.bias.zero_()
    classifier = ab.Classifier(net)
    for size in (8.0, 0.0):
        x = torch.tensor([[size, 1.0], [-size, 0.0]], dtype=dtype) * (size > 0)
        logits = net(x).detach().double()
        allowed = share * (size + 1e-6)
        for sign in (1, -1):
            refuse_another(classifier, logits + 0.99 * sign * allowed, x)
            with pytest.raises(ab.ProbeError, match="logits that differ"):
                refuse_another(classifier, logits + 1.01 * sign * allowed, x)
    unlike = torch.tensor([[8.0, math.inf]]).double()
    with pytest.raises(ab.ProbeError, match="logits that differ"):
        refuse_another(classifier, unlike, torch.tensor([[8.0, 2.0]], dtype=dtype))


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_a_bound_that_is_attained_is_raised_above_it(p) -> None:
    """Of inputs times the gradient of a linear network: by margins for rounding alone."""
    net = nn.Sequential(nn.Linear(3, 2)).double().eval()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[3.0, -1.0, 0.5], [0.0, 0.0, 1.0]]))
    x = torch.rand(1, 3).double()
    exact = 0.25 * (math.sqrt(10.25) if p == math.inf else 3.0)
    found = run(ab.InputXGradient(net), x, ab.LpBall(0.25, p), torch.zeros(1, dtype=torch.long))
    for bound in (found.taylor.item(), found.interval.item()):
        assert 1 + SLACK <= bound / exact <= 1 + 200 * SLACK


@pytest.mark.parametrize("kind", [ab.Saliency, ab.InputXGradient, ab.IntegratedGradients])
def test_products_of_layers_are_left_out_only_where_they_say_nothing(kind, monkeypatch) -> None:
    """Of networks with many neurons: where the bound with them is a thousand times the map, too."""
    net, x = network_and_input()
    attribution = kind(net, steps=3) if kind is ab.IntegratedGradients else kind(net)
    labels = torch.zeros(2, dtype=torch.long)
    given_up = []
    for epsilon in (0.01, 1.0, 10.0, 100.0, 1000.0):
        ball = ab.L2Ball(epsilon)
        with monkeypatch.context() as patch:
            patch.setattr(expanding, "_TOGETHER", 2**60)
            whole = certify(attribution, x, ball, labels, Certified())
        with monkeypatch.context() as patch:
            patch.setattr(expanding, "_TOGETHER", 1)
            patch.setattr(deviation, "_NOTHING", 10.0)
            quick = certify(attribution, x, ball, labels, Certified())
        skipped = quick.taylor.isinf()
        assert (quick.value >= whole.value * (1 - 1e-12)).all()
        torch.testing.assert_close(quick.value[~skipped], whole.value[~skipped], rtol=1e-12, atol=0)
        first = ab.bound(attribution, x, ball, target=labels).euclidean
        largest = torch.maximum(attribution(x, labels).norm(dim=1), first)
        assert (whole.value[skipped] > 10 * largest[skipped]).all()
        given_up.append(skipped.sum().item())
    assert given_up[0] == 0
    assert max(given_up) >= 1
