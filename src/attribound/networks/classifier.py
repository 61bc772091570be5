"""A user's classifier, checked once and evaluated without touching its parameters."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attribound.basics.errors import InputError, ModelError
from attribound.basics.tensors import dot
from attribound.networks.fast_derivatives import (
    FastDerivatives,
    Product,
    differentiate,
    second_derivative,
)
from attribound.networks.frozen import frozen, saved_bytes
from attribound.networks.inputs import Target, check_logits, check_targets, explained
from attribound.networks.kinks import Kink, find_ending, find_kinks, refuse_kinks
from attribound.networks.modes import check_ready, modules_of, refuse_autocast, refuse_compiled
from attribound.networks.path import Path
from attribound.networks.probe import probe_derivative, probe_determinism, probe_separation
from attribound.networks.structured import (
    LinearisedPath,
    Result,
    Stem,
    StructuredNetwork,
    Structures,
    Unchanged,
)

GIB = 2**30


class Classifier:
    """A model that maps ``(batch, *features)`` to logits ``(batch, classes)``.

    Attributions take a model or one of these; make one to change its settings.
    On first use with inputs of a new shape the model is probed: smooth,
    deterministic, examples separate, second derivatives there and right.

    Args:
        model: a module in eval mode, or a function.
        allow_kinks: let a network with kinks through; every result is then flagged.
        memory_limit: bytes of autograd graph to keep at once. Beyond it examples are
            bounded in groups, and beyond that graphs are rebuilt for every product.
        structured: differentiate modules of known pieces without autograd; the same, but faster.
    """

    def __init__(
        self,
        model: Callable[[Tensor], Tensor],
        *,
        allow_kinks: bool = False,
        memory_limit: int = GIB,
        structured: bool = True,
    ) -> None:
        if not callable(model):
            raise ModelError(
                "model",
                expected="a torch.nn.Module or a function of x",
                got=type(model).__name__,
                remedy="pass the model itself, not its weights or its output",
            )
        if not (isinstance(memory_limit, (int, float)) and memory_limit > 0):
            raise InputError(
                "memory_limit",
                expected="a number of bytes above 0",
                got=repr(memory_limit),
                remedy="use e.g. 2**30 for 1 GiB",
            )
        self.model = model
        self.allow_kinks = allow_kinks
        self.memory_limit = int(memory_limit)
        self.structured = structured
        self.kinks: tuple[Kink, ...] = ()
        self.ending = ""
        self._probed: set[object] = set()
        self._graph_bytes: dict[object, int] = {}
        self._classes: dict[object, int] = {}
        self._checked: Unchanged | None = None
        self._structures = Structures(model, self.logits, self._by_autograd)

    @classmethod
    def of(cls, model: Classifier | Callable[[Tensor], Tensor]) -> Classifier:
        """``model`` itself if it is one already."""
        return model if isinstance(model, Classifier) else cls(model)

    @property
    def kinked(self) -> bool:
        """Whether a network with kinks was let through."""
        return bool(self.kinks)

    def logits(self, x: Tensor) -> Tensor:
        """Logits ``(batch, classes)``, with no graph to the parameters."""
        # Fused attention has no second derivative; the plain one does.
        with frozen(self.model), sdpa_kernel(SDPBackend.MATH), explained(self.model, x):
            out = self.model(x.clone())  # a copy: the model may work in place
        if not isinstance(out, Tensor) or out.dim() != 2 or len(out) != len(x):
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ModelError(
                "model output",
                expected=f"logits of shape ({len(x)}, classes)",
                got=str(got),
                remedy="wrap the model so that it returns one row of logits per example",
            )
        return out

    def predict(self, x: Tensor) -> Tensor:
        """The predicted class of each example, unchecked: for inner loops."""
        with torch.no_grad():
            return self.logits(x).argmax(1)

    def targets(self, x: Tensor, target: Target = None) -> Tensor:
        """The label of each example: as given, else the predicted class."""
        self._ready()
        if target is not None:
            return check_targets(target, x, self._count(x))
        with torch.no_grad():
            return check_logits(self.logits(x)).argmax(1)

    def _count(self, x: Tensor) -> int:
        """How many classes there are, found once for inputs of a shape."""
        key = (x.shape[1:], x.dtype, x.device)
        if key not in self._classes:
            self._classes[key] = self.logits(x[:1].detach()).shape[1]
        return self._classes[key]

    def gradient(self, x: Tensor, target: Tensor, *, create_graph: bool = False) -> Tensor:
        """Gradient of the target's logit at each example; ``x`` must require gradients."""
        return self.logits_and_gradient(x, target, create_graph=create_graph)[1]

    def logits_and_gradient(
        self, x: Tensor, target: Tensor, *, create_graph: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The logits on the way to that gradient, too."""
        if not create_graph:
            made = self._structured(x, lambda network: network.gradient(x, target))
            if made is not None:
                check_logits(made[0])
                return made
        with torch.enable_grad():
            with FastDerivatives():
                logits = check_logits(self.logits(x))
            score = logits.gather(1, target.unsqueeze(1)).sum()
            return logits.detach(), differentiate(score, x, create_graph=create_graph)

    def loss_slope(self, points: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """A loss ``(batch,)`` of the logits at ``points``, and its gradient there."""
        made = self._structured(points, lambda network: network.loss_slope(points, loss))
        if made is not None:
            return made
        with torch.enable_grad():
            leaf = points.detach().requires_grad_()
            score = loss(self.logits(leaf))
            return score.detach(), differentiate(score.sum(), leaf)

    def linearise(self, points: Tensor, target: Tensor) -> tuple[Tensor, Product]:
        """Gradients of the targets' logits, and products with the Hessians, at ``points``.

        A product takes one vector for every point, or several: ``(blocks * points, *features)``.
        """
        made = self._structured(points, lambda network: network.linearise(points, target))
        if made is not None:
            check_logits(made.logits)
            return made.gradient, made.product
        return self._by_autograd(points, target)

    def mean_gradient(self, path: Path) -> tuple[Tensor, Tensor] | None:
        """Logits of all points, and the weighted sum of gradients along each path.

        None where that saves nothing over single points: the network does not begin with linear
        pieces that make less of an input than it was, or is left to autograd.
        """
        made = self._in_two(path, lambda stem: stem.gradient(path))
        if made is not None:
            check_logits(made[0])
        return made

    def linearise_along(self, path: Path) -> LinearisedPath | None:
        """The same sum with products of its derivative by the ends of the paths."""
        made = self._in_two(path, lambda stem: stem.linearise(path))
        if made is not None:
            check_logits(made.logits)
        return made

    def _in_two(self, path: Path, work: Callable[[Stem], Result]) -> Result | None:
        if not self.structured or len(path.nodes) < 2:
            return None
        return self._structures.use_stem(path.base, work)

    def is_structured(self, x: Tensor) -> bool:
        """Whether inputs like ``x`` are differentiated without autograd."""
        return self._structured(x, lambda _: True) or False

    def _by_autograd(self, points: Tensor, target: Tensor) -> tuple[Tensor, Product]:
        point = points.detach().requires_grad_()
        gradient = self.gradient(point, target, create_graph=True)
        return gradient.detach(), second_derivative(gradient, point)

    def _structured(self, x: Tensor, work: Callable[[StructuredNetwork], Result]) -> Result | None:
        return self._structures.use(x, work) if self.structured else None

    def check(self, x: Tensor, *, smooth: bool) -> None:
        """Refuse a model that cannot be used on ``x``; ``smooth`` asks for second derivatives."""
        self._ready()
        key = (x.shape[1:], x.dtype, x.device, smooth)
        if key in self._probed:
            return
        if smooth:
            refuse_compiled(self.model)
        one = x[:1]
        with torch.no_grad():
            check_logits(self.logits(x[:2]))
            probe_determinism("model", self.logits, one)
        probe_separation("model", self.logits, one)
        self.ending = find_ending(self.model, one)
        if smooth:
            self._check_smooth(one)
        if self._checked is not None:
            self._checked.but_for_running()
        self._probed.add(key)

    def _ready(self) -> None:
        """Refuse a state that answers wrongly; forget what was probed of modules that changed."""
        refuse_autocast()
        if self._checked is not None and self._checked():
            return
        check_ready(self.model)
        for known in (self._probed, self._graph_bytes, self._classes):
            known.clear()
        self._checked = Unchanged(modules_of(self.model))

    def graph_bytes(self, x: Tensor) -> int:
        """Bytes that products with the Hessian of one example keep, measured."""
        one = x[:1].detach().clone().requires_grad_()
        target = torch.zeros(1, dtype=torch.long, device=x.device)
        key = (x.shape[1:], x.dtype, x.device, self.is_structured(x))
        if key not in self._graph_bytes:
            made = self._structured(one, lambda network: network.linearise(one, target))
            if made is not None:
                self._graph_bytes[key] = made.held
            else:
                with saved_bytes(self.model) as held:
                    self.gradient(one, target, create_graph=True)
                self._graph_bytes[key] = sum(held.values()) + one.nbytes
        return self._graph_bytes[key]

    def _check_smooth(self, one: Tensor) -> None:
        if torch.finfo(one.dtype).bits < 32:
            raise ModelError(
                "model",
                expected="float32 or float64, in which second derivatives have digits",
                got=str(one.dtype),
                remedy="use model.float() and x.float()",
            )
        with sdpa_kernel(SDPBackend.MATH):
            kinks = find_kinks(self.model, one)
        if not self.allow_kinks:
            refuse_kinks(kinks)
        self.kinks = tuple(dict.fromkeys([*self.kinks, *kinks]))
        target = self.targets(one)
        point = one.detach().clone().requires_grad_()
        gradient = self.gradient(point, target, create_graph=True)
        product = second_derivative(gradient, point)
        if kinks:
            product(torch.zeros_like(one))  # there at all; across kinks no difference proves it
            return

        def score(x: Tensor) -> Tensor:
            with torch.no_grad():
                return self.logits(x).gather(1, target.unsqueeze(1))

        def slope(x: Tensor) -> Tensor:  # also where logits are not finite: that is found there
            with torch.enable_grad():
                near = x.detach().requires_grad_()
                return differentiate(self.logits(near).gather(1, target.unsqueeze(1)).sum(), near)

        # Along the gradient itself: a random direction would barely move the logit.
        probe_derivative("model", score, one, lambda v: dot(gradient, v).unsqueeze(1), gradient)
        probe_derivative("model", slope, one, product)
