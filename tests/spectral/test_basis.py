from __future__ import annotations

import pytest
import torch

import attribound as ab
from attribound.spectral.basis import Basis


def test_stays_orthonormal_for_nearly_parallel_vectors() -> None:
    torch.manual_seed(0)
    start = torch.randn(3, 30).double()
    basis = Basis(start, capacity=20)
    for _ in range(20):
        basis.append(start + 1e-7 * torch.randn(3, 30).double())
    gram = basis.vectors @ basis.vectors.mT
    torch.testing.assert_close(gram, torch.eye(20).double().expand(3, -1, -1), atol=1e-12, rtol=0)


def test_a_vector_in_the_span_is_added_as_zero_or_noise() -> None:
    basis = Basis(torch.zeros(1, 3), capacity=3)
    basis.append(torch.tensor([[2.0, 0.0, 0.0]]))
    assert basis.append(torch.tensor([[5.0, 0.0, 0.0]])).item() == 0
    assert basis.last.tolist() == [[0, 0, 0]]


def test_combine_and_select() -> None:
    basis = Basis(torch.zeros(2, 4), capacity=3)
    for axis in range(3):
        basis.append(torch.eye(4)[axis].expand(2, 4))
    basis.select(torch.tensor([1]))
    assert basis.combine(torch.tensor([[1.0, 2.0]])).tolist() == [[1, 2, 0, 0]]


def test_refuses_derivatives_that_are_not_finite() -> None:
    basis = Basis(torch.zeros(1, 3), capacity=3)
    with pytest.raises(ab.ModelError, match="derivatives of the attribution: expected finite"):
        basis.append(torch.tensor([[1.0, float("nan"), 0.0]]))
