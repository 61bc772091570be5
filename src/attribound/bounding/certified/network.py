"""A module as affine stages and activations in turn, in float64; what is neither is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attribound.basics.errors import ModelError
from attribound.bounding.certified.activation import SmoothActivation
from attribound.bounding.certified.affine import (
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
from attribound.bounding.certified.rounding import LONGEST
from attribound.networks.plain import global_hooks, only_constructs, own_ways
from attribound.networks.replacements import Smoothing
from attribound.networks.smooth import Smoothed, SoftReLU

SUPPORTED = (
    "nested nn.Sequential of Linear, Conv2d, AvgPool2d, Flatten, BatchNorm1d/2d and Dropout in "
    "eval mode, Identity, Softplus, Tanh and Sigmoid"
)


@dataclass(frozen=True, eq=False)
class Network:
    """``stages[0], activations[0], stages[1], ..., stages[-1]``: logits of one example."""

    stages: tuple[Stage, ...]
    activations: tuple[SmoothActivation, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons of every activation."""
        return tuple(stage.sizes[-1] for stage in self.stages[:-1])

    def logits(self, x: Tensor) -> Tensor:
        """Of a float64 batch, with softplus linear above its threshold: as the module has them."""
        for stage, activation in zip(self.stages[:-1], self.activations, strict=True):
            z = stage.value(x)
            linear = activation.rate * z > activation.threshold
            x = torch.where(linear, z, activation.derivative(0, z))
        return self.stages[-1].value(x)


def unroll(model: object, shape: tuple[int, ...]) -> Network:
    """The network behind ``model`` for inputs of one example of ``shape``.

    The weights are taken as the exact numbers they are, whatever their dtype. Only the exact
    classes of PyTorch are known, without methods of an instance's own and without hooks.
    """
    if not isinstance(model, nn.Module):
        raise _refused("the model", f"a {type(model).__name__}")
    if global_hooks():
        raise _refused("the process", "hooks that are registered for every module")
    stages: list[Stage] = []
    activations: list[SmoothActivation] = []
    maps: list[Affine] = []
    shapes = [shape]
    with torch.no_grad():
        for name, module, smoothing in _leaves(model, "", None):
            part = _translate(name, module, smoothing, shapes[-1])
            if isinstance(part, Affine):
                maps.append(part)
                shapes.append(tuple(_probe(name, part, shapes[-1])))
            elif part is not None:
                stages.append(Stage(tuple(maps), tuple(shapes)))
                activations.append(part)
                maps, shapes = [], shapes[-1:]
    stages.append(Stage(tuple(maps), tuple(shapes)))
    _check_output(shapes[-1])
    _check_length(stages)
    return Network(tuple(stages), tuple(activations))


def _leaves(
    module: nn.Module, name: str, smoothing: Smoothing | None
) -> Iterator[tuple[str, nn.Module, Smoothing | None]]:
    """The modules that compute, in order, with the smoothing that is active around them."""
    kind: type[nn.Module] = type(module)
    if isinstance(module, Smoothed):  # attribound.smooth: the forward of its kind, intercepted
        smoothing, kind = module.smoothing, module.kind
    if own := own_ways(module):
        raise _refused(_title(name, module), f"{kind.__name__} {own}")
    if only_constructs(kind, nn.Sequential):
        for child_name, child in module._modules.items():  # one module may stand in two places
            assert child is not None
            yield from _leaves(child, f"{name}.{child_name}" if name else child_name, smoothing)
    else:
        yield name, module, smoothing


def _title(name: str, module: nn.Module) -> str:
    return f"module {name!r}" if name else f"the model, {type(module).__name__},"


def _refused(subject: str, got: str) -> ModelError:
    return ModelError(
        subject,
        expected=SUPPORTED,
        got=got,
        remedy="certify such a network, or use another bound",
    )


