"""A network that was traced: values, gradients and Hessian-vector products without autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.errors import ModelError
from attribound.networks.structured.layout import laid_out
from attribound.networks.structured.linear import LinearAt, LinearPiece
from attribound.networks.structured.pointwise import Pointwise, PointwiseAt


class UnstructuredError(Exception):
    """A network, or its input, that is left to autograd; never seen by a user."""


@dataclass(frozen=True, eq=False)
class Sum:
    """The sum of its two inputs, the second times ``factor``."""

    factor: float


@dataclass(frozen=True, eq=False)
class TracedStep:
    """A piece and the steps whose results it takes; step -1 is the input.

    Attributes:
        last: the inputs that nobody takes after it.
        alone: it alone takes its input.
    """

    piece: LinearPiece | Pointwise | Sum
    inputs: tuple[int, ...]
    last: tuple[int, ...]
    alone: bool


@dataclass(frozen=True, eq=False)
class StructuredNetwork:
    """Linear pieces and pointwise functions in the order in which they run.

    Attributes:
        steps: the last one makes the logits.
        unchanged: whether the modules are what they were when the network was traced.
        tensors: weights and buffers, whose numbers may change between uses.
        inner: behind the first pieces of a network: what it is given may be written over, and
            what it gives back is left as it lies in memory.
    """

    steps: Sequence[TracedStep]
    unchanged: Callable[[], bool]
    tensors: Sequence[Tensor]
    inner: bool = False

    def logits(self, x: Tensor) -> Tensor:
        """Logits ``(batch, classes)``."""
        return _run(self.steps, x, self.inner)[0]

    def gradient(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The logits, and the gradient of each target's, ``(batch, *features)``."""
        with torch.no_grad():
            logits, locals_ = _run(self.steps, x, self.inner)
            seed = _seed(logits, target)
            found = _gradient(self.steps, locals_, seed, x, keep=False)
            return logits, self._laid(found)

    def loss_slope(self, x: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """A loss ``(batch,)`` of the logits, and its gradient ``(batch, *features)``."""
        with torch.no_grad():
            logits, locals_ = _run(self.steps, x, self.inner)
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            score = loss(leaf)
            (seed,) = torch.autograd.grad(score.sum(), leaf)
        with torch.no_grad():
            return score.detach(), self._laid(_gradient(self.steps, locals_, seed, x, keep=False))

    def linearise(self, x: Tensor, target: Tensor) -> LinearisedGradient:
        """The same, with what its derivative along any number of vectors needs."""
        with torch.no_grad():
            logits, locals_ = _run(self.steps, x, self.inner)
            gradient = _gradient(self.steps, locals_, _seed(logits, target), x, keep=True)
        versions = [(tensor, _version(tensor)) for tensor in self.tensors]
        return LinearisedGradient(
            self.steps, locals_, logits, self._laid(gradient), versions, self.inner
        )

    def _laid(self, found: Tensor) -> Tensor:
        return found if self.inner else found.contiguous()


_Local = LinearAt | PointwiseAt | Sum


@dataclass(frozen=True, eq=False)
class LinearisedGradient:
    """Gradients at some points, and products with the Hessians there.

    A product is a tangent that runs forward and a gradient that runs back: each linear
    piece is applied once in each direction.

    Attributes:
        logits: at the points.
        gradient: of the targets' logits, ``(points, *features)``.
        versions: tensors of the network that must not be written to any more.
        inner: as that of the network.
    """

    steps: Sequence[TracedStep]
    locals: Sequence[_Local]
    logits: Tensor
    gradient: Tensor
    versions: Sequence[tuple[Tensor, int]]
    inner: bool = False

    @property
    def held(self) -> int:
        """Bytes kept for products, the points and gradients included."""
        kept = sum(local.held for local in self.locals if isinstance(local, PointwiseAt))
        return kept + 2 * self.gradient.nbytes

    def product(self, v: Tensor) -> Tensor:
        """The Hessian at each point times a row of ``v``.

        ``v`` may have several rows for each point: first one for every point, then the next
        ones, ``(blocks * points, *features)``.

        Raises:
            ModelError: the weights have changed since.
        """
        if any(_version(tensor) != before for tensor, before in self.versions):
            raise ModelError(
                "model",
                expected="the weights with which it was linearized",
                got="weights that were modified by an in-place operation since",
                remedy="linearize again after changing the model",
            )
        with torch.no_grad():
            if not any(isinstance(one, PointwiseAt) and one.curved for one in self.locals):
                return torch.zeros_like(v)
            found = _back(self.steps, self.locals, self._tangents(v), v)
            return found if self.inner else found.contiguous()

    def _tangents(self, v: Tensor) -> list[Tensor | None]:
        """The tangent at each pointwise function that its curvature wants."""
        tangents: dict[int, Tensor] = {-1: laid_out(v)}
        owned = {-1: self.inner}
        wanted: list[Tensor | None] = [None] * len(self.steps)
        for i, (step, local) in enumerate(zip(self.steps, self.locals, strict=True)):
            t = tangents[step.inputs[0]]
            if isinstance(local, PointwiseAt):
                mine = step.alone and owned[step.inputs[0]]
                tangents[i], wanted[i] = local.push(t, owned=mine)
                # What the curvature wants again must not be written over.
                owned[i] = wanted[i] is not tangents[i]
            elif isinstance(local, Sum):
                tangents[i] = torch.add(t, tangents[step.inputs[1]], alpha=local.factor)
                owned[i] = True
            else:
                tangents[i] = local.push(t)
                owned[i] = local.fresh
            for gone in step.last:
                del tangents[gone]
        return wanted


def _run(steps: Sequence[TracedStep], x: Tensor, owned: bool) -> tuple[Tensor, list[_Local]]:
    """The logits, and each piece at what it was given."""
    logits, locals_ = through(steps, x, owned=owned)
    if logits.dim() != 2 or len(logits) != len(x):
        raise UnstructuredError("no logits")
    return logits, locals_


def through(
    steps: Sequence[TracedStep], x: Tensor, *, owned: bool = False
) -> tuple[Tensor, list[_Local]]:
    """What the last step makes, and each piece at what it was given; ``x`` may be written over."""
    values: dict[int, Tensor] = {-1: laid_out(x)}
    mine_to_write = {-1: owned}
    locals_: list[_Local] = []
    with torch.no_grad():
        for i, step in enumerate(steps):
            z = values[step.inputs[0]]
            if isinstance(step.piece, Sum):
                other = values[step.inputs[1]]
                if z.shape != other.shape:
                    raise UnstructuredError("a sum of different shapes")
                values[i] = torch.add(z, other, alpha=step.piece.factor)
                mine_to_write[i] = True
                locals_.append(step.piece)
            elif isinstance(step.piece, Pointwise):
                mine = step.alone and mine_to_write[step.inputs[0]]
                values[i], at = step.piece.at(z, owned=mine)
                mine_to_write[i] = False  # slopes and curvatures may be made of it
                locals_.append(at)
            else:
                try:
                    values[i], local = step.piece.at(z)
                except (ValueError, RuntimeError) as error:
                    raise UnstructuredError(str(error)) from error
                mine_to_write[i] = local.fresh
                locals_.append(local)
            for gone in step.last:
                del values[gone]
    return values[len(steps) - 1], locals_


def _seed(logits: Tensor, target: Tensor) -> Tensor:
    return torch.zeros_like(logits).scatter_(1, target.unsqueeze(1), 1.0)


def _version(tensor: Tensor) -> int:
    """How often a tensor was written to; not counted for those of inference mode."""
    return 0 if tensor.is_inference() else tensor._version


class _Gradients:
    """What comes back to each step, added up where several took its result."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Tensor, bool]] = {}

    def give(self, step: int, g: Tensor, *, owned: bool) -> None:
        """Add ``g``; ``owned`` if nobody else holds it."""
        if step not in self._held:
            self._held[step] = g, owned
            return
        before, mine = self._held[step]
        if mine:
            before.add_(g)
        elif owned:
            self._held[step] = g.add_(before), True
        else:
            self._held[step] = before + g, True

    def take(self, step: int) -> tuple[Tensor | None, bool]:
        """What came, and whether it may be written over."""
        return self._held.pop(step, (None, False))


def _gradient(
    steps: Sequence[TracedStep], locals_: Sequence[_Local], seed: Tensor, x: Tensor, *, keep: bool
) -> Tensor:
    """From the logits back to ``x``."""
    gradients = _Gradients()
    gradients.give(len(steps) - 1, seed, owned=True)
    for i in reversed(range(len(steps))):
        g, owned = gradients.take(i)
        if g is None:
            continue
        local, inputs = locals_[i], steps[i].inputs
        if isinstance(local, PointwiseAt):
            # With nothing kept the slope is needed no more, and neither is its room.
            before = local.gradient(g, owned=owned, keep=keep)
            gradients.give(inputs[0], before, owned=True)
        else:
            _pull(gradients, local, inputs, g, owned)
    return _result(gradients, x)


def _back(
    steps: Sequence[TracedStep], locals_: Sequence[_Local], tangents: list[Tensor | None], v: Tensor
) -> Tensor:
    """The derivative of the gradient, from the last bend back to the input."""
    gradients = _Gradients()
    for i in reversed(range(len(steps))):
        g, owned = gradients.take(i)
        local, inputs = locals_[i], steps[i].inputs
        if isinstance(local, PointwiseAt):
            before = local.pull(g, tangents[i], owned=owned)
            tangents[i] = None
            if before is not None:
                gradients.give(inputs[0], before, owned=True)
        elif g is not None:
            _pull(gradients, local, inputs, g, owned)
    return _result(gradients, v)


def _pull(
    gradients: _Gradients, local: LinearAt | Sum, inputs: tuple[int, ...], g: Tensor, owned: bool
) -> None:
    if isinstance(local, Sum):
        gradients.give(inputs[0], g, owned=False)
        second = g if local.factor == 1 else g * local.factor
        gradients.give(inputs[1], second, owned=local.factor != 1)
    else:
        mine = owned if local.back is None else local.back
        gradients.give(inputs[0], local.pull(g), owned=mine)


def _result(gradients: _Gradients, like: Tensor) -> Tensor:
    """What came back to the input."""
    g, _ = gradients.take(-1)
    return torch.zeros_like(like) if g is None else g
