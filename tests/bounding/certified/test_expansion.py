"""The expansion against autograd, and each inequality of the enclosure at random perturbations."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import fields, replace
from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn

import attribound as ab
import cases
from attribound.basics.rounding import SLACK, UNIT, gamma, up
from attribound.bounding.certified import composites as composing
from attribound.bounding.certified.composites import Composites, Direct
from attribound.bounding.certified.curvature import Curvature
from attribound.bounding.certified.deviation import (
    PathMean,
    _interval,
    _moving_factor,
    first_and_second_order,
    of_expansions,
)
from attribound.bounding.certified.expansion import (
    Expansion,
    Layer,
    dual_order,
    error_stretch,
    expand,
    row_norms,
)
from attribound.bounding.certified.network import unroll
from attribound.bounding.certified.path import GradientPath, paths
from attribound.bounding.certified.quadratic import Form
from attribound.bounding.certified.relu.region import Region, regions
from attribound.bounding.certified.remainder import Backward, Forward, enclose
from attribound.bounding.certified.taylor import (
    TaylorRemainder,
    _terms,
    componentwise,
    remainder,
    remainders_along,
    sources,
)
from attribound.bounding.certified.taylor_along import SmoothDirections, _along
from attribound.bounding.certified.units import in_units, units_of
from attribound.operators import dense
from bounding.certified import reference

SHAPE = (5,)


def expanded(
    p: float = 2.0,
    names: tuple[str, ...] = ("softplus6", "tanh", "softplus1"),
    sizes: tuple[int, ...] = (5, 6, 7, 4),
    seed: int = 0,
):
    net = reference.dense_network([*sizes], list(names), 2.0, max(1, seed))
    x = torch.rand(1, 5, generator=torch.Generator().manual_seed(seed)).double()
    return net, x, expand(unroll(net, SHAPE), x, x.abs(), 1, p)


def composites(expansion: Expansion, widest: int = 100) -> Composites:
    slopes = tuple(layer.slope for layer in expansion.layers)
    return Composites(expansion.network, slopes, widest)


def test_gradient_and_jacobian_are_those_of_linearize() -> None:
    net, x, expansion = expanded()
    at_x = ab.Saliency(net).linearize(x, torch.tensor([1]))
    torch.testing.assert_close(expansion.gradient, at_x.value, rtol=1e-10, atol=1e-12)
    matrix = dense(at_x.jacobian, 0, 5)
    torch.testing.assert_close(expansion.jacobian.T, matrix, rtol=1e-9, atol=1e-11)


def test_layers_are_the_derivatives_of_autograd() -> None:
    net, x, expansion = expanded()
    for number, layer in enumerate(expansion.layers):
        head, tail = net[: 2 * number + 1], net[2 * number + 1 :]
        torch.testing.assert_close(layer.z, head(x).detach())

        def adjoint(points: Tensor, head=head, tail=tail) -> Tensor:
            z = head(points)
            a = tail[0](z)
            score = tail[1:](a)[:, 1].sum()
            return torch.autograd.grad(score, a, create_graph=True)[0] + 0 * z

        torch.testing.assert_close(layer.adjoint, adjoint(x.clone().requires_grad_()).detach())
        rows = cases.dense_jacobian(head, x)[0]
        torch.testing.assert_close(layer.jacobian.T, rows, rtol=1e-9, atol=1e-12)
        rows = cases.dense_jacobian(adjoint, x)[0]
        torch.testing.assert_close(layer.hessian.T, rows, rtol=1e-9, atol=1e-11)


def test_symmetry_that_the_remainder_needs() -> None:
    """A disturbance of f(z_l) reaches g through U_l: moving a bias shows it."""
    net, x, expansion = expanded()
    step = 1e-6
    base = cases.gradient(net, x, torch.tensor([1])).detach()
    for number, layer in enumerate(expansion.layers[:-1]):
        shift = torch.randn(layer.z.shape, generator=torch.Generator().manual_seed(4)).double()
        following = net[2 * number + 2]
        with torch.no_grad():
            following.bias += step * (following.weight @ shift[0])
        moved = (cases.gradient(net, x, torch.tensor([1])).detach() - base) / step
        with torch.no_grad():
            following.bias -= step * (following.weight @ shift[0])
        torch.testing.assert_close(moved, shift @ layer.hessian.T, rtol=1e-3, atol=1e-4)


def perturbations(radius: float, p: float) -> Tensor:
    draw = torch.randn(300, 5, generator=torch.Generator().manual_seed(3)).double()
    ball = ab.LpBall(radius, p)
    corners = ball.maximiser(draw, draw)
    return torch.cat([corners, corners * torch.rand(300, 1).double()])


def truth(net: nn.Sequential, x: Tensor, number: int) -> dict[str, Tensor]:
    """z, f(z), f'(z) and u of one layer at many points, by autograd."""
    z = net[: 2 * number + 1](x).detach().requires_grad_()
    a = net[2 * number + 1](z)
    slope = torch.autograd.grad(a.sum(), z, retain_graph=True)[0]
    score = net[2 * number + 2 :](a)[:, 1].sum()
    u = torch.autograd.grad(score, a)[0]
    return {"z": z.detach(), "a": a.detach(), "slope": slope, "u": u}


def check_enclosure(net, x, expansion, enclosure, p) -> None:
    """All that the docstring of the module claims, at random perturbations of the ball."""
    zeta = perturbations(enclosure.radius, p)
    for number, layer in enumerate(expansion.layers):
        forward, backward = enclosure.forward[number], enclosure.backward[number]
        there, here = truth(net, x + zeta, number), truth(net, x, number)
        moved = zeta @ layer.jacobian
        value = there["a"] - here["a"] - layer.slope * (there["z"] - layer.z)
        change = there["slope"] - layer.slope - layer.bend * (there["z"] - layer.z)
        for what, bound in (
            (there["z"] - layer.z - moved, forward.remainder),
            (there["z"] - layer.z, forward.reach),
            (value, forward.value_rest),
            (change, forward.slope_rest),
            (there["slope"] - layer.slope, forward.slope_reach),
            (there["u"] - layer.adjoint - zeta @ layer.hessian, backward.remainder),
            (there["u"] - layer.adjoint, backward.reach),
        ):
            assert (what.abs() <= bound + 1e-13).all()
    labels = torch.ones(len(zeta), dtype=torch.long)
    rest = cases.gradient(net, x + zeta, labels).detach() - expansion.gradient
    assert (rest.abs() <= enclosure.gradient_reach + 1e-13).all()
    rest = rest - zeta @ expansion.jacobian
    assert (rest.abs() <= componentwise(expansion, enclosure) + 1e-13).all()
    weights = torch.linspace(0.1, 2, 5).double().unsqueeze(0)
    bound = remainder(expansion, enclosure, weights, p)
    squares = ((zeta @ bound.quadratic.matrix) * zeta).sum(1)
    crossed = ((zeta @ bound.cross.matrix) * zeta).sum(1)
    for theta in (0.3, 1.0, 3.0):
        total = squares + theta / 2 * crossed + bound.linear / (2 * theta) + bound.constant
        assert ((weights * rest).norm(dim=1) <= total + 1e-12).all()


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("radius", [0.01, 0.2, 1.0])
def test_every_inequality_holds_in_the_ball(p, radius) -> None:
    net, x, expansion = expanded(p)
    for widest in (0, 100):
        enclosure = enclose(expansion, radius, composites(expansion, widest))
        check_enclosure(net, x, expansion, enclosure, p)


