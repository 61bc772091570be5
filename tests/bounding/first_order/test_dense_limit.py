from __future__ import annotations

import pytest
import torch

import attribound as ab
import cases
from attribound.bounding.first_order.dense_limit import check_dense, fits, matrices
from attribound.operators import DenseOperator


def test_yields_the_matrices() -> None:
    matrix = cases.random_operator(70, seed=0, batch=2)
    torch.testing.assert_close(torch.stack([*matrices(DenseOperator(matrix))]), matrix)


def test_refuses_before_any_product_is_spent() -> None:
    attribution, x = cases.quadratic([1.0] * 30)
    calls = []
    attribution.classifier.model.register_forward_hook(lambda *_: calls.append(1))
    attribution.linearize(x)  # probes
    calls.clear()
    method = ab.FirstOrder(dense=True, dense_limit=100)
    with pytest.raises(ab.MemoryLimitError, match=r"30 features; pass .*dense=False"):
        ab.bound(attribution, x, ab.LinfBall(0.1), method=method)
    assert len(calls) <= 4  # targets twice, graph and its size, no products


def test_limit_counts_bytes() -> None:
    like = DenseOperator(torch.zeros(1, 10, 10))
    check_dense(like, 3 * 100 * 4)
    with pytest.raises(ab.MemoryLimitError, match="dense Jacobian: expected at most"):
        check_dense(like, 3 * 100 * 4 - 1)
    with pytest.raises(ab.MemoryLimitError):
        check_dense(DenseOperator(like.matrix.double()), 3 * 100 * 4)


def test_what_is_not_asked_for_is_left_out_instead() -> None:
    attribution, x = cases.quadratic([1.0] * 30)
    bound = ab.bound(attribution, x, ab.LinfBall(0.1), method=ab.FirstOrder(dense_limit=100))
    assert "theorem 2" not in bound.values
    jacobian = attribution.linearize(x).jacobian
    assert fits(jacobian, 3 * 30 * 30 * 8)
    assert not fits(jacobian, 3 * 30 * 30 * 8 - 1)
