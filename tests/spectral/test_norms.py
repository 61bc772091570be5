"""Solvers for norms, and the rounding in them."""

from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
import brute_force
import cases
import laws
from attribound.balls import unit_maximiser
from attribound.basics.tensors import norm
from attribound.operators import DenseOperator
from attribound.spectral.dual_certificate import dense_certificate, weights
from attribound.spectral.generalised_power import gaussians, generalised_power
from attribound.spectral.golub_kahan import GolubKahan
from attribound.spectral.homogenised import Homogenised, corner, homogenised
from attribound.spectral.rounding import Attained, ascend, attained, best_of, hyperplanes
from attribound.spectral.surrogate import Surrogate, nystroem, promising, refine
from attribound.spectral.upper_estimate import log_component

MATRIX_HOMOGENISED = cases.random_operator(6, seed=4, batch=3, decay=0.3)
GENERATOR = torch.Generator().manual_seed(0)
LOW = -torch.rand(3, 6, generator=GENERATOR).double()
HIGH = torch.rand(3, 6, generator=GENERATOR).double()


@pytest.mark.parametrize("law", laws.OPERATOR_LAWS)
def test_obeys_every_law(law) -> None:
    law(homogenised(DenseOperator(MATRIX_HOMOGENISED), LOW, HIGH))


def test_equals_the_matrix_with_a_column_more() -> None:
    half, centre = (HIGH - LOW) / 2, (HIGH + LOW) / 2
    whole = torch.zeros(3, 6, 7).double()
    whole[:, :, :6] = MATRIX_HOMOGENISED * half.unsqueeze(1)
    whole[:, :, 6] = torch.einsum("bij,bj->bi", MATRIX_HOMOGENISED, centre)
    operator = homogenised(DenseOperator(MATRIX_HOMOGENISED), LOW, HIGH)
    laws.equals_dense(operator, whole)
    with pytest.raises(AssertionError):
        laws.equals_dense(Homogenised(DenseOperator(MATRIX_HOMOGENISED), half, -centre), whole)