@pytest.mark.parametrize("name", ["remainder", "reach", "value_rest", "slope_rest", "slope_reach"])
def test_an_enclosure_broken_in_one_place_is_caught(name) -> None:
    net, x, expansion = expanded()
    enclosure = enclose(expansion, 0.3, composites(expansion))
    forward = [replace(f, **{name: 0.05 * getattr(f, name)}) for f in enclosure.forward]
    with pytest.raises(AssertionError):
        check_enclosure(net, x, expansion, replace(enclosure, forward=tuple(forward)), 2.0)


@pytest.mark.parametrize("name", ["remainder", "reach"])
def test_a_broken_backward_enclosure_is_caught(name) -> None:
    net, x, expansion = expanded()
    enclosure = enclose(expansion, 0.3, composites(expansion))
    backward = [replace(b, **{name: 0.02 * getattr(b, name)}) for b in enclosure.backward]
    with pytest.raises(AssertionError):
        check_enclosure(net, x, expansion, replace(enclosure, backward=tuple(backward)), 2.0)


def test_composites_tighten_and_never_loosen() -> None:
    _, _, expansion = expanded()
    sharp, crude = (enclose(expansion, 0.3, composites(expansion, widest)) for widest in (100, 0))
    assert (sharp.forward[2].remainder <= crude.forward[2].remainder * (1 + 1e-12)).all()
    assert sharp.forward[2].remainder.sum() < 0.9 * crude.forward[2].remainder.sum()
    assert (sharp.backward[0].remainder <= crude.backward[0].remainder * (1 + 1e-12)).all()


@pytest.mark.parametrize("widest", [0, 6, 100])
def test_the_part_of_the_next_layer_is_below_products_of_all(widest) -> None:
    """Of six layers, some of them too wide: sums over neighbours alone, against dense |W|."""
    names, sizes = ("tanh", "softplus6") * 3, (5, 6, 7, 4, 8, 6, 5)
    _, _, expansion = expanded(names=names, sizes=sizes)
    network, slopes = expansion.network, tuple(layer.slope for layer in expansion.layers)
    direct = Direct(network, slopes, widest)
    generator = torch.Generator().manual_seed(1)
    sources = [torch.rand(1, n, generator=generator).double() for n in network.widths]
    for layer, width in enumerate(network.widths):
        for crude in (torch.full((1, width), 1e9).double(), torch.zeros(1, width).double()):
            sharp = crude
            if layer >= 2 and width <= widest:
                weight = network.stages[layer].linear(torch.eye(network.widths[layer - 1]).double())
                sharp = torch.minimum(crude, sources[layer - 1] @ weight.abs())
            found = direct.forward(layer, sources[:layer], crude, crude)
            torch.testing.assert_close(found, sharp)
            after, sharp = dict(enumerate(sources[layer + 1 :], start=layer + 1)), crude
            if after:
                stage = network.stages[layer + 1]
                weight = stage.linear(torch.eye(stage.sizes[0]).double())
                sharp = torch.minimum(crude, after[layer + 1] @ weight.abs().T)
            torch.testing.assert_close(direct.backward(layer, after, crude, crude), sharp)
    below = enclose(expansion, 0.3, direct)
    inside = enclose(expansion, 0.3, composites(expansion, widest))
    assert (below.gradient_reach <= inside.gradient_reach).all()
    for name in ("forward", "backward"):
        for one, other in zip(getattr(below, name), getattr(inside, name), strict=True):
            assert (one.reach <= other.reach * (1 + 1e-12)).all()


@pytest.mark.parametrize("rows", [256, 2])
def test_composites_are_dense_derivatives(rows, monkeypatch) -> None:
    """dz_2 / da_0 and sums with its absolute values, against autograd; a few rows at a time."""
    monkeypatch.setattr(composing, "_ROWS", rows)
    net, _, expansion = expanded()
    a = net[:2](torch.rand(1, 5).double())  # any point: slopes are taken from the expansion
    first, second = expansion.layers[0], expansion.layers[1]
    matrix = net[4].weight @ torch.diag(second.slope[0]) @ net[2].weight
    drawn = [torch.rand_like(first.z), torch.rand_like(second.z)]
    huge = torch.full_like(expansion.layers[2].z, 1e6)
    total = composites(expansion).forward(2, drawn, huge, huge)
    by_chain = composites(expansion).forward(2, drawn, huge, 1e13 * huge)
    assert (by_chain > total + 1).all()  # the margin for rounding is relative to the chain
    exact = matrix.abs() @ drawn[0][0] + net[4].weight.abs() @ drawn[1][0]
    torch.testing.assert_close(total[0], exact, rtol=1e-6, atol=1e-6)
    back = {1: torch.rand_like(second.z), 2: torch.rand_like(huge)}
    huge = torch.full_like(a, 1e6)
    total = composites(expansion).backward(0, back, huge, huge)
    exact = back[2][0] @ matrix.abs() + back[1][0] @ net[2].weight.abs()
    torch.testing.assert_close(total[0], exact, rtol=1e-6, atol=1e-6)


def test_at_radius_zero_only_rounding_is_left() -> None:
    _, _, expansion = expanded()
    still = enclose(expansion, 0.0, composites(expansion))
    bound = remainder(expansion, still, torch.ones(1, 5).double(), 2.0)
    assert 0 < bound.constant < 1e-11
    assert bound.linear == bound.quadratic.mass == 0
    # No threshold is near: PyTorch's switch would be seen here.
    assert (still.gradient_reach < 1e-10).all()


def float32_forward(net: nn.Sequential, x: Tensor) -> list[Tensor]:
    single = nn.Sequential(*[part.float() for part in net])
    return [single[: 2 * i + 1](x.float()).double() for i in range(3)]


