"""Attributions of the form displacement * mean gradient, and their Jacobian."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attribound.operators import LinearOperator


@dataclass(frozen=True, eq=False)
class ScaledGradientJacobian(LinearOperator):
    """``diag(mean gradient) + diag(displacement) @ Hessian``, per example.

    Both products cost one batch of Hessian-vector products; nothing is
    differentiated through the quadrature.
    """

    mean_gradient: Tensor
    displacement: Tensor
    hessian: LinearOperator  # symmetric

    def __post_init__(self) -> None:
        """A product costs what the Hessian's costs."""
        object.__setattr__(self, "points", self.hessian.points)

    @property
    def domain(self) -> Tensor:
        """The mean gradient."""
        return self.mean_gradient

    def matvec(self, v: Tensor) -> Tensor:
        """``J v``, per example."""
        return self.mean_gradient * v + self.displacement * self.hessian.matvec(v)

    def rmatvec(self, u: Tensor) -> Tensor:
        """``J^T u``, per example."""
        return self.mean_gradient * u + self.hessian.matvec(self.displacement * u)

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``."""
        return ScaledGradientJacobian(
            self.mean_gradient[index], self.displacement[index], self.hessian.select(index)
        )
