"""Any differentiable function as an attribution, trusted only after it was probed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attribound.attributions.base import Attribution, Linearization, Model
from attribound.basics.errors import InputError, ModelError
from attribound.networks.classifier import GIB, Classifier, differentiate, saved_bytes
from attribound.networks.inputs import Target, check_targets
from attribound.networks.probe import (
    probe_adjoint,
    probe_derivative,
    probe_determinism,
    probe_separation,
)
from attribound.operators import Block, BlockOperator, LinearOperator

Function = Callable[[Tensor, Tensor], Tensor]


class FunctionAttribution(Attribution):
    """``fn(x, target)`` of the same shape as ``x``, differentiated by JVP and VJP.

    The function must keep its graph (``create_graph=True`` in any gradient it
    takes). On first use with inputs of a new shape it is probed: deterministic,
    examples separate, derivative equal to finite differences, both products adjoint.

    Args:
        fn: maps ``(batch, *features)`` and labels ``(batch,)`` to ``(batch, *features)``.
        model: the classifier behind it, if there is one: for the default target and
            the label constraint, and to look for kinks.
    """

    def __init__(self, fn: Function, model: Model | None = None) -> None:
        self.fn = fn
        self.classifier = None if model is None else Classifier.of(model)
        self._probed: set[object] = set()
        self._bytes: dict[object, int] = {}

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.fn, "__name__", type(self.fn).__name__)

    def targets(self, x: Tensor, target: Target = None) -> Tensor:
        """The label of each example: as given, else the predicted class."""
        if self.classifier is not None:
            return self.classifier.targets(x, target)
        if target is None:
            raise InputError(
                "target",
                expected="labels, because the function comes without a classifier",
                got="None",
                remedy="pass target=..., or FunctionAttribution(fn, model=...)",
            )
        return check_targets(target, x, None)

    def examples_at_once(self, x: Tensor) -> int:
        """How many examples can be linearized together within the memory limit."""
        key = (x.shape[1:], x.dtype, x.device)
        if key not in self._bytes:
            model = None if self.classifier is None else self.classifier.model
            target = torch.zeros(1, dtype=torch.long, device=x.device)
            with saved_bytes(model) as held:
                FunctionJacobian(self._traced, x[:1], target)
            self._bytes[key] = sum(held.values()) + x[:1].nbytes
        limit = GIB if self.classifier is None else self.classifier.memory_limit
        return max(1, limit // self._bytes[key])

    def check(self, x: Tensor, *, smooth: bool) -> None:
        """Refuse a function that cannot be used on ``x``; ``smooth`` asks for its Jacobian."""
        if self.classifier is not None:
            self.classifier.check(x, smooth=smooth)
        key = (x.shape[1:], x.dtype, x.device, smooth)
        if key in self._probed:
            return
        one = x[:1]
        target = torch.zeros(1, dtype=torch.long, device=x.device)
        if self.classifier is not None:
            target = self.classifier.targets(one)
        subject = f"attribution function {self.name}"

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
        """The function on points that require gradients, its output checked."""
        # Fused attention has no second derivative; the plain one does.
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            points = x if x.requires_grad else x.detach().requires_grad_()
            try:
                out = self.fn(points, target)
            except RuntimeError as error:
                raise ModelError(
                    f"attribution function {self.name}",
                    expected="a function that runs",
                    got=str(error).splitlines()[0],
                    remedy="mend it, or replace an operation that has no derivative",
                ) from error
        if not isinstance(out, Tensor) or out.shape != x.shape:
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ModelError(
                f"attribution function {self.name}",
                expected=f"scores of the input's shape {tuple(x.shape)}",
                got=str(got),
                remedy="return one score per input feature",
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
        return Linearization(value, BlockOperator(x, blocks, build), target)


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
    def like(self) -> Tensor:
        """The point of linearisation."""
        return self._x.detach()

    def matvec(self, v: Tensor) -> Tensor:
        """``J v``, per example."""
        if self._pullback is None or not self._pullback.requires_grad:
            return torch.zeros_like(v)
        return differentiate(self._pullback, self._cotangent, v, retain_graph=True, constant=True)

    def rmatvec(self, u: Tensor) -> Tensor:
        """``J^T u``, per example."""
        if not self.value.requires_grad:
            return torch.zeros_like(u)
        return differentiate(self.value, self._x, u, retain_graph=True, constant=True)

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``, with a graph of its own."""
        return FunctionJacobian(self._fn, self.like[index], self._target[index])
