"""Dense Jacobians, one example at a time, for the results that need them."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from attribound.basics.errors import MemoryLimitError
from attribound.operators import LinearOperator, dense

_POINTS = 64
_STRIPS = 3  # the matrix itself, and strips of products with it


def check_dense(jacobian: LinearOperator, memory_limit: int) -> None:
    """Refuse a dense Jacobian that would not fit."""
    size, needed = jacobian.domain[0].numel(), _needed(jacobian)
    if needed > memory_limit:
        raise MemoryLimitError(
            "dense Jacobian",
            expected=f"at most {memory_limit / 2**30:.3g} GiB",
            got=f"{needed / 2**30:.3g} GiB for {size} features",
            remedy="pass method=attribound.FirstOrder(dense=False) to do without, or raise "
            "FirstOrder(dense_limit=...)",
        )


def fits(jacobian: LinearOperator, memory_limit: int) -> bool:
    """Whether a dense Jacobian stays within the limit."""
    return _needed(jacobian) <= memory_limit


def _needed(jacobian: LinearOperator) -> int:
    size, height = jacobian.domain[0].numel(), jacobian.range[0].numel()
    # The matrix is as high as the map, its product with itself as wide as the input.
    return _STRIPS * size * max(size, height) * jacobian.domain.element_size()


def matrices(jacobian: LinearOperator) -> Iterator[Tensor]:
    """The dense Jacobian ``(scores, features)`` of each example."""
    size = jacobian.domain[0].numel()
    at_once = max(1, min(size, _POINTS // jacobian.points))
    for example in range(len(jacobian)):
        yield dense(jacobian, example, at_once)
