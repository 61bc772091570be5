"""Exact integrals against 10,000 midpoints, completeness and finite differences, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import attribound as ab
import laws
from attribound.attributions.exact import cells, integral
from attribound.operators import LinearOperator, dense
from attributions.exact import reference
from attributions.exact.reference import CASES, exact


def _matrices(jacobian: LinearOperator) -> list[Tensor]:
    return [dense(jacobian, row, 64) for row in range(len(jacobian))]


@pytest.mark.parametrize("name", CASES)
def test_value_is_what_midpoints_approach_and_complete(name) -> None:
    net, x = CASES[name]()
    ig, target = exact(net), torch.arange(len(x)) % 3
    value = ig(x, target)
    many = reference.midpoints(net, x, target)
    assert (value - many).norm() <= 1e-3 * many.norm()
    assert ig.completeness_gap(x, target).max() <= 1e-13
    torch.testing.assert_close(ig.linearize(x, target).value, value, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("multiply", [True, False])
def test_jacobian_is_that_of_differences(name, multiply) -> None:
    net, x = CASES[name]()
    ig, target = exact(net, multiply_by_inputs=multiply), torch.arange(len(x)) % 3
    jacobian = ig.linearize(x, target).jacobian
    expected = reference.differences(ig, x, target)
    size = expected.abs().max() + 1e-9
    for row, matrix in enumerate(_matrices(jacobian)):
        assert (matrix - expected[row]).abs().max() <= 1e-6 * size
    if multiply:  # the sum of alpha times the jumps telescopes
        away = x - 0.3
        along = away * ab.Saliency(net)(x, target)
        torch.testing.assert_close(jacobian.matvec(away), along, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["two", "flat areas"])
def test_the_operator_obeys_the_laws(name) -> None:
    net, x = CASES[name]()
    jacobian = exact(net).linearize(x).jacobian
    hessian = exact(net, multiply_by_inputs=False).linearize(x).jacobian
    assert hessian.symmetric
    for operator in (jacobian, hessian):
        for law in (
            laws.adjoint,
            laws.linear,
            laws.shaped,
            laws.symmetric_if_claimed,
            laws.selects,
        ):
            law(operator)


def test_a_path_that_ends_on_a_kink() -> None:
    """The value is continuous there, and the Jacobian one of the two sides'."""
    net, x = reference.mlp((12,)), reference.rows(1)
    weight, bias = net[0].weight[0].detach(), net[0].bias[0].detach()
    x = x - (weight @ x[0] + bias) / (weight @ weight) * weight
    ig, target = exact(net), torch.tensor([0])
    value, jacobian = ig(x, target), _matrices(ig.linearize(x, target).jacobian)[0]
    sides = []
    for sign in (1, -1):
        beside = x + sign * 1e-9 * weight
        torch.testing.assert_close(ig(beside, target), value, rtol=0, atol=1e-7)
        sides.append(_matrices(ig.linearize(beside, target).jacobian)[0])
    gaps = [(jacobian - side).abs().max() for side in sides]
    assert min(gaps) < 1e-6 < (sides[0] - sides[1]).abs().max()
    assert ab.Status.ON_KINK in ab.bound(ig, x, ab.L2Ball(0.1), target).status[0]
    assert ab.bound(ig, reference.rows(1), ab.L2Ball(0.1), target).status == (ab.Status.CONVERGED,)


def test_an_input_that_is_the_baseline() -> None:
    net, x = reference.mlp((12, 10)), torch.full((1, 5), 0.3, dtype=torch.float64)
    at_x = exact(net).linearize(x)
    assert not at_x.value.any()
    expected = torch.diag(ab.Saliency(net)(x)[0])
    torch.testing.assert_close(_matrices(at_x.jacobian)[0], expected)


def test_without_biases_it_is_input_times_gradient_and_jumps() -> None:
    net, x = reference.without_biases(), reference.rows()
    ig = exact(net, baseline=0.0)
    torch.testing.assert_close(ig(x), ab.InputXGradient(net)(x))
    assert all(ab.Status.JUMPS in status for status in ab.bound(ig, x, ab.L2Ball(0.1)).status)
    with pytest.raises(ab.ModelError, match="jump"):
        ab.bound(ig, x, ab.L2Ball(0.1), claim="mean_value")


def test_no_examples_have_no_maps() -> None:
    net, x = reference.mlp((12, 10)), reference.rows(0)
    at_x = exact(net).relinearize(x, torch.zeros(0, dtype=torch.long))
    assert at_x.value.shape == at_x.jacobian.matvec(x).shape == (0, 5)


def test_float32_inputs_get_float32_of_the_float64_integral() -> None:
    net, x = reference.mlp((12, 10)), reference.rows()
    ig = exact(net.float())
    value = ig(x.float())
    assert value.dtype == ig.linearize(x.float()).jacobian.matvec(x.float()).dtype == torch.float32
    torch.testing.assert_close(value.double(), exact(net.double())(x), rtol=1e-4, atol=1e-5)