def test_defects_cover_the_rounding_of_float64_but_not_of_float32() -> None:
    """Exact values by float64 are far inside; a forward pass in float32 is outside the defects."""
    net, x, expansion = expanded()
    still = enclose(expansion, 0.0, composites(expansion))
    rough = float32_forward(net, x)
    outside = [
        ((rough[i] - layer.z).abs() > still.forward[i].reach).any()
        for i, layer in enumerate(expansion.layers)
    ]
    assert all(outside)


def test_errors_of_dense_derivatives_cover_another_order_of_summation() -> None:
    """J computed backwards instead of forwards differs by less than the stated errors."""
    _, _, expansion = expanded()
    for number in range(3):
        layer = expansion.layers[number]
        rows = torch.eye(layer.z.shape[1]).double()
        for below in range(number, -1, -1):
            rows = expansion.network.stages[below].adjoint(rows)
            if below:
                rows = rows * expansion.layers[below - 1].slope
        gap = (rows.T - layer.jacobian).norm(dim=0, keepdim=True)
        assert (gap <= layer.jacobian_error).all()


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_row_norms_are_dual(p) -> None:
    columns = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).double()
    best = (perturbations(1.0, p) @ columns).abs().amax(0)
    made = row_norms(columns, dual_order(p))[0]
    assert (made >= best).all()
    margin = made / torch.linalg.vector_norm(columns, dual_order(p), dim=0) - 1
    assert ((margin > 0.9 * SLACK) & (margin < 1.1 * SLACK)).all()
    # Errors are carried in these norms, and end as Euclidean ones: of alike numbers, too.
    for each in (columns, torch.ones_like(columns), torch.eye(5, 4).double()):
        stretched = error_stretch(p, 5) * row_norms(each, dual_order(p))[0]
        assert (stretched >= each.norm(dim=0)).all()
        assert (stretched <= 5 * each.norm(dim=0)).all()


def test_points_of_a_path_are_off_by_roundings_of_what_they_are_made_of() -> None:
    """In rational numbers, where input and baseline nearly cancel, and where they do not."""
    net = reference.dense_network([3, 4, 2], ["tanh"], 1.0, 1)
    x = torch.tensor([[0.3, -1e5 / 3, 1e-9]]).double()
    for base in (x * (1 + 1e-13), -x, torch.zeros_like(x), 1e9 * torch.ones_like(x)):
        (path,) = paths(ab.IntegratedGradients(net, steps=3, baseline=base), x)
        sizes = [
            abs(Fraction(a)) + abs(Fraction(b))
            for a, b in zip(x[0].tolist(), base[0].tolist(), strict=True)
        ]
        for node, _, point in path.points():
            for i, size in enumerate(sizes):
                start, end = Fraction(base[0, i].item()), Fraction(x[0, i].item())
                wrong = abs(Fraction(point[0, i].item()) - start - Fraction(node) * (end - start))
                assert wrong <= Fraction(4 * UNIT) * Fraction(path.spread[0, i].item())
                assert size * Fraction(0.999) <= Fraction(path.spread[0, i].item()) <= 2 * size


@pytest.mark.parametrize("terms", [1, 2, 16, 12345, 2**20, 2**40])
def test_gamma_is_what_so_many_roundings_can_do(terms) -> None:
    """In rational numbers, n u / (1 - n u); and hardly more."""
    exact = Fraction(terms, 2**53) / (1 - Fraction(terms, 2**53))
    assert exact <= Fraction(gamma(terms)) <= exact * Fraction(1.0011)


def test_a_region_in_other_units_is_no_smaller() -> None:
    """In rational numbers: every end, and the radius; what is frozen stays so."""
    net = reference.dense_network([4, 3, 2], ["tanh"], 1.0, 1)
    network = unroll(net, (4,))
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(1, 4, generator=generator).double()
    (path,) = paths(ab.Saliency(net), x)
    for _ in range(20):
        scale = torch.rand(4, generator=generator).double() * 3
        scale[3] = 0.0
        low, high = -torch.rand(4, generator=generator).double(), 2 * scale
        region = Region(2.0, torch.rand(1, generator=generator).item() / 3, scale, low, high)
        _, _, made = in_units(network, path, region)
        own = units_of(network, scale)[0]
        pairs = [(Fraction(region.epsilon), Fraction(made.epsilon))]
        for i in range(4):
            unit = Fraction(own[i].item())
            pairs += [
                (Fraction(-low[i].item()), Fraction(-made.low[i].item()) * unit),
                (Fraction(high[i].item()), Fraction(made.high[i].item()) * unit),
            ]
        for asked, said in pairs:
            assert asked <= said <= asked * (1 + Fraction(3, 10**15))
        assert made.scale.tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("seed", range(6))
def test_both_orders_together_are_nearly_the_best_of_all_multipliers(seed) -> None:
    """Against eigenvalues on a grid of c and theta: never below the least, and hardly above."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).double()

    size, epsilon = 4, 0.7
    forms = [Form.of(draw(size, size), draw(size).abs(), 2.0) for _ in range(2)]
    linear, constant = 2.0 + seed, 0.3
    rest = TaylorRemainder(*forms, linear, constant)
    jacobian, path = (
        draw(size, size),
        GradientPath(draw(1, size), draw(1, size), (1.0,), (1.0,), False),
    )
    mean = replace(PathMean.zero(size), jacobian=jacobian, remainder=rest, still=0.2)
    found = first_and_second_order(path, mean, epsilon, 2.0)
    best = math.inf
    for theta in 10.0 ** torch.linspace(-2, 2, 60).double():
        bent = forms[0].matrix + theta / 2 * forms[1].matrix
        for c in 10.0 ** torch.linspace(-2, 2, 60).double():
            largest = torch.linalg.eigvalsh(jacobian @ jacobian.T / (2 * c) + bent)[-1]
            value = epsilon**2 * largest + c / 2 + linear / (2 * theta)
            best = min(best, value.item())
    assert best * 0.99 <= found - constant - 0.2 <= best * 1.03


def test_errors_of_every_order_are_those_of_the_activation() -> None:
    """Of activations whose orders differ in size, with the switch of PyTorch's softplus."""
    _, _, expansion = expanded(2.0, ("softplus6", "tanh", "softplus30"))
    for layer, number, made in zip(
        expansion.layers,
        range(3),
        enclose(expansion, 0.2, composites(expansion)).forward,
        strict=True,
    ):
        activation = expansion.network.activations[number]
        value, slope, bend = (activation.error(order, layer.z) for order in range(3))
        torch.testing.assert_close(made.slope_drift, slope, rtol=1e-12, atol=0)
        torch.testing.assert_close(made.bend_drift, bend, rtol=1e-12, atol=0)
        high = layer.z + made.reach
        value, slope = (e + activation.switch(i, high) for i, e in enumerate((value, slope)))
        torch.testing.assert_close(made.value_error, value, rtol=1e-12, atol=0)
        torch.testing.assert_close(made.slope_error, slope, rtol=1e-12, atol=0)


