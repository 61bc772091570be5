from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import attribound as ab
import cases
import laws

GAUSS = ([0.5 - 0.15**0.5, 0.5, 0.5 + 0.15**0.5], [5 / 18, 8 / 18, 5 / 18])
RULES = {
    "riemann_right": ([1 / 3, 2 / 3, 1.0], [1 / 3] * 3),
    "midpoint": ([1 / 6, 3 / 6, 5 / 6], [1 / 3] * 3),
    "gauss_legendre": GAUSS,
}


def slow(
    model: nn.Module, x: Tensor, target: Tensor, baseline: float | Tensor, multiply: bool = True
) -> Tensor:
    """Three Gauss-Legendre nodes from any baseline by a plain loop, with its graph."""
    path = x - baseline
    total = torch.zeros_like(x)
    for alpha, weight in zip(*GAUSS, strict=True):
        total = total + weight * cases.gradient(model, baseline + alpha * path, target)
    return path * total if multiply else total


def agrees(attribution: ab.Attribution, oracle, x: Tensor, target: Tensor) -> None:
    linear = attribution.linearize(x, target)
    with sdpa_kernel(SDPBackend.MATH):
        value, jacobian = oracle(x).detach(), cases.dense_jacobian(oracle, x)
    torch.testing.assert_close(attribution(x, target), value, **laws.TIGHT)
    torch.testing.assert_close(linear.value, value, **laws.TIGHT)
    laws.equals_dense(linear.jacobian, jacobian)


@pytest.mark.parametrize("network", cases.NETWORKS)
@pytest.mark.parametrize("quadrature", RULES)
def test_value_and_jacobian_equal_a_loop_over_nodes(network, quadrature) -> None:
    model, x = cases.NETWORKS[network]()
    target = torch.arange(len(x)) % 2
    agrees(
        ab.IntegratedGradients(model, 3, quadrature=quadrature),
        lambda p: cases.integrated_gradients(model, p, target, *RULES[quadrature]),
        x,
        target,
    )


@pytest.mark.parametrize("network", cases.NETWORKS)
@pytest.mark.parametrize("multiply", [True, False])
@pytest.mark.parametrize("kind", ["number", "one", "one with batch axis", "each"])
def test_baselines(network, multiply, kind) -> None:
    model, x = cases.NETWORKS[network]()
    target = torch.arange(len(x)) % 2
    draw = torch.rand(x.shape, generator=torch.Generator().manual_seed(9)).double()
    baseline = {
        "number": 0.3,
        "one": draw[0],
        "one with batch axis": draw[:1],
        "each": draw,
    }[kind]
    attribution = ab.IntegratedGradients(
        model, 3, baseline, quadrature="gauss_legendre", multiply_by_inputs=multiply
    )
    agrees(attribution, lambda p: slow(model, p, target, baseline, multiply), x, target)
    assert attribution.linearize(x).jacobian.symmetric != multiply


@pytest.mark.parametrize("baseline", [0.3, torch.rand(7), torch.rand(5, 7)], ids=["0", "1", "5"])
def test_rows_take_their_baselines_with_them(baseline) -> None:
    model, x = cases.tabular()
    whole = ab.IntegratedGradients(model, 4, baseline)
    some = slice(1, 4)
    part = whole.rows(x, some)
    torch.testing.assert_close(part(x[some]), whole(x)[some], rtol=0, atol=1e-10)
    v = torch.ones_like(x)
    torch.testing.assert_close(
        part.linearize(x[some]).jacobian.matvec(v[some]),
        whole.linearize(x).jacobian.matvec(v)[some],
        rtol=0,
        atol=1e-10,
    )
    assert whole.baseline is baseline


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        (torch.zeros(6), r"shape \(7,\) or \(5, 7\), got shape \(6,\)"),
        (torch.zeros(4, 7), r"shape \(7,\) or \(5, 7\), got shape \(4, 7\)"),
        (torch.zeros(5, 1), r"shape \(7,\) or \(5, 7\), got shape \(5, 1\)"),
        (float("nan"), "finite numbers, got NaN or infinity"),
        (torch.full((7,), torch.inf), "finite numbers, got NaN or infinity"),
    ],
)
def test_unusable_baselines_are_refused(baseline, message) -> None:
    model, x = cases.tabular()
    with pytest.raises(ab.InputError, match=f"baseline: expected .*{message}"):
        ab.IntegratedGradients(model, baseline=baseline)(x)


def test_bad_settings_are_refused_at_once() -> None:
    model, _ = cases.tabular()
    with pytest.raises(ab.InputError, match="steps: expected a whole number"):
        ab.IntegratedGradients(model, steps=0)
    with pytest.raises(ab.InputError, match="quadrature: expected one of"):
        ab.IntegratedGradients(model, quadrature="trapezoid")


def test_more_nodes_than_fit_together_change_nothing() -> None:
    """Above 32 the nodes of one example are spread over blocks that add up."""
    model, x = cases.tabular()
    steps, target = 70, torch.tensor([0, 1, 2, 0, 1])
    nodes = [(k + 1) / steps for k in range(steps)]
    agrees(
        ab.IntegratedGradients(model, steps),
        lambda p: cases.integrated_gradients(model, p, target, nodes, [1 / steps] * steps),
        x,
        target,
    )


