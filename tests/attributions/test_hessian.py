from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import attribound as ab
import cases
import laws
from attribound.attributions import hessian
from attribound.attributions.hessian import (
    PathHessian,
    mean_gradient,
    mean_gradient_and_hessian,
    single_point,
)
from attribound.networks.path import Path
from attribound.operators import dense

EVERY = pytest.mark.parametrize(
    ("network", "method"),
    [(network, method) for network in cases.NETWORKS for method in cases.ATTRIBUTIONS],
)


def counted(model: nn.Module) -> tuple[Callable[[Tensor], Tensor], list[int]]:
    """The model as a function, and the sizes of the batches it was called with."""
    calls: list[int] = []

    def forward(x: Tensor) -> Tensor:
        calls.append(len(x))
        return model(x)

    return forward, calls


def a_path(x: Tensor) -> Path:
    nodes, weights = torch.tensor([[0.25, 0.5, 1.5], [0.5, 0.1, 0.7]]).double()
    return Path(x - 1, torch.full_like(x, 2.0), nodes, weights, torch.arange(len(x)) % 2)


@pytest.mark.parametrize("network", cases.NETWORKS)
def test_points_go_example_by_example(network) -> None:
    path = a_path(cases.NETWORKS[network]()[1])
    points, labels = path.points()
    for i in range(len(path.base)):
        for k in range(3):
            expected = path.base[i] + path.nodes[k] * path.displacement[i]
            torch.testing.assert_close(points[3 * i + k], expected)
            assert labels[3 * i + k] == path.target[i]
    expected = 0.5 * points[0::3] + 0.1 * points[1::3] + 0.7 * points[2::3]
    torch.testing.assert_close(path.average(points, path.weights), expected)


def test_single_point_is_x_itself() -> None:
    x, target = torch.randn(3, 4), torch.tensor([0, 1, 0])
    points, labels = single_point(x, target).points()
    assert torch.equal(points, x)
    assert torch.equal(labels, target)


@pytest.mark.parametrize("limit", [1, 60_000, 2**30])
def test_hessian_is_the_derivative_of_the_mean_gradient_at_the_end(limit) -> None:
    model, x = cases.tabular()
    path = a_path(x)

    def slow(end: Tensor) -> Tensor:
        total = torch.zeros_like(end)
        for alpha, weight in zip(path.nodes, path.weights, strict=True):
            point = path.base + alpha * (end - path.base)
            total = total + weight * cases.gradient(model, point, path.target)
        return total

    end = path.base + path.displacement
    classifier = ab.Classifier(model, memory_limit=limit)
    with torch.no_grad():
        gradient, operator = mean_gradient_and_hessian(classifier, path)
        again = mean_gradient(classifier, path)
    torch.testing.assert_close(gradient, slow(end).detach(), **laws.TIGHT)
    torch.testing.assert_close(again, slow(end).detach(), **laws.TIGHT)
    laws.equals_dense(operator, cases.dense_jacobian(slow, end))
    assert operator.symmetric
    assert operator.points == 3


@pytest.mark.parametrize("retain", [True, False])
def test_a_path_hessian_obeys_the_laws(retain) -> None:
    model, x = cases.tabular()
    with torch.no_grad():
        operator = PathHessian(ab.Classifier(model), a_path(x), retain=retain)
        for law in laws.OPERATOR_LAWS:
            law(operator)


@EVERY
def test_a_tiny_memory_limit_changes_no_result(network, method) -> None:
    """Every point is computed alone, and every graph built anew for every product."""
    model, x = cases.NETWORKS[network]()
    plain, tight = (
        cases.ATTRIBUTIONS[method](ab.Classifier(model, memory_limit=limit)) for limit in (2**30, 1)
    )
    same = {"rtol": 1e-10, "atol": 1e-12}
    torch.testing.assert_close(tight(x), plain(x), **same)
    ours, theirs = tight.linearize(x), plain.linearize(x)
    torch.testing.assert_close(ours.value, theirs.value, **same)
    v = torch.randn(x.shape, generator=torch.Generator().manual_seed(4)).double()
    torch.testing.assert_close(ours.jacobian.matvec(v), theirs.jacobian.matvec(v), **same)
    torch.testing.assert_close(ours.jacobian.rmatvec(v), theirs.jacobian.rmatvec(v), **same)
    for rows in ([2], [2, 0], [1, 1, 0]):
        index = torch.tensor(rows)
        torch.testing.assert_close(
            ours.jacobian.select(index).matvec(v[index]), theirs.jacobian.matvec(v)[index], **same
        )