def test_bounds_are_raised() -> None:
    values = torch.tensor([1.0, 0.1, 1 / 3, 1e-60, 0.0], dtype=torch.float64)
    assert (up(values) > values).all()
    assert (up(values) <= values * (1 + 1e-8) + 1e-100).all()


def test_paths_are_those_of_the_attribution() -> None:
    """The mean gradient over the path, times the displacement, is the attribution."""
    net = reference.dense_network([5, 6, 7, 4], ["tanh"], 1.0, 1)
    x = torch.rand(2, 5).double()
    labels = torch.zeros(2, dtype=torch.long)
    for attribution in reference.attributions(net).values():
        for row, path in enumerate(paths(attribution, x)):
            total = sum(
                weight * cases.gradient(net, point, labels[:1])
                for _, weight, point in path.points()
            )
            expected = attribution(x, labels)[row : row + 1]
            torch.testing.assert_close(path.displacement * total.detach(), expected)


def test_layers_hold_one_row_per_neuron() -> None:
    _, _, expansion = expanded()
    for layer in expansion.layers:
        for field in fields(layer):
            assert getattr(layer, field.name).shape[1] == layer.z.shape[1]


def silent(number: int, *given):
    """Such a network, changed so that all adjoints of one layer are zero at x."""
    net, x, expansion = expanded(2.0, *given)
    layer, after = net[2 * number + 2], expansion.layers[number + 1]
    above = (after.slope * after.adjoint)[0]
    with torch.no_grad():
        moved = -torch.outer(above, above @ layer.weight) / above.square().sum()
        layer.bias -= moved @ net[: 2 * number + 2](x)[0]  # z of the next layer stays
        layer.weight += moved
    return net, x, expand(unroll(net, SHAPE), x, x.abs(), 1, 2.0)


#: The last is narrow: nothing else covers for what the layer above leaves out.
NARROW = [(0,), (1,), (1, ("softplus6", "softplus6", "softplus1"), (5, 1, 2, 2), 11)]


@pytest.mark.parametrize("given", NARROW)
@pytest.mark.parametrize("radius", [0.05, 0.3])
def test_slopes_and_adjoints_that_move_together_are_covered(given, radius: float) -> None:
    """f'(z) u - s u - c a (z - z0) = a t + (f' - s)(u - a): where a is zero, the last alone."""
    (number, *_), (net, x, expansion) = given, silent(*given)
    layer = expansion.layers[number]
    assert layer.adjoint.abs().max() < 1e-9
    enclosure = enclose(expansion, radius, composites(expansion))
    check_enclosure(net, x, expansion, enclosure, 2.0)
    there = truth(net, x + perturbations(radius, 2.0), number)
    rest = (
        there["slope"] * there["u"]
        - layer.slope * there["u"]
        - layer.bend * layer.adjoint * (there["z"] - layer.z)
    )
    (_, _, source) = [*sources(expansion, enclosure)][2 * number + 1]
    assert (rest.abs() <= source + 1e-13).all()
    assert rest.abs().max() > 1e-6, "else this tests nothing"


#: Narrow ones, where nothing hides what is missing, and wide ones; then the activations.
ROUGH = [
    ((5, 1, 1, 1), ("softplus6", "softplus6", "softplus6")),
    ((5, 1, 2, 1), ("tanh", "softplus1", "sigmoid")),
    ((5, 2, 1, 2), ("softplus1", "tanh", "softplus6")),
    ((5, 6, 7, 4), ("softplus6", "tanh", "softplus1")),
    ((5, 2, 2, 2), ("sigmoid",)),
]


def derivatives(network, layers) -> list[tuple[Tensor, Tensor]]:
    """J and U as products of the slopes, curvatures and adjoints that were computed; J of g."""
    tangent, found = torch.eye(5).double(), []
    for stage, layer in zip(network.stages, layers, strict=False):
        jacobian = stage.linear(tangent)
        found.append(jacobian)
        tangent = jacobian * layer.slope
    hessian = torch.zeros(5, network.stages[-1].sizes[0]).double()
    pairs = []
    for number in range(len(layers) - 1, -1, -1):
        layer, jacobian = layers[number], found[number]
        pairs.append((jacobian, hessian))
        hessian = network.stages[number].adjoint(
            hessian * layer.slope + jacobian * layer.bend * layer.adjoint
        )
    return [*reversed(pairs), (hessian, hessian)]


def both(network):
    return reference.badly_evaluated(reference.roughened(network))


def rough(given, seed: int, spoil=reference.roughened):
    """A network, and its expansion on a machine with four digits; the exact J and U of that."""
    sizes, names = given
    net, x, _ = expanded(2.0, names, sizes, seed)
    network = unroll(net, SHAPE)
    expansion = expand(spoil(network), x, x.abs(), 1, 2.0)
    return net, x, expansion, derivatives(network, expansion.layers)


@pytest.mark.parametrize("spoil", [reference.roughened, reference.badly_evaluated, both])
@pytest.mark.parametrize("given", ROUGH)
@pytest.mark.parametrize("radius", [0.0, 1e-4, 0.1])
def test_defects_cover_a_machine_with_four_digits(given, radius: float, spoil) -> None:
    """Whatever rounding is, its size is stated: every inequality holds where it is enormous.

    Of products with weights, of activations and of both.
    """
    for seed in (1, 2, 3):
        net, x, expansion, exact = rough(given, seed, spoil)
        enclosure = enclose(expansion, radius, composites(expansion))
        zeta = torch.cat([torch.zeros(1, 5).double(), radius * perturbations(1.0, 2.0)[::8]])
        for number, (layer, (jacobian, hessian)) in enumerate(
            zip(expansion.layers, exact, strict=False)
        ):
            forward, backward = enclosure.forward[number], enclosure.backward[number]
            there = truth(net, x + zeta, number)
            moved, turned = there["z"] - layer.z, there["u"] - layer.adjoint
            product = there["slope"] * there["u"] - layer.slope * there["u"]
            for what, bound in (
                (moved - zeta @ jacobian, forward.remainder),
                (moved, forward.reach),
                (there["slope"] - layer.slope, forward.slope_reach),
                (turned - zeta @ hessian, backward.remainder),
                (turned, backward.reach),
                (
                    product - layer.bend * layer.adjoint * moved,
                    forward_source(layer, forward, backward),
                ),
                ((jacobian - layer.jacobian).norm(dim=0), layer.jacobian_error[0]),
                ((hessian - layer.hessian).norm(dim=0), layer.hessian_error[0]),
            ):
                assert (what.abs() <= bound + 1e-13).all()
        jacobian = exact[-1][0]
        assert ((jacobian - expansion.jacobian).norm(dim=0) <= expansion.jacobian_error[0]).all()
        labels = torch.ones(len(zeta), dtype=torch.long)
        rest = cases.gradient(net, x + zeta, labels).detach() - expansion.gradient
        assert (rest.abs() <= enclosure.gradient_reach + 1e-13).all()
        rest = rest - zeta @ jacobian
        assert (rest.abs() <= componentwise(expansion, enclosure) + 1e-13).all()
        check_remainders(expansion, enclosure, zeta, rest)


