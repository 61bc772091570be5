"""Grad-CAM: the channels of a layer, weighted with the mean slope of the logit, summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from attribound.attributions.autograd import AutogradAttribution
from attribound.basics.errors import InputError
from attribound.networks.fast_derivatives import differentiate
from attribound.values import register

_SHOWN = 8  # names of layers in an error


@register("grad_cam")
@dataclass(frozen=True, eq=False)
class GradCAM(AutogradAttribution):
    """The sum of a layer's channels, each weighted with its mean slope of the target's logit.

    A map of the layer's size, ``(batch, 1, height, width)``, with its sign, as Captum's
    ``LayerGradCam`` gives it: neither cut off at zero nor enlarged to the input. Cut off at zero
    it moves no further in the Euclidean norm, so that bounds of it hold there, too; angles do not.

    Attributes:
        layer: the name of the layer in the model (``model.named_modules()``), e.g. ``layer4`` or
            ``features.8``; with one use a forward pass and one tensor as its output.
    """

    layer: str | int = ""

    def __post_init__(self) -> None:
        """A layer that is called by a number is a number, as it is read from a text."""
        super().__post_init__()
        if isinstance(self.layer, str) and self.layer.isdigit():
            object.__setattr__(self, "layer", int(self.layer))

    def map(self, x: Tensor, target: Tensor) -> Tensor:
        """``(batch, 1, *places)`` of the layer, with its graph."""
        seen: list[Any] = []

        def keep(_module: nn.Module, _given: Any, out: Any) -> Any:
            seen.append(out)
            # The network goes on with a copy: what follows may work in place.
            return out.clone() if isinstance(out, Tensor) else out

        handle = self._module().register_forward_hook(keep)
        try:
            logits = self.classifier.logits(x)
        finally:
            handle.remove()
        features = self._features(seen, len(x))
        score = logits.gather(1, target.unsqueeze(1)).sum()
        slope = differentiate(score, features, create_graph=True)
        places = tuple(range(2, features.dim()))
        weights = slope.mean(places, keepdim=True) if places else slope
        return (weights * features).sum(1, keepdim=True)

    def _module(self) -> nn.Module:
        network = self.classifier.model
        known: dict[str, nn.Module] = {}
        if isinstance(network, nn.Module):
            known = dict(network.named_modules())
        found = known.get(str(self.layer)) if self.layer != "" else None
        if found is None:
            names = [name for name in known if name]
            shown = ", ".join(names[-_SHOWN:]) or "none: it is a function"
            raise InputError(
                "layer",
                expected="the name of a layer of the model",
                got=repr(self.layer),
                remedy=f"use one of model.named_modules(); its last are {shown}",
            )
        return found

    def _features(self, seen: list[Any], batch: int) -> Tensor:
        """What the layer made, once in the pass, and for each example."""
        one = seen[0] if len(seen) == 1 else None
        if not isinstance(one, Tensor) or one.dim() < 2 or len(one) != batch:
            got = f"{len(seen)} uses of it"
            if len(seen) == 1:
                got = str(tuple(one.shape)) if isinstance(one, Tensor) else type(one).__name__
            raise InputError(
                f"layer {self.layer}",
                expected="one that is used once, with one tensor (batch, channels, ...) as output",
                got=got,
                remedy="choose another layer, e.g. the last convolution",
            )
        return one
