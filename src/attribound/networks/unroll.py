"""A module as affine stages and activations in turn, in float64; what is neither is refused.

What is unrolled computes what the module computes only if the classes are exactly the known
ones: a subclass with a forward of its own, a replaced method or a hook is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from attribound.basics.errors import ModelError
from attribound.models.normalisation import Normalise
from attribound.networks.affine import (
    Affine,
    Average,
    Convolution,
    Dense,
    Geometry,
    Pooling,
    Reshape,
    Scale,
    Stage,
)
from attribound.networks.plain import only_constructs, own_ways, replaced_in_torch, watched
from attribound.networks.replacements import Smoothing
from attribound.networks.smooth import SmoothCopy, made_by_smooth

Kind = TypeVar("Kind")

#: What may stand in a stage, for errors.
AFFINE = (
    "nested nn.Sequential of Linear, Conv2d, AvgPool2d, Flatten, BatchNorm1d/2d and Dropout in "
    "eval mode, Identity, Normalise"
)


@dataclass(frozen=True, eq=False)
class Activations(Generic[Kind]):
    """What may stand between affine stages, and how the rest is refused.

    Attributes:
        kinds: what a module of exactly this class is.
        supported: all modules that are known, for errors.
        remedy: what to do about others.
        smoothed: what a ReLU is that a smooth copy of that beta replaces when it runs.
    """

    kinds: Mapping[type[nn.Module], Callable[[Any], Kind]]
    supported: str
    remedy: str
    smoothed: Callable[[float], Kind] | None = None

    def refused(self, subject: str, got: str) -> ModelError:
        """The error that names what is not known."""
        return ModelError(subject, expected=self.supported, got=got, remedy=self.remedy)

    @staticmethod
    def in_the_way(subject: str, got: str) -> ModelError:
        """The error that names what changes what known modules compute."""
        return ModelError(
            subject,
            expected="modules and functions as PyTorch has them: proofs speak of these",
            got=got,
            remedy="remove what changes them, or use a bound that needs no proof",
        )


class UnusableError(Exception):
    """A supported module in a state that is not."""


def unrolled(
    model: object, shape: tuple[int, ...], known: Activations[Kind]
) -> tuple[tuple[Stage, ...], tuple[Kind, ...]]:
    """The stages of ``model`` and the activations between them, for examples of ``shape``.

    The weights are taken as the exact numbers they are, whatever their dtype.
    """
    if not isinstance(model, nn.Module):
        raise known.refused("the model", f"a {type(model).__name__}")
    if seen := watched():
        raise known.in_the_way("the process", seen)
    stages: list[Stage] = []
    activations: list[Kind] = []
    maps: list[Affine] = []
    shapes = [shape]
    with torch.no_grad():
        for name, module, smoothing in _leaves(model, "", None, known):
            affine, between = _translate(name, module, smoothing, shapes[-1], known)
            for part in affine:
                maps.append(part)
                shapes.append(tuple(_probe(name, part, shapes[-1])))
            for activation in between:
                stages.append(Stage(tuple(maps), tuple(shapes)))
                activations.append(activation)
                maps, shapes = [], shapes[-1:]
    stages.append(Stage(tuple(maps), tuple(shapes)))
    _check_output(shapes[-1])
    return tuple(stages), tuple(activations)


def _leaves(
    module: nn.Module, name: str, smoothing: Smoothing | None, known: Activations[Kind]
) -> Iterator[tuple[str, nn.Module, Smoothing | None]]:
    """The modules that compute, in order, with the smoothing that is active around them."""
    kind: type[nn.Module] = type(module)
    if isinstance(module, SmoothCopy) and made_by_smooth(kind):  # the forward of its kind
        smoothing, kind = module.smoothing, module.kind
    if own := own_ways(module) or replaced_in_torch(module):
        raise known.in_the_way(_title(name, module), f"{kind.__name__} {own}")
    if only_constructs(kind, nn.Sequential):
        for child_name, child in module._modules.items():  # one module may stand in two places
            assert child is not None
            below = f"{name}.{child_name}" if name else child_name
            yield from _leaves(child, below, smoothing, known)
    else:
        yield name, module, smoothing


def _title(name: str, module: nn.Module) -> str:
    return f"module {name!r}" if name else f"the model, {type(module).__name__},"


def _translate(
    name: str,
    module: nn.Module,
    smoothing: Smoothing | None,
    shape: tuple[int, ...],
    known: Activations[Kind],
) -> tuple[list[Affine], list[Kind]]:
    """What a module is, one or the other; neither for the identity."""
    kind = type(module)
    if smoothing is not None and kind in _INTERCEPTED:  # in place: replaced when it runs
        if known.smoothed is None or kind is not nn.ReLU:
            got = f"{kind.__name__} in a smooth copy"
            raise known.refused(_title(name, module), got)
        return [], [known.smoothed(smoothing.beta)]
    try:
        if kind in _TRANSLATIONS:
            affine = _TRANSLATIONS[kind](module, shape)
            return ([] if affine is None else [affine]), []
        if kind in known.kinds:
            return [], [known.kinds[kind](module)]
    except UnusableError as reason:
        raise known.refused(_title(name, module), f"{kind.__name__} {reason}") from None
    base = next((each for each in (*_TRANSLATIONS, *known.kinds) if issubclass(kind, each)), None)
    derived = f", a subclass of {base.__name__}" if base else ""
    raise known.refused(_title(name, module), f"{kind.__name__}{derived}")


def _exact(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float64)


def _dense(module: nn.Linear, shape: tuple[int, ...]) -> Affine:  # noqa: ARG001
    offset = 0.0 if module.bias is None else _exact(module.bias)
    return Dense(_exact(module.weight), offset)


def _convolution(module: nn.Conv2d, shape: tuple[int, ...]) -> Affine:
    if module.padding_mode != "zeros":
        raise UnusableError(f"with padding_mode={module.padding_mode!r}")
    if len(shape) != 3:
        raise UnusableError(f"on one example of shape {shape}")
    pad = tuple(module._reversed_padding_repeated_twice)
    geometry = Geometry(module.stride, pad, module.dilation, module.groups)
    offset = 0.0 if module.bias is None else _exact(module.bias).view(-1, 1, 1)
    return Convolution(_exact(module.weight), geometry, offset)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[-1])


def _average(module: nn.AvgPool2d, shape: tuple[int, ...]) -> Affine:
    if len(shape) != 3:
        raise UnusableError(f"on one example of shape {shape}")
    return Average(
        Pooling(
            _pair(module.kernel_size),
            _pair(module.stride),
            _pair(module.padding),
            module.ceil_mode,
            module.count_include_pad,
            module.divisor_override,
        )
    )


def _flatten(module: nn.Flatten, shape: tuple[int, ...]) -> Affine:
    if module.start_dim == 0:
        raise UnusableError("that mixes the examples (start_dim=0)")
    return Reshape(tuple(module(torch.empty(1, *shape, device="meta")).shape[1:]))


def _batch_norm(module: nn.BatchNorm1d | nn.BatchNorm2d, shape: tuple[int, ...]) -> Affine:
    if module.training or module.running_mean is None or module.running_var is None:
        raise UnusableError("that takes its statistics from the batch")
    mean, variance = _exact(module.running_mean), _exact(module.running_var)
    factor = 1 / (variance + module.eps).sqrt()
    offset, size = -mean * factor, (mean * factor).abs()
    if module.affine:
        weight = torch.ones_like(factor) if module.weight is None else _exact(module.weight)
        bias = torch.zeros_like(factor) if module.bias is None else _exact(module.bias)
        factor, offset, size = factor * weight, offset * weight + bias, size * weight.abs()
        size = size + bias.abs()
    per_channel = (-1, *[1] * (len(shape) - 1))
    return Scale(factor.view(per_channel), offset.view(per_channel), size.view(per_channel))


def _dropout(module: nn.Dropout, shape: tuple[int, ...]) -> None:  # noqa: ARG001
    if module.training:
        raise UnusableError("in train mode")


def _normalise(module: Normalise, shape: tuple[int, ...]) -> Affine:
    mean, std = _exact(module.mean), _exact(module.std)
    if len(mean) not in (1, shape[0]):
        raise UnusableError(f"of {len(mean)} channels on one example of shape {shape}")
    per_channel = (-1, *[1] * (len(shape) - 1))
    factor, offset = (1 / std).view(per_channel), (-mean / std).view(per_channel)
    return Scale(factor, offset, offset.abs())


#: What a smooth copy replaces when it runs.
_INTERCEPTED = (nn.ReLU, nn.LeakyReLU)
_TRANSLATIONS: dict[type[nn.Module], Callable[..., Affine | None]] = {
    nn.Linear: _dense,
    nn.Conv2d: _convolution,
    nn.AvgPool2d: _average,
    nn.Flatten: _flatten,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.Dropout: _dropout,
    nn.Dropout2d: _dropout,
    nn.Identity: lambda module, shape: None,  # noqa: ARG005
    Normalise: _normalise,
}


def _probe(name: str, part: Affine, shape: tuple[int, ...]) -> torch.Size:
    """The shape after a map."""
    try:
        return part.linear(torch.zeros(1, *shape, dtype=torch.float64)).shape[1:]
    except RuntimeError as error:
        raise ModelError(
            f"module {name!r}",
            expected=f"an input of the shape it gets, {shape} an example",
            got=str(error).splitlines()[0],
            remedy="check the shape of x",
        ) from error


def _check_output(shape: tuple[int, ...]) -> None:
    if len(shape) != 1:
        raise ModelError(
            "model output",
            expected="logits of shape (batch, classes)",
            got=f"{shape} an example",
            remedy="end the network with a flat layer",
        )