def forward_source(layer, forward, backward) -> Tensor:
    """What a neuron's slope times its adjoint leaves, beside what is linear in its argument."""
    return layer.adjoint.abs() * forward.slope_rest + forward.slope_reach * backward.reach


def check_remainders(expansion, enclosure, zeta: Tensor, rest: Tensor) -> None:
    """Of all components together, and along directions."""
    weights = torch.linspace(0.1, 2, 5).double().unsqueeze(0)
    bound = remainder(expansion, enclosure, weights, 2.0)
    squares = ((zeta @ bound.quadratic.matrix) * zeta).sum(1)
    crossed = ((zeta @ bound.cross.matrix) * zeta).sum(1)
    for theta in (0.3, 1.0, 3.0):
        total = squares + theta / 2 * crossed + bound.linear / (2 * theta) + bound.constant
        assert ((weights * rest).norm(dim=1) <= total + 1e-12).all()
    for matrix, mass in ((bound.quadratic.matrix, bound.quadratic.mass),):
        assert matrix.trace() <= mass
    draw = torch.randn(4, 5, generator=torch.Generator().manual_seed(9)).double()
    along = torch.cat([torch.eye(5).double(), draw])
    forms, masses, rests = remainders_along(expansion, enclosure, along)
    squares = torch.einsum("ni,kij,nj->nk", zeta, forms, zeta)
    assert ((rest @ along.T).abs() <= squares + rests + 1e-12).all()
    for turned in (along, -along):
        assert ((rest @ along.T).abs() <= _along(expansion, enclosure, turned) + 1e-12).all()
    assert (torch.linalg.eigvalsh(forms)[:, -1] <= masses + 1e-30).all()


def in_other_units(net: nn.Sequential, factor: float, last: float) -> nn.Sequential:
    """The network of inputs that are counted in units of 1 / factor, and logits times ``last``."""
    other = copy.deepcopy(net)
    with torch.no_grad():
        other[0].weight *= factor
        other[-1].weight *= last
        other[-1].bias *= last
    return other


def numbers(expansion: Expansion, radius: float) -> Iterator[tuple[Tensor, int, int]]:
    """All that is computed of a gradient: with its power of units of the input and of the logit."""
    layers: dict[str, tuple[int, int]] = dict.fromkeys(("z", "slope", "bend", "z_defect"), (0, 0))
    layers |= dict.fromkeys(("adjoint", "adjoint_defect"), (0, 1))
    layers |= dict.fromkeys(("jacobian", "jacobian_norm", "jacobian_error"), (1, 0))
    layers |= dict.fromkeys(("hessian", "hessian_norm", "hessian_error"), (1, 1))
    for layer in expansion.layers:
        for field in fields(layer):
            yield getattr(layer, field.name), *layers[field.name]
    for each in (expansion.gradient, expansion.gradient_defect):
        yield each, 1, 1
    for each in (expansion.jacobian, expansion.jacobian_norm, expansion.jacobian_error):
        yield each, 2, 1
    enclosure = enclose(expansion, radius, composites(expansion))
    for forward in enclosure.forward:
        for field in fields(forward):
            each = getattr(forward, field.name)
            for part in (each,) if isinstance(each, Tensor) else vars(each).values():
                yield part, 0, 0
    for backward in enclosure.backward:
        yield backward.remainder, 0, 1
        yield backward.reach, 0, 1
    yield enclosure.gradient_reach, 1, 1
    yield componentwise(expansion, enclosure), 1, 1
    weights = torch.linspace(0.1, 2, 5).double().unsqueeze(0)
    bound = remainder(expansion, enclosure, weights, 2.0)
    for form in (bound.quadratic, bound.cross):
        yield form.matrix, 3, 1
        yield torch.tensor(form.mass).double(), 3, 1
    yield torch.tensor([bound.linear, bound.constant]).double(), 1, 1
    directions = torch.tensor([[1.0, -2.0, 0.0, 0.5, 3.0]]).double()
    forms, mass, rest = remainders_along(expansion, enclosure, directions)
    yield from ((forms, 3, 1), (mass, 3, 1), (rest, 1, 1))
    yield _along(expansion, enclosure, directions), 1, 1


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("spoil", [lambda network: network, both])
def test_counted_in_other_units_nothing_else_changes(p: float, spoil) -> None:
    """Every number has its power of the units of the input, and of those of the logit.

    By powers of two, so that rounding is the same, too. What multiplies where it must divide,
    or forgets a factor, has another power.
    """
    net, x, _ = expanded(p)
    for factor, last in ((2.0**12, 1.0), (1.0, 2.0**12), (2.0**-9, 2.0**5)):
        made = []
        for unit, size, point, radius in (
            (1.0, 1.0, x, 0.2),
            (factor, last, x / factor, 0.2 / factor),
        ):
            network = spoil(unroll(in_other_units(net, unit, size), SHAPE))
            expansion = expand(network, point, point.abs(), 1, p)
            made.append([*numbers(expansion, radius)])
        for (one, power, logit), (other, *_) in zip(*made, strict=True):
            wanted = one * factor**power * last**logit
            torch.testing.assert_close(other, wanted, rtol=1e-11, atol=1e-100)


def drawn(count: int, generator: torch.Generator) -> Tensor:
    return 0.5 + torch.rand(1, count, generator=generator).double()


