from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace

import attribound as ab
from attribound.auditing.sources.traced import TracedNetwork, check_network
from attribound.networks.fingerprint import fingerprint


class Forward(nn.Module):
    def __init__(self, forward) -> None:
        super().__init__()
        self.forward = forward


class OnceDifferentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


@pytest.mark.parametrize("forward", [torch.sin, torch.relu, lambda x: 3 * x])
def test_rows_of_logits_are_fine(forward) -> None:
    check_network("net", Forward(forward), (2,), "do better")


@pytest.mark.parametrize(
    ("forward", "match"),
    [
        (lambda x: x.sum(1), r"net: expected logits .*got \(3,\) for 3 inputs.*; do better"),
        (lambda x: x[:3] + torch.zeros(3, 2), r"got \(3, 2\) for 3 inputs and \(3, 2\) for one"),
        (lambda x: x + torch.rand_like(x), "expected the same output for the same input"),
        (lambda x: x - x.mean(0), "examples that do not see each other"),
        (OnceDifferentiable.apply, r"differentiated twice, got RuntimeError: .*do better"),
        (lambda x: x.detach(), r"differentiated twice, got RuntimeError"),
        (lambda x: x.reshape(3, -1), "takes 1 and 3 inputs of shape"),
        (lambda x: (x, x), "AttributeError"),
    ],
)
def test_what_cannot_be_bounded_is_refused(forward, match) -> None:
    with pytest.raises(ab.ModelError, match=match):
        check_network("net", Forward(forward), (2,), "do better")


def test_nothing_is_measured_where_sizes_are_free() -> None:
    check_network("net", Forward(torch.rand_like), (2, None), "")


def test_parameters_are_left_trainable() -> None:
    model = nn.Linear(2, 2)
    check_network("net", model, (2,), "")
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_the_program_is_the_graph() -> None:
    first, second = (
        TracedNetwork(symbolic_trace(forward))
        for forward in (lambda x: x.tanh(), lambda x: x.sigmoid())
    )
    assert torch.equal(first(torch.ones(1, 2)), torch.tanh(torch.ones(1, 2)))
    assert repr(first) == repr(second)
    assert first.program != second.program
    assert fingerprint("m", first) != fingerprint("m", second)
