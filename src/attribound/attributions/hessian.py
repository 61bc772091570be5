"""Hessians of a logit, averaged over points of a path: the one derivative all Jacobians need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from attribound.networks.classifier import Classifier
from attribound.networks.path import Path
from attribound.operators import Block, BlockOperator, LinearOperator

#: Points evaluated together. A CPU gains nothing beyond this; an accelerator wants more.
POINTS_AT_ONCE = {"cpu": 40}
POINTS_AT_ONCE_ELSEWHERE = 1024
#: The same for vectors with which one point's Hessian is multiplied.
ROWS_AT_ONCE = {"cpu": 64}


def single_point(x: Tensor, target: Tensor) -> Path:
    """The path that is just ``x``."""
    one = x.new_ones(1)
    return Path(torch.zeros_like(x), x, one, one, target)


def mean_gradient(classifier: Classifier, path: Path, logits: list[Tensor] | None = None) -> Tensor:
    """Weighted mean of the gradients along the path, ``(batch, *features)``; no graph kept.

    The logits of all points, piece by piece, are added to ``logits``.
    """
    out = torch.zeros_like(path.base)
    for rows, nodes in _parts(classifier, path):
        part = path[rows].at(nodes)
        made = classifier.mean_gradient(part)
        if made is None:
            points, target = part.points()
            seen, gradient = classifier.logits_and_gradient(points.requires_grad_(), target)
            made = seen, part.average(gradient, part.weights)
        if logits is not None:
            logits.append(made[0])
        out[rows] += made[1]
    return out


def mean_gradient_and_hessian(classifier: Classifier, path: Path) -> tuple[Tensor, LinearOperator]:
    """The mean gradient, and the Hessian of what it is the gradient of, as an operator.

    The Hessian is the sum over the nodes of weight * node * Hessian at the point:
    the derivative of the mean gradient with respect to the end of the path. Its
    graph is built here, once, and serves every product.
    """
    total = len(path.base) * len(path.nodes) * classifier.graph_bytes(path.inputs)
    retain = total <= classifier.memory_limit
    blocks = _build(classifier, path, retain)(torch.arange(len(path.base)))
    gradient = torch.zeros_like(path.base)
    for block in blocks:
        assert isinstance(block.operator, PathHessian)
        gradient[block.places] += block.operator.mean_gradient
    operator = BlockOperator(
        path.base, path.base, blocks, _build(classifier, path, retain), True, len(path.nodes)
    )
    return gradient, operator


class PathHessian(LinearOperator):
    """The weighted Hessian of some examples at some nodes, by two derivatives of a logit.

    Args:
        retain: keep the graph between products, or build it anew for each.
        times: that of one example so many times, each with a vector of its own, on one graph.
    """

    symmetric = True

    def __init__(self, classifier: Classifier, path: Path, *, retain: bool, times: int = 1) -> None:
        self._classifier = classifier
        self._path = path
        self._retain = retain
        self._times = times
        self.points = len(path.nodes)
        self.mean_gradient, product = self._differentiate()
        self._product = product if retain else None

    def _differentiate(self) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The mean gradient, and weighted sums of products over the nodes."""
        path = self._path
        along = self._classifier.linearise_along(path)
        if along is not None:
            return along.gradient, along.product
        gradient, product = self._classifier.linearise(*path.points())
        weights, count = path.weights * path.nodes, len(path.nodes)

        def summed(v: Tensor) -> Tensor:
            return path.average(product(v.repeat_interleave(count, dim=0)), weights)

        return path.average(gradient, path.weights), summed

    @property
    def domain(self) -> Tensor:
        """The bases of the paths."""
        base = self._path.base
        return base if self._times == 1 else base.expand(self._times, *base.shape[1:])

    def matvec(self, v: Tensor) -> Tensor:
        """The Hessian times ``v``."""
        path = self._path
        product = self._product or self._differentiate()[1]
        at_once = len(v)
        if self._times > 1:
            rows = _affordable(self._classifier, path.inputs, ROWS_AT_ONCE)
            at_once = max(1, rows // len(path.nodes))
        parts = [product(some) for some in torch.split(v, at_once)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def rmatvec(self, u: Tensor) -> Tensor:
        """The same: the Hessian is symmetric."""
        return self.matvec(u)

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``, with a graph of its own."""
        if self._times > 1:
            return PathHessian(self._classifier, self._path, retain=self._retain, times=len(index))
        return PathHessian(self._classifier, self._path[index], retain=self._retain)


def _build(classifier: Classifier, path: Path, retain: bool) -> Callable[[Tensor], Sequence[Block]]:
    def build(index: Tensor) -> list[Block]:
        wanted = path[index.to(path.base.device)]
        every = torch.arange(len(index), device=path.base.device)
        again = len(index) > 1 and bool((index == index[0]).all())
        if again and classifier.is_structured(path.inputs):  # one example, many vectors
            one = wanted[:1]
            operators = [
                PathHessian(classifier, one.at(nodes), retain=retain, times=len(index))
                for _, nodes in _parts(classifier, one)
            ]
            return [Block(operator, every, every) for operator in operators]
        blocks = []
        for rows, nodes in _parts(classifier, wanted):
            operator = PathHessian(classifier, wanted[rows].at(nodes), retain=retain)
            blocks.append(Block(operator, every[: len(operator)], every[rows]))
        return blocks

    return build


def _parts(classifier: Classifier, path: Path) -> Iterator[tuple[slice, slice]]:
    """Cut the examples x nodes into pieces that fit: whole examples, or one example's nodes."""
    batch, nodes = len(path.base), len(path.nodes)
    most = _affordable(classifier, path.inputs, POINTS_AT_ONCE)
    if nodes <= most:
        step = most // nodes
        for start in range(0, batch, step):
            yield slice(start, min(start + step, batch)), slice(0, nodes)
    else:
        for row in range(batch):
            for start in range(0, nodes, most):
                yield slice(row, row + 1), slice(start, min(start + most, nodes))


def _affordable(classifier: Classifier, x: Tensor, at_once: dict[str, int]) -> int:
    """How many points are evaluated together."""
    most = at_once.get(x.device.type, POINTS_AT_ONCE_ELSEWHERE)
    # Products need about as much again as the graph they run on.
    return max(1, min(most, classifier.memory_limit // (2 * classifier.graph_bytes(x))))