@pytest.mark.parametrize("radius", [0.3, 2.0])
def test_terms_are_those_of_every_neuron_and_no_more(radius: float) -> None:
    """Of random constants: never below what a neuron can do, and that where x / X = y / Y."""
    count, generator = 7, torch.Generator().manual_seed(0)
    constants = [{f.name: drawn(count, generator) for f in fields(kind)} for kind in KINDS]
    kinks, ahead, behind, own = constants
    own["jacobian_norm"][0, :4] = torch.tensor([0.0, 1.0, 1e-31, 1e31])
    own["hessian_norm"][0, :4] = torch.tensor([1.0, 0.0, 1e31, 1e-31])
    own["slope"], own["bend"], own["adjoint"] = -own["slope"], -own["bend"], -own["adjoint"]
    layer, forward = Layer(**own), Forward(**{**ahead, "curvature": Curvature(**kinks)})
    backward = Backward(**behind)
    norms = tuple(torch.cat([drawn(count, generator) for _ in range(3)]) for _ in range(2))
    terms = _terms(layer, forward, backward, norms, radius)
    through, turned = norms
    size, slope = layer.adjoint.abs(), layer.slope.abs()
    r = forward.remainder + radius * layer.jacobian_error
    rho = backward.remainder + radius * layer.hessian_error
    for a, b in ((1.0, 1.0), (0.5, 0.5), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.3, 1.0)):
        x, y = a * radius * layer.jacobian_norm, b * radius * layer.hessian_norm
        z = x + r
        value = forward.curvature.bow * z**2 + forward.slope_drift * z + forward.value_error
        change = forward.curvature.twist * z**2 + forward.bend_drift * z + forward.slope_error
        moved = (forward.curvature.turn * z + forward.slope_error) * (y + rho)
        defects = layer.z_defect * (slope * turned + (layer.bend * layer.adjoint).abs() * through)
        defects = defects + layer.adjoint_defect * slope * through
        exact = (turned * value + through * (size * change + moved) + defects).sum(1)
        (square_x, square_y), (first_x, first_y) = terms.squares, terms.firsts
        parts = square_x * x**2 + square_y * y**2 + first_x * x + first_y * y
        bound = parts.sum(1) + terms.constant
        assert (bound >= exact).all()
        if (a, b) == (1.0, 1.0):
            torch.testing.assert_close(bound, exact, rtol=1e-6, atol=0)
        elif a == b:  # but for what is as good as zero, which counts as if it were largest
            assert (bound <= exact * (1 + 1e-6) + 2 * radius**2 * through.sum(1)).all()


KINDS = (Curvature, Forward, Backward, Layer)


def kinds(net: nn.Module, x: Tensor) -> dict[str, ab.Attribution]:
    base = 0.5 * x
    return {
        "saliency": ab.Saliency(net),
        "times": ab.InputXGradient(net),
        "ig": ab.IntegratedGradients(net, 3, base),
        "gauss": ab.IntegratedGradients(net, 4, -base, quadrature="gauss_legendre"),
        "unmultiplied": ab.IntegratedGradients(net, 3, base, multiply_by_inputs=False),
    }


def directions_of(net, kind: str, x: Tensor, ball: ab.Ball, spoil, widest: int = 100):
    (path,) = paths(kinds(net, x)[kind], x)
    (region,) = regions(ball, x)
    return SmoothDirections.of(spoil(unroll(net, SHAPE)), path, 1, region, widest)


def as_it_is(network):
    return network


DIRECTIONS = torch.cat(
    [
        torch.eye(5).double(),
        torch.randn(4, 5, generator=torch.Generator().manual_seed(9)).double(),
    ]
)


#: Of a path, the radius, how wide layers may be, and the machine.
ALONG = [(0.0, 100, both), (1e-5, 0, both), (0.05, 100, both), (0.05, 0, as_it_is)]
ALONG += [(0.4, 100, as_it_is)]


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("kind", kinds(nn.Identity(), torch.zeros(1)))
def test_ends_along_directions_hold_everything_that_moves(kind, p) -> None:
    """Also on a machine with four digits, at a radius at which that is all there is."""
    for number, (radius, widest, spoil) in enumerate(ALONG):
        net, x, _ = expanded(p, *ROUGH[number][::-1], number)
        found = directions_of(net, kind, x, ab.LpBall(max(radius, 1e-12), p), spoil, widest)
        zeta = torch.cat([torch.zeros(1, 5).double(), radius * perturbations(1.0, p)[::12]])
        labels = torch.ones(len(zeta), dtype=torch.long)
        maps = kinds(net, x.expand(len(zeta), 5))[kind].revalue(x + zeta, labels)
        moved = maps - maps[:1]
        for rows in (DIRECTIONS, -DIRECTIONS):
            low, high = found(rows)
            assert (moved @ rows.T >= low - 1e-12).all()
            assert (moved @ rows.T <= high + 1e-12).all()
        assert (moved.norm(dim=1) <= found.whole + 1e-12).all()
        mean = sum(
            weight * cases.gradient(net, point + node * zeta, labels).detach()
            for node, weight, point in found.path.points()
        )
        assert ((mean - mean[:1]).abs() <= found._moved + 1e-12).all()
        if spoil is as_it_is:
            torch.testing.assert_close(found.gradient, mean[:1])


def test_a_gradient_that_bends_only_is_seen_to_move() -> None:
    """Of w tanh(v x) at 0, where it is steepest, the slope of the gradient is zero."""
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Tanh(), nn.Linear(1, 2, bias=False))
    net = net.double().eval()
    with torch.no_grad():
        net[0].weight.fill_(2.0)
        net[2].weight.fill_(3.0)
    x = torch.zeros(1, 1).double()
    for radius in (0.01, 0.3):
        (path,), (region,) = paths(ab.InputXGradient(net), x), regions(ab.L2Ball(radius), x)
        found = SmoothDirections.of(unroll(net, (1,)), path, 1, region, 100)
        exact = 6 * math.tanh(2 * radius) ** 2
        assert exact <= found._moved.item() <= 1.5 * exact


@pytest.mark.parametrize("spoil", [as_it_is, both])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("kind", kinds(nn.Identity(), torch.zeros(1)))
def test_bounds_know_no_units(kind, p, spoil) -> None:
    """What is multiplied by inputs is the same in all of them, gradients are counted in theirs."""
    net, x, _ = expanded(p)
    power = 0 if kind in ("times", "ig", "gauss") else 1
    for factor, last in ((2.0**12, 1.0), (2.0**-9, 2.0**5)):
        made = []
        for unit, size in ((1.0, 1.0), (factor, last)):
            of, ball = in_other_units(net, unit, size), ab.LpBall(0.125 / unit, p)
            found = directions_of(of, kind, x / unit, ball, spoil)
            low, high = found(DIRECTIONS)
            both_bounds = of_expansions(
                found.path,
                [(at.expansion, at.inside, at.still) for at in found.points],
                (found.radius, p),
            )
            made.append((low, high, torch.tensor(both_bounds).double()))
        for one, other in zip(*made, strict=True):
            torch.testing.assert_close(other, one * factor**power * last, rtol=1e-9, atol=1e-100)


