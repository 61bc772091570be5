"""Laws that every operator, bound and attack obeys; test_laws.py shows that each can fail."""

from __future__ import annotations

import torch
from torch import Tensor

import attribound as ab
from attribound.basics.tensors import dot, norm
from attribound.operators import LinearOperator

TIGHT = {"rtol": 1e-8, "atol": 1e-10}


def _pair(operator: LinearOperator) -> tuple[Tensor, Tensor]:
    """Something that J acts on, and something that its transpose acts on."""
    generator = torch.Generator().manual_seed(3)
    return tuple(  # type: ignore[return-value]
        torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)
        for like in (operator.domain, operator.range)
    )


def adjoint(operator: LinearOperator) -> None:
    """<Jv, u> = <v, Jᵀu>."""
    v, u = _pair(operator)
    torch.testing.assert_close(
        dot(operator.matvec(v), u), dot(v, operator.rmatvec(u)), rtol=1e-9, atol=1e-10
    )


def linear(operator: LinearOperator) -> None:
    """J(2v - 3u) = 2Jv - 3Ju, and the same for the transpose."""
    products = operator.matvec, operator.rmatvec
    for product, a in zip(products, _pair(operator), strict=True):
        b = a.flip(0).flip(-1)
        torch.testing.assert_close(product(2 * a - 3 * b), 2 * product(a) - 3 * product(b), **TIGHT)


def shaped(operator: LinearOperator) -> None:
    """J makes what is like its range, the transpose what is like its domain."""
    v, u = _pair(operator)
    for made, like in [
        (operator.matvec(v), operator.range),
        (operator.rmatvec(u), operator.domain),
    ]:
        assert (made.shape, made.dtype) == (like.shape, like.dtype)
    assert len(operator) == len(operator.domain) == len(operator.range)


def equals_dense(operator: LinearOperator, matrix: Tensor) -> None:
    """Both products are those of ``matrix`` (batch, m, n), to 1e-8."""
    v, u = _pair(operator)
    forward = torch.einsum("bij,bj->bi", matrix, v.flatten(1))
    backward = torch.einsum("bij,bi->bj", matrix, u.flatten(1))
    torch.testing.assert_close(operator.matvec(v).flatten(1), forward, **TIGHT)
    torch.testing.assert_close(operator.rmatvec(u).flatten(1), backward, **TIGHT)


def symmetric_if_claimed(operator: LinearOperator) -> None:
    """An operator that calls itself symmetric is."""
    v, _ = _pair(operator)
    if operator.symmetric:
        torch.testing.assert_close(operator.matvec(v), operator.rmatvec(v), **TIGHT)


def selects(operator: LinearOperator) -> None:
    """Taking examples commutes with taking products, for subsets, orders and repeats."""
    v, u = _pair(operator)
    last = len(operator) - 1
    for rows in ([last], [last, 0], [0, 0, last], list(range(last + 1))):
        index = torch.tensor(rows)
        chosen = operator.select(index)
        torch.testing.assert_close(chosen.matvec(v[index]), operator.matvec(v)[index], **TIGHT)
        torch.testing.assert_close(chosen.rmatvec(u[index]), operator.rmatvec(u)[index], **TIGHT)


def never_below(upper: Tensor, truth: Tensor) -> None:
    """An upper value is one."""
    assert (upper >= truth * (1 - 1e-12)).all(), f"{upper} below {truth}"


def inside(delta: Tensor, ball: ab.LpBall) -> None:
    """A perturbation lies in its ball, to 1e-6."""
    assert (norm(delta, ball.p) <= ball.epsilon * (1 + 1e-6)).all()


def inside_exactly(delta: Tensor, x: Tensor, ball: ab.LpBall) -> None:
    """A perturbation and what ``x + delta`` adds to ``x`` lie in ball and range, without ifs."""
    scale = ball.scaling(x)
    units = torch.ones_like(x) if scale is None else scale
    for moved in (delta.double(), (x + delta).double() - x.double()):
        assert (moved[units == 0] == 0).all()
        plain = torch.where(units > 0, moved / units.double().clamp_min(1e-300), 0.0)
        # Differences of float64 are themselves rounded.
        room = 0 if x.dtype != torch.float64 else 1e-14 + 1e-15 * x.abs().max() / ball.epsilon
        assert (norm(plain, ball.p) <= ball.epsilon * (1 + room)).all()
    low, high = (torch.as_tensor(end).to(x) for end in ball._range)
    assert ((x + delta >= torch.minimum(low, x)) & (x + delta <= torch.maximum(high, x))).all()


def attack_below(found: ab.Attacked, bound: ab.Bound) -> None:
    """An attack stays below a bound that holds."""
    assert (found.deviation <= bound.euclidean * (1 + 1e-9)).all()
    assert (found.degrees <= bound.degrees + 1e-6).all()


OPERATOR_LAWS = (adjoint, linear, shaped, symmetric_if_claimed, selects)