def _translate(
    name: str, module: nn.Module, smoothing: Smoothing | None, shape: tuple[int, ...]
) -> Affine | SmoothActivation | None:
    """What a module is; None for the identity."""
    kind = nn.Softplus if type(module) is SoftReLU else type(module)
    translate = _TRANSLATIONS.get(kind)
    if translate is not None:
        try:
            return translate(module, shape)
        except _UnusableError as reason:
            raise _refused(_title(name, module), f"{type(module).__name__} {reason}") from None
    if smoothing is not None and kind is nn.ReLU:  # in place: intercepted when it runs
        return SmoothActivation.softplus(smoothing.beta, 20.0)
    known = next((each for each in _TRANSLATIONS if issubclass(kind, each)), None)
    derived = f", a subclass of {known.__name__}" if known else ""
    raise _refused(_title(name, module), f"{kind.__name__}{derived}")


class _UnusableError(Exception):
    """A supported module in a state that is not."""


def _exact(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float64)


def _dense(module: nn.Linear, shape: tuple[int, ...]) -> Affine:  # noqa: ARG001
    offset = 0.0 if module.bias is None else _exact(module.bias)
    return Dense(_exact(module.weight), offset)


def _convolution(module: nn.Conv2d, shape: tuple[int, ...]) -> Affine:
    if module.padding_mode != "zeros":
        raise _UnusableError(f"with padding_mode={module.padding_mode!r}")
    if len(shape) != 3:
        raise _UnusableError(f"on one example of shape {shape}")
    pad = tuple(module._reversed_padding_repeated_twice)
    geometry = Geometry(module.stride, pad, module.dilation, module.groups)
    offset = 0.0 if module.bias is None else _exact(module.bias).view(-1, 1, 1)
    return Convolution(_exact(module.weight), geometry, offset)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[-1])


def _average(module: nn.AvgPool2d, shape: tuple[int, ...]) -> Affine:
    if len(shape) != 3:
        raise _UnusableError(f"on one example of shape {shape}")
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
        raise _UnusableError("that mixes the examples (start_dim=0)")
    return Reshape(tuple(module(torch.empty(1, *shape, device="meta")).shape[1:]))


def _batch_norm(module: nn.BatchNorm1d | nn.BatchNorm2d, shape: tuple[int, ...]) -> Affine:
    if module.training or module.running_mean is None or module.running_var is None:
        raise _UnusableError("that takes its statistics from the batch")
    mean, variance = _exact(module.running_mean), _exact(module.running_var)
    factor = 1 / (variance + module.eps).sqrt()
    offset, size = -mean * factor, (mean * factor).abs()
    if module.affine:
        weight, bias = _exact(module.weight), _exact(module.bias)
        factor, offset, size = factor * weight, offset * weight + bias, size * weight.abs()
        size = size + bias.abs()
    per_channel = (-1, *[1] * (len(shape) - 1))
    return Scale(factor.view(per_channel), offset.view(per_channel), size.view(per_channel))


def _dropout(module: nn.Dropout, shape: tuple[int, ...]) -> None:  # noqa: ARG001
    if module.training:
        raise _UnusableError("in train mode")


def _softplus(module: nn.Softplus, shape: tuple[int, ...]) -> SmoothActivation:  # noqa: ARG001
    if not module.beta > 0:
        raise _UnusableError(f"with beta={module.beta!r}")
    return SmoothActivation.softplus(float(module.beta), float(module.threshold))


_TRANSLATIONS: dict[type[nn.Module], Callable[..., Affine | SmoothActivation | None]] = {
    nn.Linear: _dense,
    nn.Conv2d: _convolution,
    nn.AvgPool2d: _average,
    nn.Flatten: _flatten,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.Dropout: _dropout,
    nn.Dropout2d: _dropout,
    nn.Identity: lambda module, shape: None,  # noqa: ARG005
    nn.Softplus: _softplus,
    nn.Tanh: lambda module, shape: SmoothActivation.tanh(),  # noqa: ARG005
    nn.Sigmoid: lambda module, shape: SmoothActivation.sigmoid(),  # noqa: ARG005
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


def _check_length(stages: list[Stage]) -> None:
    longest = max(max(*stage.sizes, sum(part.terms for part in stage.maps)) for stage in stages)
    if longest > LONGEST:
        raise ModelError(
            "the model",
            expected=f"sums of at most {LONGEST} terms, which the margin for rounding covers",
            got=f"{longest}",
            remedy="certify a narrower network",
        )