def test_signs_are_corners_of_the_box() -> None:
    operator = homogenised(DenseOperator(MATRIX_HOMOGENISED), LOW, HIGH)
    seen = set()
    for signs in brute_force.corners(7):
        point = corner(signs.expand(3, 7), LOW, HIGH)
        image = torch.einsum("bij,bj->bi", MATRIX_HOMOGENISED, point)
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
        (LOW, HIGH / (HIGH[1, 2] != HIGH), "high: expected finite numbers .* finite: False"),
        (HIGH, LOW, "box: expected low at most high, got low above high by up to"),
    ],
)
def test_refuses_what_is_no_box(low, high, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        homogenised(DenseOperator(MATRIX_HOMOGENISED), low, high)


MATRIX_ROUNDING = cases.random_operator(9, seed=1, batch=5, decay=0.4)
OPERATOR = DenseOperator(MATRIX_ROUNDING)


def consistent(found: Attained) -> None:
    """The value is what the point attains."""
    image = torch.einsum("bij,bj->bi", MATRIX_ROUNDING, found.point)
    torch.testing.assert_close(found.image, image)
    torch.testing.assert_close(found.value, norm(image))


def points(p, count=6):
    relaxed = generalised_power(OPERATOR, p, gaussians(4, 9, 0, 0), 10)
    return hyperplanes(relaxed.product, gaussians(count, 4, 0, 1), p)


@pytest.mark.parametrize("p", [2.5, 3.0, 8.0, math.inf])
def test_points_lie_on_the_ball_and_attain_their_value(p) -> None:
    found = best_of(OPERATOR, points(p))
    consistent(found)
    torch.testing.assert_close(norm(found.point, p), torch.ones(5).double())
    assert found.products == 6


def test_roundings_keep_two_over_pi_of_the_relaxation_on_average() -> None:
    relaxed = generalised_power(OPERATOR, math.inf, gaussians(4, 9, 0, 0), 200)
    many = hyperplanes(relaxed.product, gaussians(2000, 4, 0, 1), math.inf)
    mean = (torch.linalg.vector_norm(many @ MATRIX_ROUNDING.mT, dim=2) ** 2).mean(1)
    assert (mean >= 0.99 * 2 / math.pi * relaxed.value**2).all()
    # Signs that know nothing of the relaxation do not.
    blind = gaussians(2000, 9, 0, 1).sign()
    mean = (torch.linalg.vector_norm(blind @ MATRIX_ROUNDING.mT, dim=2) ** 2).mean(1)
    assert not (mean >= 0.99 * 2 / math.pi * relaxed.value**2).any()


@pytest.mark.parametrize("p", [2.5, 4.0, math.inf])
def test_ascent_never_falls_and_stays_on_the_ball(p) -> None:
    start = attained(OPERATOR, unit_maximiser(gaussians(5, 9, 2, 0), p))
    found = ascend(OPERATOR, start, p)
    consistent(found)
    assert (found.value >= start.value).all()
    assert (found.value > start.value * 1.01).any()
    torch.testing.assert_close(norm(found.point, p), torch.ones(5).double())
    assert found.products == 5


def test_the_best_of_all_corners_is_the_truth() -> None:
    every = brute_force.corners(9).expand(5, -1, -1)
    torch.testing.assert_close(best_of(OPERATOR, every).value, brute_force.cube(MATRIX_ROUNDING))


def test_the_better_is_taken_example_by_example() -> None:
    a = Attained(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([1.0, 4.0]), 3)
    b = Attained(torch.ones(2, 1), torch.ones(2, 1), torch.tensor([2.0, 3.0]), 2)
    both = a.or_better(b)
    assert both.value.tolist() == [2, 4]
    assert both.point.flatten().tolist() == both.image.flatten().tolist() == [1, 0]
    assert both.products == 5


MATRIX_SURROGATE = cases.random_operator(40, seed=2, batch=3, decay=0.7)
GRAM = MATRIX_SURROGATE.mT @ MATRIX_SURROGATE


def relaxed(p=math.inf, rank=5, iterations=3):
    return generalised_power(
        DenseOperator(MATRIX_SURROGATE), p, gaussians(rank, 40, 0, 0), iterations
    )


def below(half) -> None:
    """P - F^T F has no negative eigenvalue."""
    assert torch.linalg.eigvalsh(GRAM - half.mT @ half).min() > -1e-9


def test_equal_to_p_where_it_was_seen_and_never_above() -> None:
    seen = relaxed()
    surrogate = nystroem(seen.factors, seen.images)
    # To the share below which directions are left out as rounding.
    torch.testing.assert_close(surrogate.gram(seen.factors), seen.images, rtol=0.0, atol=3e-2)
    first = slice(0, 5)
    torch.testing.assert_close(
        surrogate.gram(seen.factors[:, first]), seen.images[:, first], rtol=0.0, atol=1e-2
    )
    below(surrogate.half)
    with pytest.raises(AssertionError):
        below(1.01 * surrogate.half)


def test_exact_when_the_rank_is_small() -> None:
    thin = torch.zeros_like(MATRIX_SURROGATE)
    thin[:, :4] = MATRIX_SURROGATE[:, :4]
    seen = generalised_power(DenseOperator(thin), math.inf, gaussians(6, 40, 0, 0), 2)
    surrogate = nystroem(seen.factors, seen.images)
    torch.testing.assert_close(surrogate.half.mT @ surrogate.half, thin.mT @ thin)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_the_surrogate_of_a_multiple_is_a_multiple(factor) -> None:
    """What counts as rounding is a share of the largest, whatever its size."""
    seen = relaxed()
    once = nystroem(seen.factors, seen.images).half
    torch.testing.assert_close(
        nystroem(seen.factors, factor * seen.images).half, factor**0.5 * once
    )


def test_zero_stays_zero() -> None:
    surrogate = nystroem(torch.ones(1, 3, 4), torch.zeros(1, 3, 4))
    assert surrogate.half.abs().max() == 0


@pytest.mark.parametrize("p", [3.0, math.inf])
def test_refining_tightens_the_certificate_without_products(p) -> None:
    seen = relaxed(p)
    surrogate = nystroem(seen.factors, seen.images)
    _, row_norms = refine(surrogate, seen, p)
    assert (row_norms >= seen.row_norms).all()
    operator = DenseOperator(MATRIX_SURROGATE)
    before = dense_certificate(operator, weights(seen.row_norms, p), p)
    after = dense_certificate(operator, weights(row_norms, p), p)
    assert after.mean() < before.mean()


def test_promising_points_are_local_optima_the_best_first() -> None:
    matrix = cases.random_operator(8, seed=0, batch=2, decay=0.3)
    surrogate = Surrogate(matrix)
    starts = gaussians(200, 8, 0, 0).sign().expand(2, -1, -1)
    found = promising(surrogate, starts, math.inf, 3)
    assert found.shape == (2, 3, 8)
    torch.testing.assert_close(surrogate.values(found)[:, 0], brute_force.cube(matrix))
    assert (surrogate.values(found).diff(dim=1) <= 0).all()


LOG_TAU = log_component(12, 1e-6)


def run(matrix, products):
    operator = DenseOperator(matrix)
    torch.manual_seed(0)
    start = torch.nn.functional.normalize(torch.randn(operator.domain.shape).double(), dim=1)
    process = GolubKahan(start, operator.range, products)
    for _ in range(products):
        process.expand(operator)
    return process


def test_all_singular_values_after_all_steps() -> None:
    matrix = cases.random_operator(9, seed=1, batch=3)
    torch.testing.assert_close(
        torch.linalg.svdvals(run(matrix, 18)._bidiagonal()), torch.linalg.svdvals(matrix)
    )


@pytest.mark.parametrize("products", [2, 3, 10, 11])
def test_residual_and_vectors_are_those_of_the_matrix(products) -> None:
    matrix = cases.random_operator(12, seed=2, batch=2)
    process = run(matrix, products)
    lower, _ = process.bracket(LOG_TAU)
    left, right = process.vectors()
    back = torch.einsum("bij,bi->bj", matrix, left) - lower.unsqueeze(1) * right
    forth = torch.einsum("bij,bj->bi", matrix, right) - lower.unsqueeze(1) * left
    gap = (back.norm(dim=1) ** 2 + forth.norm(dim=1) ** 2).sqrt()
    torch.testing.assert_close(gap, process.residual())
    torch.testing.assert_close(right.norm(dim=1), torch.ones(2).double())


@pytest.mark.parametrize("products", [8, 9])
def test_product_of_entries_is_the_norm_of_the_lanczos_polynomial(products) -> None:
    """The identity behind the upper estimate, on the dense matrix; halfway it starts from J v."""
    matrix = cases.random_operator(12, seed=3)[0]
    process = run(matrix.unsqueeze(0), products)
    theta = torch.linalg.svdvals(process._bidiagonal())[0] ** 2
    vector, gram = process._v.vectors[0, 0], matrix.T @ matrix
    if products % 2:
        vector, gram = matrix @ vector, matrix @ matrix.T
    for root in theta:
        vector = gram @ vector - root * vector
    entries = torch.stack([*process._alpha, *process._beta]).prod()
    torch.testing.assert_close(vector.norm(), entries)


def test_every_product_tightens_the_bracket() -> None:
    matrix = cases.random_operator(12, seed=4)
    truth = torch.linalg.svdvals(matrix)[0, 0].item()
    brackets = [run(matrix, n).bracket(LOG_TAU) for n in range(1, 20)]
    lowers, uppers = ([value.item() for value in side] for side in zip(*brackets, strict=True))
    assert lowers == pytest.approx(sorted(lowers), rel=1e-12)
    laws.never_below(torch.tensor(uppers), torch.tensor(truth))
    laws.never_below(torch.tensor(truth), torch.tensor(lowers))
    for parity in (0, 1):
        assert uppers[parity::2] == pytest.approx(sorted(uppers[parity::2])[::-1], rel=1e-12)


def test_after_one_product_only_its_norm_is_known() -> None:
    matrix = cases.random_operator(12, seed=5)
    process = run(matrix, 1)
    lower, upper = process.bracket(LOG_TAU)
    left, right = process.vectors()
    torch.testing.assert_close(matrix[0] @ right[0], lower * left[0])
    assert upper.item() > 1e6 * lower.item()
    assert process.residual().isinf().all()
