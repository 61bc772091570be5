"""Dense Jacobians, one example at a time, for the results that need them."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from attribound.basics.errors import MemoryLimitError
from attribound.operators import LinearOperator, dense

_POINTS = 64
_STRIPS = 3  # the matrix itself, and strips of products with it


def check_dense(like: Tensor, memory_limit: int) -> None:
    """Refuse a dense Jacobian for inputs like ``like`` that would not fit."""
    size, needed = like[0].numel(), _needed(like)
    if needed > memory_limit:
        raise MemoryLimitError(
            "dense Jacobian",
            expected=f"at most {memory_limit / 2**30:.3g} GiB",
            got=f"{needed / 2**30:.3g} GiB for {size} features",
            remedy="pass method=attribound.FirstOrder(dense=False) to do without, or raise "
            "FirstOrder(dense_limit=...)",
        )


def fits(like: Tensor, memory_limit: int) -> bool:
    """Whether a dense Jacobian for inputs like ``like`` stays within the limit."""
    return _needed(like) <= memory_limit


def _needed(like: Tensor) -> int:
    size = like[0].numel()
    return _STRIPS * size * size * like.element_size()


def matrices(jacobian: LinearOperator) -> Iterator[Tensor]:
    """The dense Jacobian ``(d, d)`` of each example."""
    size = jacobian.like[0].numel()
    at_once = max(1, min(size, _POINTS // jacobian.points))
    for example in range(len(jacobian.like)):
        yield dense(jacobian, example, at_once)
