"""Attributions that autograd differentiates, trusted only after they were probed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attribound.attributions.base import Linearization, ModelAttribution
from attribound.basics.errors import ModelError
from attribound.networks.classifier import GIB, Classifier
from attribound.networks.fast_derivatives import differentiate
from attribound.networks.frozen import saved_bytes
from attribound.networks.kinks import JUMPING, find_kinks
from attribound.networks.probe import (
    probe_adjoint,
    probe_derivative,
    probe_determinism,
    probe_separation,
)
from attribound.operators import Block, BlockOperator, LinearOperator
from attribound.results import Status
from attribound.values import NO_SETTING

Function = Callable[[Tensor, Tensor], Tensor]
_Key = tuple[object, ...]


@dataclass(frozen=True, eq=False)  # compared by settings, those of subclasses included
class AutogradAttribution(ModelAttribution):
    """An attribution that writes ``map`` alone; its Jacobian is taken by autograd.

    ``map`` must keep its graph (``create_graph=True`` in any gradient it takes). On first
    use with inputs of a new shape it is probed: deterministic, examples separate,
    derivative equal to finite differences, both products adjoint.
    """

    _probed: set[_Key] = field(
        default_factory=set, init=False, repr=False, compare=False, metadata=NO_SETTING
    )
    _bytes: dict[_Key, int] = field(
        default_factory=dict, init=False, repr=False, compare=False, metadata=NO_SETTING
    )

    _jumping: dict[_Key, bool] = field(
        default_factory=dict, init=False, repr=False, compare=False, metadata=NO_SETTING
    )

    @abstractmethod
    def map(self, x: Tensor, target: Tensor) -> Tensor:
        """Scores ``(batch, *scores)`` of inputs ``(batch, *features)`` and labels ``(batch,)``."""

    @property
    def called(self) -> str:
        """What errors call it."""
        return f"attribution {self.name}"

    @property
    def _known(self) -> Classifier | None:
        """The model, for those that can do without."""
        return self.classifier

    def examples_at_once(self, x: Tensor) -> int:
        """How many examples can be linearized together within the memory limit."""
        key = (x.shape[1:], x.dtype, x.device)
        if key not in self._bytes:
            model = None if self._known is None else self._known.model
            target = torch.zeros(1, dtype=torch.long, device=x.device)
            with saved_bytes(model) as held:
                FunctionJacobian(self._traced, x[:1], target)
            self._bytes[key] = sum(held.values()) + x[:1].nbytes
        limit = GIB if self._known is None else self._known.memory_limit
        return max(1, limit // self._bytes[key])

    def check(self, x: Tensor, *, smooth: bool) -> None:
        """Refuse a map that cannot be used on ``x``; ``smooth`` asks for its Jacobian."""
        known = self._known
        if known is not None:
            known.check(x, smooth=smooth)
        key = (x.shape[1:], x.dtype, x.device, smooth)
        if key in self._probed:
            return
        one = x[:1]
        target = torch.zeros(1, dtype=torch.long, device=x.device)
        if known is not None:
            target = known.targets(one)
        subject = self.called

        def value(points: Tensor) -> Tensor:
            return self._traced(points, target.expand(len(points)))

        def plain(points: Tensor) -> Tensor:
            return value(points).detach()

        probe_determinism(subject, plain, one)
        probe_separation(subject, value, one)
        if smooth and not self.kinked:
            jacobian = FunctionJacobian(self._traced, one, target)
            probe_derivative(subject, plain, one, jacobian.matvec)
            probe_adjoint(subject, jacobian)
        self._probed.add(key)

    def _traced(self, x: Tensor, target: Tensor) -> Tensor:
        """The map of points that require gradients, checked."""
        # Fused attention has no second derivative; the plain one does.
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            points = x if x.requires_grad else x.detach().requires_grad_()
            try:
                out = self.map(points, target)
            except RuntimeError as error:
                raise ModelError(
                    self.called,
                    expected="a function that runs",
                    got=str(error).splitlines()[0],
                    remedy="mend it, or replace an operation that has no derivative",
                ) from error
        if not isinstance(out, Tensor) or out.dim() < 2 or len(out) != len(x):
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ModelError(
                self.called,
                expected=f"scores of shape ({len(x)}, ...), some for each example",
                got=str(got),
                remedy="return a batch of maps, e.g. one score per input feature",
            )
        return out

    def _value(self, x: Tensor, target: Tensor) -> Tensor:
        return self._traced(x, target)

    def _linearize(self, x: Tensor, target: Tensor) -> Linearization:
        def build(index: Tensor) -> Sequence[Block]:
            rows = torch.arange(len(index), device=x.device)
            operator = FunctionJacobian(self._traced, x[index], target[index])
            return [Block(operator, rows, rows)]

        blocks = build(torch.arange(len(x), device=x.device))
        (block,) = blocks
        assert isinstance(block.operator, FunctionJacobian)
        value = block.operator.value.detach()

        def reservations() -> dict[Status, Tensor]:
            jumps = self._may_jump(x[:1], target[:1])
            return {Status.MAY_JUMP: torch.full((len(x),), jumps, device=x.device)}

        operator = BlockOperator(x, value, blocks, build)
        return Linearization(value, operator, target, reservations)

    def _may_jump(self, one: Tensor, target: Tensor) -> bool:
        """Whether the map ranks, compares or rounds what depends on the input."""
        key = (one.shape[1:], one.dtype, one.device)
        if key not in self._jumping:
            found = find_kinks(lambda point: self._traced(point, target), one)
            self._jumping[key] = any(kink.operator in JUMPING for kink in found)
        return self._jumping[key]


class FunctionJacobian(LinearOperator):
    """The Jacobian of a function by autograd, on one retained graph.

    ``rmatvec`` is a backward pass. ``matvec`` is a backward pass through that one
    (it is linear in its argument, and its derivative there is J): no operation
    needs a forward-mode rule.
    """

    def __init__(self, fn: Function, x: Tensor, target: Tensor) -> None:
        self._fn, self._target = fn, target
        self._x = x.detach().clone().requires_grad_()
        with torch.enable_grad():
            self.value = fn(self._x, target)
            self._cotangent = torch.zeros_like(self.value, requires_grad=True)
            self._pullback: Tensor | None = None
            if self.value.requires_grad:
                self._pullback = differentiate(
                    self.value, self._x, self._cotangent, create_graph=True, constant=True
                )

    @property
    def domain(self) -> Tensor:
        """The point of linearisation."""
        return self._x.detach()

    @property
    def range(self) -> Tensor:
        """The map there."""
        return self.value.detach()

    def matvec(self, v: Tensor) -> Tensor:
        """``J v``, per example."""
        if self._pullback is None or not self._pullback.requires_grad:
            return torch.zeros_like(self.range)
        return differentiate(self._pullback, self._cotangent, v, retain_graph=True, constant=True)

    def rmatvec(self, u: Tensor) -> Tensor:
        """``J^T u``, per example."""
        if not self.value.requires_grad:
            return torch.zeros_like(self.domain)
        return differentiate(self.value, self._x, u, retain_graph=True, constant=True)

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``, with a graph of its own."""
        return FunctionJacobian(self._fn, self.domain[index], self._target[index])