def test_defects_are_the_margin_times_everything_that_was_summed() -> None:
    """Of a point, four roundings of what it was computed from; of a layer, what came before it."""
    net, x, _ = expanded()
    network = unroll(net, SHAPE)
    spread = 3 * x.abs() + 1
    expansion = expand(network, x, spread, 1, 2.0)
    size = 4 * spread + x.abs()
    for number, layer in enumerate(expansion.layers):
        weight, bias = net[2 * number].weight.abs(), net[2 * number].bias.abs()
        stage, after = network.stages[number], network.stages[number + 1]
        wanted = stage.margin * (size @ weight.T + bias)
        torch.testing.assert_close(layer.z_defect, wanted.detach(), rtol=1e-8, atol=0)
        size = net[: 2 * number + 2](x).abs()
        above = (
            [one.slope * one.adjoint for one in expansion.layers[number + 1 : number + 2]]
            + [torch.tensor([[0.0, 1.0]]).double()]
        )[0]
        wanted = after.margin * (above.abs() @ net[2 * number + 2].weight.abs())
        torch.testing.assert_close(layer.adjoint_defect, wanted.detach(), rtol=1e-8, atol=0)


@pytest.mark.parametrize("spoil", [as_it_is, both])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_remainders_are_the_sums_of_what_neurons_leave(p, spoil) -> None:
    """Written out, neuron by neuron: of all components, of each, and along directions."""
    net, x, _ = expanded(p)
    expansion = expand(spoil(unroll(net, SHAPE)), x, x.abs(), 1, p)
    enclosure = enclose(expansion, 0.2, composites(expansion))
    weights = torch.linspace(0.1, 2, 5).double().unsqueeze(0)
    made = remainder(expansion, enclosure, weights, p)
    joint = remainders_along(expansion, enclosure, DIRECTIONS)
    size, length = DIRECTIONS.abs(), DIRECTIONS.norm(dim=1, keepdim=True)
    quadratic, cross = torch.zeros(2, 5, 5).double()
    forms, masses = torch.zeros(9, 5, 5).double(), torch.zeros(9).double()
    linear = torch.zeros(()).double()
    constant = (weights * expansion.gradient_defect).norm()
    rest = along = size @ expansion.gradient_defect[0]
    each = expansion.gradient_defect
    for layer, forward, backward in zip(
        expansion.layers, enclosure.forward, enclosure.backward, strict=True
    ):
        pieces = (
            (layer.jacobian, layer.jacobian_error, layer.jacobian_norm),
            (layer.hessian, layer.hessian_error, layer.hessian_norm),
        )
        norms = tuple((weights.T * m).norm(dim=0) + 2 * error for m, error, _ in pieces)
        through = tuple(
            (DIRECTIONS @ m).abs() + SLACK * (size @ m.abs()) + length * error
            for m, error, _ in pieces
        )
        terms = _terms(layer, forward, backward, norms, 0.2)
        several = _terms(layer, forward, backward, through, 0.2)
        constant, rest = constant + terms.constant[0], rest + several.constant
        for i, (m, _, lengths) in enumerate(pieces):
            top = 0.2 * lengths
            if m.any():
                quadratic = quadratic + m @ torch.diag(terms.squares[i][0]) @ m.T
                cross = cross + m @ torch.diag((terms.firsts[i] / top)[0]) @ m.T
                linear = linear + (terms.firsts[i] * top).sum()
            forms = forms + torch.stack([m @ torch.diag(s) @ m.T for s in several.squares[i]])
            masses = masses + (several.squares[i] * lengths**2).sum(1)
            rest = rest + (several.firsts[i] * top).sum(1)
        slope, turn = layer.slope.abs(), (layer.bend * layer.adjoint).abs()
        by_hessian = forward.value_rest + slope * layer.z_defect
        by_jacobian = (
            forward_source(layer, forward, backward)
            + turn * layer.z_defect
            + slope * layer.adjoint_defect
        )
        for (m, error, _), source in zip(pieces, (by_jacobian, by_hessian), strict=True):
            products = (DIRECTIONS @ m).abs() + SLACK * (size @ m.abs())
            along = along + products @ source[0] + length[:, 0] * (source * error).sum()
            each = each + source @ m.abs().T + (source * error).sum()
    for found, wanted in (
        (made.quadratic.matrix, quadratic),
        (made.cross.matrix, cross),
        (torch.tensor([made.linear, made.constant]).double(), torch.stack([linear, constant])),
        (joint[0], forms),
        (joint[1], masses),
        (joint[2], rest),
        (_along(expansion, enclosure, DIRECTIONS), along),
        (componentwise(expansion, enclosure), each),
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-100)
    for found, wanted in ((joint[2], rest), (joint[1], masses)):
        assert (found >= wanted * (1 + SLACK / 2)).all()


@pytest.mark.parametrize("spoil", [as_it_is, both])
@pytest.mark.parametrize("radius", [0.0, 1e-3, 0.2, 2.0])
def test_enclosures_written_out(radius, spoil) -> None:
    """The recursions of the derivation, through absolute values of weights, term by term."""
    net, x, _ = expanded()
    network = spoil(unroll(net, SHAPE))
    expansion = expand(network, x, x.abs(), 1, 2.0)
    enclosure = enclose(expansion, radius, composites(expansion, 0))
    weights = [net[2 * number].weight.detach().abs() for number in range(4)]
    layers, found = expansion.layers, enclosure.forward
    for number, (layer, made) in enumerate(zip(layers, found, strict=True)):
        activation, remainder_, other = network.activations[number], layer.z_defect, math.inf
        if number:
            before, below = found[number - 1], layers[number - 1]
            through = below.slope.abs() * before.remainder + before.value_rest
            remainder_ = remainder_ + through @ weights[number].T
            moved = before.curvature.chord * before.reach + before.value_error
            other = moved @ weights[number].T + layer.z_defect
        reach = radius * (layer.jacobian_norm + layer.jacobian_error) + remainder_
        reach = torch.minimum(reach, torch.as_tensor(other))
        value, drift, bent = (activation.error(order, layer.z) for order in range(3))
        constants = made.curvature
        for name, wanted in {
            "remainder": remainder_,
            "reach": reach,
            "value_error": value,
            "slope_error": drift,
            "slope_drift": drift,
            "bend_drift": bent,
            "value_rest": constants.bow * reach**2 + drift * reach + value,
            "slope_rest": constants.twist * reach**2 + bent * reach + drift,
            "slope_reach": torch.minimum(constants.turn * reach, constants.swing) + drift,
        }.items():
            torch.testing.assert_close(getattr(made, name), wanted, rtol=1e-6, atol=1e-100)
            assert (made.reach >= reach * (1 + SLACK / 2)).all()
    crude = interval = None
    for number in range(2, -1, -1):
        layer, ahead, made = layers[number], found[number], enclosure.backward[number]
        remainder_ = reach = layer.adjoint_defect
        if crude is not None:
            remainder_ = remainder_ + crude
            linear = radius * (layer.hessian_norm + layer.hessian_error) + remainder_
            reach = torch.minimum(linear, interval + layer.adjoint_defect)
        torch.testing.assert_close(made.remainder, remainder_, rtol=1e-6, atol=1e-100)
        torch.testing.assert_close(made.reach, reach, rtol=1e-6, atol=1e-100)
        slope, adjoint = layer.slope.abs(), layer.adjoint.abs()
        fresh = adjoint * (layer.bend.abs() * ahead.remainder + ahead.slope_rest)
        fresh = fresh + ahead.slope_reach * reach
        crude = (slope * remainder_ + fresh) @ weights[number]
        interval = ahead.slope_reach * adjoint + (slope + ahead.slope_reach) * reach
        interval = interval @ weights[number]
    wanted = interval + expansion.gradient_defect
    torch.testing.assert_close(enclosure.gradient_reach, wanted, rtol=1e-6, atol=1e-100)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