def test_parts_of_paths_make_the_same(monkeypatch) -> None:
    """However few numbers may be held, also with parts that cross nothing."""
    net, x = CASES["flat areas"]()
    ig = exact(net)
    whole, at_x = ig(x), ig.linearize(x)
    monkeypatch.setattr(cells, "_HELD", 2**12)
    monkeypatch.setattr(integral, "_AT_ONCE", 2**8)
    torch.testing.assert_close(ig(x), whole, rtol=0, atol=1e-13)
    again = ig.linearize(x)
    torch.testing.assert_close(again.value, whole, rtol=0, atol=1e-13)
    torch.testing.assert_close(again.jacobian.matvec(x), at_x.jacobian.matvec(x))


def test_crowded_parts_are_cut_until_they_fit(monkeypatch) -> None:
    """Nearly all kinks are crossed in the first thousandth of the path."""
    net, x = reference.mlp((40, 30)), reference.rows()
    with torch.no_grad():
        for layer in (net[0], net[2]):
            layer.bias *= 1e-3
    ig = exact(net, 0.0)
    whole, product = ig(x), ig.linearize(x).jacobian.matvec(x)
    monkeypatch.setattr(cells, "_HELD", 40 * 4 * len(x))
    monkeypatch.setattr(cells, "_CROWDED", 1)
    sizes = []
    right = cells.Cells

    def seen(*fields):
        sizes.append(len(fields[0]))
        return right(*fields)

    monkeypatch.setattr(cells, "Cells", seen)
    torch.testing.assert_close(ig(x), whole, rtol=0, atol=1e-13)
    assert max(sizes) <= 4 * len(x)
    torch.testing.assert_close(ig.linearize(x).jacobian.matvec(x), product)


@pytest.mark.parametrize("make", [reference.duplicated, reference.without_deep_biases])
def test_following_masks_is_caught(make) -> None:
    """The obvious way loses one of two neurons that switch together; without ties it is right."""
    x, plain = reference.rows(), reference.mlp((12, 10))
    sound = torch.stack([reference.followed(plain, row, 0, 0.3) for row in x])
    torch.testing.assert_close(sound, exact(plain)(x, 0))
    worst = 0.0
    for seed in range(4):
        net = make(seed)
        wrong = torch.stack([reference.followed(net, row, 0, 0.3) for row in x])
        truth = exact(net)(x, 0)
        worst = max(worst, ((wrong - truth).norm(dim=1) / truth.norm(dim=1)).max().item())
    assert worst > 0.1


def test_masks_read_at_crossings_are_caught(monkeypatch) -> None:
    net, x = CASES["two"]()
    ig = exact(net)
    truth = ig(x)
    right = cells.PiecewiseLinear.masks

    def early(network: cells.PiecewiseLinear, points: Tensor) -> Tensor:
        """Masks where the cells begin, more or less, in place of their middles."""
        return right(network, torch.cat([points[:1], (points[1:] + points[:-1]) / 2]))

    monkeypatch.setattr(cells.PiecewiseLinear, "masks", early)
    assert (ig(x) - truth).norm() > 0.01 * truth.norm()
    assert ig.completeness_gap(x).max() > 1e-3


def test_ties_taken_for_one_jump_are_caught(monkeypatch) -> None:
    """Kinks of several pixels at one place of the path: their sum has another normal."""
    net, x = reference.tied()
    ig, target = exact(net), torch.tensor([0])
    expected = reference.differences(ig, x, target)
    monkeypatch.setattr(integral, "_jumped", _merged)
    wrong = torch.stack(_matrices(ig.linearize(x, target).jacobian))
    assert (wrong - expected).norm() > 0.01 * expected.norm()


def _merged(network, target, part, state):
    """One jump a crossing, whatever switches there."""
    state, jumps = _ORIGINAL(network, target, part, state)
    key = torch.stack([jumps.owner.double(), jumps.place], 1)
    kept, which = key.unique(dim=0, return_inverse=True)
    rows = torch.zeros(len(kept), jumps.rows.shape[1]).double().index_add_(0, which, jumps.rows)
    return state, integral._Jumps(kept[:, 0].long(), kept[:, 1], rows, jumps.before)


_ORIGINAL = integral._jumped


def test_an_audit_speaks_of_the_network_itself() -> None:
    """Without a smooth copy, also where one would be made if it were needed."""
    net, x = reference.mlp((12, 10)).float(), reference.rows(3).float()
    settings = {
        "attributions": [ab.IntegratedGradients(quadrature="exact")],
        "balls": [ab.L2Ball(0.1)],
        "claims": ["first_order", "adjusted", "mean_value"],
        "attacks": {"ascent": ab.attacks.AttributionAscent(steps=3)},
    }
    run = ab.audit(net, (x, net(x).argmax(1)), smooth="auto", **settings)
    bounds, attacks = run.bounds().to_pylist(), run.attacks().to_pylist()
    assert {row["claim"] for row in bounds} == {"first_order", "adjusted", "mean_value"}
    assert {row["subject"] for row in (*bounds, *attacks)} == {"yours"}
    assert len(attacks) == 3
