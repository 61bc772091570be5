from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import attribound as ab
import cases
import laws

X = torch.rand(4, 5, generator=torch.Generator().manual_seed(0)).double() + 0.1


def running(x: Tensor, target: Tensor) -> Tensor:
    """Not symmetric: J[i, j] = x_i for j < i, the sum so far + x_i on the diagonal."""
    return x * x.cumsum(1)


def refused(fn, match: str, x: Tensor = X) -> None:
    with pytest.raises(ab.ModelError, match=match):
        ab.FunctionAttribution(fn).linearize(x, 0)


@pytest.mark.parametrize("network", cases.NETWORKS)
def test_a_gradient_written_by_hand(network) -> None:
    model, x = cases.NETWORKS[network]()

    def squared(x: Tensor, target: Tensor) -> Tensor:
        return cases.gradient(model, x, target) ** 2

    linear = ab.FunctionAttribution(squared, model).linearize(x)
    target = model(x).argmax(1)
    assert torch.equal(linear.target, target)
    with sdpa_kernel(SDPBackend.MATH):
        torch.testing.assert_close(linear.value, squared(x, target).detach(), **laws.TIGHT)
        jacobian = cases.dense_jacobian(lambda p: squared(p, target), x)
    laws.equals_dense(linear.jacobian, jacobian)
    for law in laws.OPERATOR_LAWS:
        law(linear.jacobian)


def test_closed_form() -> None:
    linear = ab.FunctionAttribution(running).linearize(X, 0)
    total = X.cumsum(1)
    rows = torch.diag_embed(total) + X.unsqueeze(-1) * torch.ones(5, 5).double().tril()
    torch.testing.assert_close(linear.value, X * total)
    laws.equals_dense(linear.jacobian, rows)
    assert not linear.jacobian.symmetric


def test_equals_our_own_integrated_gradients() -> None:
    model, x = cases.tabular()
    nodes, weights = [0.5, 1.0], [0.5, 0.5]
    slow = ab.FunctionAttribution(
        lambda p, t: cases.integrated_gradients(model, p, t, nodes, weights), model
    ).linearize(x)
    ours = ab.IntegratedGradients(model, 2).linearize(x)
    torch.testing.assert_close(slow.value, ours.value, **laws.TIGHT)
    torch.testing.assert_close(slow.jacobian.matvec(x), ours.jacobian.matvec(x), **laws.TIGHT)
    torch.testing.assert_close(slow.jacobian.rmatvec(x), ours.jacobian.rmatvec(x), **laws.TIGHT)


@pytest.mark.parametrize("constant", [torch.ones_like, lambda x: 0 * x + 2, torch.zeros_like])
def test_a_constant_function_has_a_zero_jacobian(constant) -> None:
    linear = ab.FunctionAttribution(lambda x, target: constant(x)).linearize(X, 0)
    assert torch.equal(linear.value, constant(X))
    for product in (linear.jacobian.matvec, linear.jacobian.rmatvec):
        assert torch.equal(product(X), torch.zeros_like(X))


def test_a_linear_function_has_a_constant_jacobian() -> None:
    matrix = cases.random_operator(5, seed=0)
    linear = ab.FunctionAttribution(lambda x, target: x @ matrix[0].T).linearize(X, 0)
    laws.equals_dense(linear.jacobian, matrix.expand(4, 5, 5))


def test_a_gradient_without_its_graph_is_refused() -> None:
    model, x = cases.tabular()

    def detached(x: Tensor, target: Tensor) -> Tensor:
        return torch.autograd.grad(model(x)[:, 0].sum(), x)[0]

    refused(detached, "function detached: .* agree with finite differences", x)
    refused(lambda x, t: x * detached(x, t), "agree with finite differences", x)
    refused(lambda x, t: cases.gradient(model, x, t).detach(), "agree with finite differences", x)


class WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


def test_a_wrong_backward_is_refused() -> None:
    refused(lambda x, t: WrongBackward.apply(x), "agree with finite differences")


class NotLinearInItsCotangent(torch.autograd.Function):
    """x², whose backward is off by ``value`` or, once differentiated, by ``slope``."""

    @staticmethod
    def forward(ctx, x, value, slope):
        ctx.save_for_backward(x)
        ctx.off = value, slope
        return x**2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        value, slope = ctx.off
        wrong = value * grad.detach() + slope * (grad - grad.detach())
        return x * (2 * grad + wrong), None, None


@pytest.mark.parametrize(
    ("value", "slope", "match"),
    [(0, 1, "agree with finite differences"), (1, 0, "derivatives that are adjoint")],
)
def test_a_backward_that_is_right_only_once_or_only_twice_is_refused(value, slope, match) -> None:
    refused(lambda x, t: NotLinearInItsCotangent.apply(x, value, slope), match)