def curved() -> tuple[cases.Quadratic, Tensor]:
    matrix = cases.rotation(4) @ torch.diag(torch.tensor([3.0, -1, 2, 0.5]).double())
    matrices = torch.stack([matrix + matrix.T, 2 * torch.eye(4).double()])
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0)).double()
    return cases.Quadratic(matrices, torch.ones(2, 4).double()), x


@pytest.mark.parametrize("quadrature", ["gauss_legendre", "midpoint"])
@pytest.mark.parametrize("multiply", [True, False])
def test_a_quadratic_is_complete_with_one_node(quadrature, multiply) -> None:
    model, x = curved()
    attribution = ab.IntegratedGradients(model, 1, 0.7, quadrature, multiply)
    torch.testing.assert_close(
        attribution.completeness_gap(x), torch.zeros(3).double(), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("target", [0, torch.tensor([1, 0, 1])])
def test_completeness_gap_by_hand(target) -> None:
    """The right sum with m steps adds xᵀAx / 2m to the integral of a quadratic."""
    model, x = curved()
    matrices = model.matrices[target].expand(3, 4, 4)
    expected = torch.einsum("bi,bij,bj->b", x, matrices, x).abs() / (2 * 5)
    gap = ab.IntegratedGradients(model, 5).completeness_gap(x, target)
    torch.testing.assert_close(gap, expected)


@pytest.mark.parametrize("quadrature", RULES)
@pytest.mark.parametrize("network", cases.NETWORKS)
def test_completeness_gap_shrinks_with_steps(network, quadrature) -> None:
    model, x = cases.NETWORKS[network]()
    baseline = torch.rand(x.shape[1:], generator=torch.Generator().manual_seed(0)).double()
    coarse, fine = (
        ab.IntegratedGradients(model, steps, baseline, quadrature).completeness_gap(x).mean()
        for steps in (2, 16)
    )
    assert 0 < fine < coarse / 6


@pytest.mark.parametrize("multiply", [True, False])
@pytest.mark.parametrize("baseline", ["number", "each"])
def test_steps_are_doubled_until_the_scores_add_up(multiply, baseline) -> None:
    """x^5 from 0: n right-hand nodes miss it by about 2.5 / n; 5 % takes 64 of 2, 4, 8 ..."""
    model = cases.Functional(lambda x: torch.stack([x.sum(1) ** 5, -x.sum(1)], 1))
    x = torch.tensor([[1.0], [2.0], [0.0]]).double()
    base = 0.0 if baseline == "number" else torch.zeros_like(x)
    target = torch.tensor([0, 1, 0])
    wanted = {1: [64, 0, 0], 2: [64, 0, 0], 32: [64, 0, 0], 64: [0, 0, 0]}
    for steps, needed in wanted.items():
        ig = ab.IntegratedGradients(model, steps, base, multiply_by_inputs=multiply)
        assert ig.steps_needed(x, target, ig(x, target)).tolist() == needed
    fine = ab.IntegratedGradients(model, 3, base, "gauss_legendre", multiply_by_inputs=multiply)
    assert not fine.steps_needed(x, target, fine(x, target)).any()


def test_no_number_of_steps_is_named_where_none_was_enough() -> None:
    """A step that is nowhere near smooth: its slope is never met by a node."""
    model = cases.Functional(lambda x: torch.sigmoid(1e5 * (x - 1 / 3)) @ torch.ones(1, 2).double())
    x = torch.ones(2, 1).double()
    target = torch.zeros(2, dtype=torch.long)
    ig = ab.IntegratedGradients(model, 1)
    assert ig.steps_needed(x, target, ig(x, target)).tolist() == [-1, -1]
    many = ab.IntegratedGradients(model, 801)
    assert many.steps_needed(x, target, many(x, target)).tolist() == [-1, -1]


def test_rounding_is_no_gap() -> None:
    """Scores that cancel in a sum of float32 are complete though nothing is left of them."""
    model = cases.Functional(lambda x: torch.stack([x @ ONES, -(x @ ONES)], 1))
    x = torch.cat([torch.full((1, 500), 0.1), torch.full((1, 500), -0.1)], 1)
    ig = ab.IntegratedGradients(model, 3)
    assert not ig.steps_needed(x, torch.zeros(1, dtype=torch.long), ig(x)).any()


ONES = torch.linspace(1, 1 + 1e-5, 1000)


def test_others_have_no_steps_to_count() -> None:
    model, x = cases.tabular()
    saliency = ab.Saliency(model)
    assert saliency.steps_needed(x, saliency.targets(x), saliency(x)) is None


def test_targets() -> None:
    """The predicted class unless given, as a number or one per example."""
    model, x = cases.tabular()
    ig = ab.IntegratedGradients(model, 3)
    predicted = model(x).argmax(1)
    assert torch.equal(ig(x), ig(x, predicted))
    assert torch.equal(ig.linearize(x).target, predicted)
    assert torch.equal(ig(x, 2), ig(x, torch.full((5,), 2)))
    mixed = torch.tensor([0, 1, 2, 1, 0])
    expected = torch.stack([ig(x, k) for k in range(3)])[mixed, torch.arange(5)]
    torch.testing.assert_close(ig(x, mixed), expected, rtol=0, atol=1e-10)