def test_what_the_moving_factor_adds_written_out(p) -> None:
    """The smaller of two products of norms, with all errors added: by both bounds."""
    net, x, _ = expanded(p)
    (path,) = paths(ab.InputXGradient(net), x)
    generator, epsilon = torch.Generator().manual_seed(1), 0.3
    vectors = ("gradient", "gradient_size", "jacobian_error", "component", "reach", "still_reach")
    euclidean = epsilon * 5 ** max(0.0, 0.5 - 1 / p)
    for size in (0.0, 1.0, 30.0):
        matrix = size * torch.randn(5, 5, generator=generator).double()
        none = TaylorRemainder(Form.zero(5), Form.zero(5), 0.0, 0.0)
        own = {name: drawn(5, generator) for name in vectors}
        mean = PathMean(jacobian=matrix, remainder=none, still=0.0, **own)
        taylor = _moving_factor(path, mean, (epsilon, p))
        interval = _interval(path, mean, (epsilon, p))
        lengths = torch.linalg.vector_norm(matrix, dual_order(p), dim=0, keepdim=True)
        moved = epsilon * (lengths + mean.jacobian_error) + mean.component
        steep = Form.of(matrix, torch.ones(5).double(), p).maximum(p) ** 0.5
        apart = epsilon * mean.jacobian_error.norm() + mean.component.norm()
        least = min(epsilon * steep + apart.item(), moved.norm().item())
        wanted = min(epsilon * least, euclidean * moved.max().item())
        assert wanted * (1 + SLACK / 2) <= taylor <= wanted * (1 + 1e-6)
        whole = mean.gradient_size + mean.reach
        shift = (path.displacement.abs() * (mean.reach + mean.still_reach)).norm().item()
        wanted = shift + min(epsilon * whole.norm().item(), euclidean * whole.max().item())
        assert wanted * (1 + SLACK / 2) <= interval <= wanted * (1 + 1e-6)


def test_ends_know_on_which_side_a_range_cuts_the_ball() -> None:
    """Near the lower end features can only grow: one end of each direction is nearer."""
    net, _, _ = expanded(math.inf)
    x, ball = torch.full((1, 5), 0.01).double(), ab.LinfBall(0.05, low=0, high=1)
    found = directions_of(net, "saliency", x, ball, as_it_is)
    zeta = ball.project(0.05 * perturbations(1.0, math.inf), x.expand(600, 5))
    labels = torch.ones(600, dtype=torch.long)
    moved = (
        cases.gradient(net, x + zeta, labels).detach() - cases.gradient(net, x, labels[:1]).detach()
    )
    for rows in (DIRECTIONS, -DIRECTIONS):
        low, high = found(rows)
        assert (moved @ rows.T >= low).all()
        assert (moved @ rows.T <= high).all()
        assert not torch.allclose(low, -high, rtol=0.2, atol=0)


def test_frozen_features_move_by_a_millionth_of_what_the_first_layer_sees() -> None:
    """Of one that it does not see, of the largest unit; none by more than that."""
    layer = nn.Linear(5, 2, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[2.0, 4.0, 0.0, 1e-9, 0.0], [0.0, 0.0, 0.0, 0.0, 3.0]]))
    scale = torch.tensor([0.5, 0.0, 0.0, 0.0, 0.1], dtype=torch.float64)
    made = units_of(unroll(nn.Sequential(layer), SHAPE), scale)
    wanted = torch.tensor([[0.5, 1e-6 / 4, 0.5e-6, 0.5, 0.1]], dtype=torch.float64)
    torch.testing.assert_close(made, wanted, rtol=1e-12, atol=0)


def test_margins_of_products_along_directions_do_not_cancel() -> None:
    """Where a . M is zero, what rounding may leave of it is a share of |a| . |M|."""
    _, _, expansion = expanded(2.0, ("tanh",), (5, 1, 1, 1))
    layer = expansion.layers[0]
    zero = torch.zeros_like(layer.z)
    exact = replace(layer, jacobian_error=zero, hessian_error=zero)
    bare = replace(expansion, layers=(exact,), gradient_defect=0 * expansion.gradient_defect)
    enclosure = enclose(expansion, 0.2, composites(expansion))
    column = layer.jacobian[:, 0]
    direction = -column.abs() * torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0]).double()
    direction[4] = -(direction @ column) / column[4]
    assert abs(direction @ column) < 1e-15
    (*_, (matrix, _, source)) = sources(bare, enclosure)
    assert torch.equal(matrix, layer.jacobian)
    least = SLACK * (direction.abs() @ column.abs()) * source[0, 0]
    assert _along(bare, enclosure, direction.unsqueeze(0)).item() >= 0.99 * least
    _, mass, _ = remainders_along(bare, enclosure, direction.unsqueeze(0))
    through = SLACK * (direction.abs() @ column.abs()).reshape(1, 1)
    ends = enclosure.forward[0], enclosure.backward[0]
    terms = _terms(exact, *ends, (through, torch.zeros(1, 1).double()), 0.2)
    wanted = sum(
        square * lengths**2
        for square, lengths in zip(
            terms.squares, (exact.jacobian_norm, exact.hessian_norm), strict=True
        )
    )
    torch.testing.assert_close(mass, wanted.sum(1), rtol=1e-5, atol=0)