def test_an_operation_without_a_second_derivative_is_refused() -> None:
    def attention(x: Tensor, target: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(x, x, x)

    refused(
        attention,
        "differentiated twice, got derivative for aten::_scaled_dot",
        torch.rand(2, 1, 4, 8),
    )


def test_noise_is_refused() -> None:
    refused(lambda x, t: x + 0.1 * torch.rand_like(x), "same output for the same input")


@pytest.mark.parametrize(
    "fn",
    [lambda x, t: x - x.mean(0), lambda x, t: x - x.detach().mean(0), lambda x, t: x / x.norm()],
)
def test_a_function_that_couples_examples_is_refused(fn) -> None:
    refused(fn, "examples that do not see each other")


@pytest.mark.parametrize(
    ("fn", "got"),
    [
        (lambda x, t: x[:, 0], r"\(1,\)"),
        (lambda x, t: torch.cat([x, x]), r"\(2, 5\)"),
        (lambda x, t: x.sum(), r"\(\)"),
        (lambda x, t: (x,), "tuple"),
        (lambda x, t: [1.0], "list"),
        (lambda x, t: None, "NoneType"),
    ],
)
def test_an_output_that_is_no_batch_of_maps_is_refused(fn, got) -> None:
    refused(fn, rf"scores of shape \(1, \.\.\.\), some for each example, got {got}")


def test_a_missing_target_without_a_model_is_refused() -> None:
    with pytest.raises(ab.InputError, match=r"target: .*without a classifier, got None"):
        ab.FunctionAttribution(running)(X)


def test_labels_reach_the_function() -> None:
    scale = ab.FunctionAttribution(lambda x, target: x * target.unsqueeze(1))
    target = torch.tensor([3, 1, 0, 2])
    torch.testing.assert_close(scale(X, target), X * target.unsqueeze(1))
    laws.equals_dense(
        scale.linearize(X, target).jacobian, torch.eye(5).double() * target.view(-1, 1, 1)
    )


def test_the_model_is_checked_too() -> None:
    relu = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.ReLU()).double()
    attribution = ab.FunctionAttribution(running, relu)
    with pytest.raises(ab.KinkError, match="relu"):
        attribution.linearize(X)
    with pytest.raises(ab.InputError, match="labels from 0 to 2"):
        attribution(X, 3)
    rough = ab.FunctionAttribution(running, ab.Classifier(relu, allow_kinks=True))
    rough.linearize(X)
    assert rough.kinked
    assert not ab.FunctionAttribution(running).kinked


def test_is_probed_once_per_shape() -> None:
    calls = []

    def counted(x: Tensor, target: Tensor) -> Tensor:
        calls.append(len(x))
        return running(x, target)

    attribution = ab.FunctionAttribution(counted)
    attribution.linearize(X, 0)
    calls.clear()
    attribution.linearize(X, 0)
    assert calls == [4]
    attribution.linearize(X[:, 1:], 0)
    assert len(calls) > 2


def test_name_is_that_of_the_function() -> None:
    assert ab.FunctionAttribution(running).name == "running"


def test_examples_at_once_without_a_model_fill_a_gibibyte() -> None:
    attribution = ab.FunctionAttribution(running)
    count = attribution.examples_at_once(X)
    assert 2**30 // 10_000 < count <= 2**30 // X[0].nbytes
    assert attribution.examples_at_once(torch.rand(1, 500).double()) < count / 50


def test_an_error_inside_the_function_is_reported_with_its_name() -> None:
    def broken(x: Tensor, target: Tensor) -> Tensor:
        return x @ torch.ones(99, 3)

    refused(broken, "attribution function broken: expected a function that runs, got .*shapes")


def test_a_function_without_autograd_has_values_but_no_jacobian() -> None:
    """With NumPy inside it can't be differentiated; a zero Jacobian would be a lie."""

    def squares(x: Tensor, target: Tensor) -> np.ndarray:
        return x.numpy() ** 2

    for fn in (squares, lambda x, t: torch.from_numpy(squares(x, t))):
        explained = ab.FunctionAttribution(fn)
        torch.testing.assert_close(explained(X, 0), X**2)
        refused(fn, "agree with finite differences")


def gradients(x: Tensor, target: Tensor) -> Tensor:
    net = cases.tabular()[0]
    z = x if x.requires_grad else x.detach().requires_grad_()
    logit = net(z).gather(1, target[:, None]).sum()
    return torch.autograd.grad(logit, z, create_graph=True)[0]


def top_two(x: Tensor, target: Tensor) -> Tensor:
    found = gradients(x, target)
    return found * (found.abs() >= found.abs().topk(2, 1).values[:, -1:])


def ranked(x: Tensor, target: Tensor) -> Tensor:
    return gradients(x, target).sort(1).values


def signs(x: Tensor, target: Tensor) -> Tensor:
    found = gradients(x, target)
    return found.sign() * found


def of_the_largest(x: Tensor, target: Tensor) -> Tensor:
    """Continuous, if not smooth."""
    found = gradients(x, target)
    return found / found.abs().amax(1, keepdim=True)


@pytest.mark.parametrize("claim", ["first_order", "mean_value"])
@pytest.mark.parametrize("fn", [top_two, ranked, signs, gradients, of_the_largest])
def test_maps_that_may_jump_say_so(fn, claim: str) -> None:
    """A mask of the largest scores has the right derivative everywhere but where it jumps."""
    x = cases.tabular()[1][:2]
    bound = ab.bound(
        ab.FunctionAttribution(fn), x, ab.L2Ball(0.01), torch.tensor([0, 1]), claim=claim
    )
    jumps = fn in (top_two, ranked, signs)
    assert [ab.Status.MAY_JUMP in each for each in bound.status] == [jumps, jumps]
    assert ("may-jump" in repr(bound)) == jumps
