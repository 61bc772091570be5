from __future__ import annotations

import math

import torch

import cases
from attribound.attributions import Linearization
from attribound.bounding.sensitivity import FirstOrder, sensitivity
from attribound.operators import DenseOperator


def of(matrix, p, **settings):
    value = torch.ones(matrix.shape[:2]).double()
    return sensitivity(
        Linearization(value, DenseOperator(matrix), torch.zeros(1)), p, FirstOrder(**settings)
    )


def test_takes_the_smaller_of_theorem_2_and_corollary_1_and_says_which() -> None:
    """Theorem 2 is not always the tighter: random Gaussian matrices are a counterexample."""
    torch.manual_seed(0)
    gaussian, diagonal = torch.randn(40, 40).double(), torch.diag(torch.rand(40)).double()
    found = of(torch.stack([gaussian, diagonal]), math.inf)
    assert found.source == ("corollary 1", "theorem 2")
    both = torch.stack(
        [
            40**0.5 * found.spectral.value.upper,
            torch.stack([(m.T @ m).abs().sum().sqrt() for m in (gaussian, diagonal)]),
        ]
    )
    torch.testing.assert_close(found.value, both.amin(0))


def test_without_dense_matrices_only_corollary_1_is_left() -> None:
    found = of(cases.random_operator(10, seed=0), math.inf, dense=False)
    assert found.source == ("corollary 1",)
    assert found.products == found.spectral.products


def test_dense_products_are_counted() -> None:
    found = of(cases.random_operator(10, seed=0), math.inf)
    assert found.products == found.spectral.products + 10


def test_direction_has_norm_one() -> None:
    for p in (1, 1.5, 2, 3, math.inf):
        direction = of(cases.random_operator(6, seed=0, batch=3), p).direction
        torch.testing.assert_close(
            torch.linalg.vector_norm(direction, p, dim=1), torch.ones(3).double()
        )