def test_graphs_within_the_limit_are_built_once() -> None:
    model, x = cases.tabular()
    forward, calls = counted(model)
    jacobian = ab.IntegratedGradients(forward, 4).linearize(x).jacobian
    calls.clear()
    jacobian.matvec(x)
    jacobian.rmatvec(x)
    assert calls == []


def test_graphs_beyond_the_limit_are_built_for_every_product() -> None:
    model, x = cases.tabular()
    forward, calls = counted(model)
    jacobian = ab.IntegratedGradients(ab.Classifier(forward, memory_limit=1), 4).linearize(x)
    calls.clear()
    jacobian.jacobian.matvec(x)
    assert calls == [1] * (len(x) * 4)


@pytest.mark.parametrize("fits", [1, 2, 3, 4, 9, 100])
@pytest.mark.parametrize("nodes", [1, 3, 40])
def test_parts_cover_every_point_once_and_fit(fits, nodes) -> None:
    model, x = cases.tabular()
    classifier = ab.Classifier(model)
    classifier.memory_limit = 2 * fits * classifier.graph_bytes(x)
    path = Path(x, x, torch.ones(nodes), torch.ones(nodes), torch.zeros(5, dtype=torch.long))
    covered = torch.zeros(5, nodes)
    for rows, chosen in hessian._parts(classifier, path):
        covered[rows, chosen] += 1
        assert covered[rows, chosen].numel() <= min(fits, hessian.POINTS_AT_ONCE["cpu"])
    assert (covered == 1).all()


def test_examples_that_leave_take_their_cost_with_them() -> None:
    model, x = cases.tabular()
    x = x.repeat(4, 1)  # 20 examples of 16 points: two to a block
    forward, calls = counted(model)
    classifier = ab.Classifier(forward, memory_limit=2**30)
    jacobian = ab.IntegratedGradients(classifier, 16).linearize(x).jacobian
    classifier.memory_limit = 1
    calls.clear()
    rest = jacobian.select(torch.tensor([0, 1, 18, 19]))
    rest.matvec(x[:4])
    assert calls == []
    assert len(rest.hessian.blocks) == 2


@pytest.mark.parametrize("limit", [1, 20_000, 2**30])
@pytest.mark.parametrize("network", ["tabular", "image", "sequence"])
def test_one_example_with_many_vectors_is_that_example(network, limit) -> None:
    """Dense Jacobians take many products at one point; a structured network shares the point."""
    model, x = cases.NETWORKS[network]()
    saliency = ab.IntegratedGradients(ab.Classifier(model, memory_limit=limit), 4)
    jacobian = saliency.linearize(x, 1).jacobian
    matrix = dense(jacobian, 1, at_once=9)
    columns = torch.eye(x[0].numel()).double()
    for j in (0, 5, len(columns) - 1):
        v = columns[j].view(1, *x.shape[1:]).expand_as(x)
        torch.testing.assert_close(matrix[:, j], jacobian.matvec(v)[1].flatten(), **laws.TIGHT)
    index = torch.tensor([2, 2, 2])
    for law in laws.OPERATOR_LAWS:
        law(jacobian.select(index))


def test_many_vectors_share_a_point_only_where_that_is_cheaper() -> None:
    model, x = cases.tabular()
    path = a_path(x)
    index = torch.tensor([1, 1, 1, 1])
    for structured, points in ((True, 1), (False, 4)):
        classifier = ab.Classifier(model, structured=structured)
        with torch.no_grad():
            (block,) = mean_gradient_and_hessian(classifier, path)[1].select(index).blocks
        assert len(block.operator) == 4
        assert len(block.operator._path.base) == points
    again = PathHessian(ab.Classifier(model), path[index[:1]], retain=False, times=5)
    for law in laws.OPERATOR_LAWS:
        law(again)
