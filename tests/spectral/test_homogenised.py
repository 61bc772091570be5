from __future__ import annotations

import pytest
import torch

import attribound as ab
import brute_force
import cases
import laws
from attribound.operators import DenseOperator
from attribound.spectral.homogenised import Homogenised, corner, homogenised

MATRIX = cases.random_operator(6, seed=4, batch=3, decay=0.3)
GENERATOR = torch.Generator().manual_seed(0)
LOW = -torch.rand(3, 6, generator=GENERATOR).double()
HIGH = torch.rand(3, 6, generator=GENERATOR).double()


@pytest.mark.parametrize("law", laws.OPERATOR_LAWS)
def test_obeys_every_law(law) -> None:
    law(homogenised(DenseOperator(MATRIX), LOW, HIGH))


def test_equals_the_matrix_with_a_column_more() -> None:
    half, centre = (HIGH - LOW) / 2, (HIGH + LOW) / 2
    whole = torch.zeros(3, 6, 7).double()
    whole[:, :, :6] = MATRIX * half.unsqueeze(1)
    whole[:, :, 6] = torch.einsum("bij,bj->bi", MATRIX, centre)
    operator = homogenised(DenseOperator(MATRIX), LOW, HIGH)
    laws.equals_dense(operator, whole)
    with pytest.raises(AssertionError):
        laws.equals_dense(Homogenised(DenseOperator(MATRIX), half, -centre), whole)


def test_signs_are_corners_of_the_box() -> None:
    operator = homogenised(DenseOperator(MATRIX), LOW, HIGH)
    seen = set()
    for signs in brute_force.corners(7):
        point = corner(signs.expand(3, 7), LOW, HIGH)
        image = torch.einsum("bij,bj->bi", MATRIX, point)
        product = operator.matvec(signs.expand(3, 7))
        torch.testing.assert_close(product, signs[6] * image)
        seen.add(tuple(point[0].tolist()))
    assert len(seen) == 64


def test_images_keep_their_shape() -> None:
    attribution, x = cases.quadratic([3.0, 2.0, 1.0, 0.5])
    jacobian = attribution.linearize(x).jacobian
    operator = homogenised(jacobian, -torch.ones_like(x), torch.ones_like(x))
    assert operator.domain.shape == (2, 5)
    assert operator.range.shape == x.shape
    assert operator.points == jacobian.points


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (LOW[:2], HIGH, "low: expected finite numbers of shape"),
        (LOW, HIGH[:, :3], "high: expected finite numbers of shape"),
        (LOW, HIGH / 0, "high: expected finite numbers .* finite: False"),
        (HIGH, LOW, "box: expected low at most high, got low above high by up to"),
    ],
)
def test_refuses_what_is_no_box(low, high, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        homogenised(DenseOperator(MATRIX), low, high)
