"""Small networks to certify, and slow references that share no code with the package."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

import attribound as ab
import cases
from attribound.basics.rounding import gamma
from attribound.bounding.certified.activation import SmoothActivation
from attribound.bounding.certified.network import Network
from attribound.bounding.certified.rectified import Rectified
from attribound.networks.affine import Dense

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "softplus1": nn.Softplus,
    "softplus6": lambda: nn.Softplus(beta=6.0),
    "softplus30": lambda: nn.Softplus(beta=30.0),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}


def dense_network(sizes: list[int], names: list[str], scale: float, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    parts: list[nn.Module] = []
    for i, name in enumerate(names):
        parts += [nn.Linear(sizes[i], sizes[i + 1]), ACTIVATIONS[name]()]
    parts.append(nn.Linear(sizes[len(names)], 2))
    return _scaled(nn.Sequential(*parts), scale)


def image_network(names: list[str], scale: float, seed: int) -> nn.Sequential:
    """Padding, stride, groups, dilation, pooling, batch norm, dropout and nesting."""
    torch.manual_seed(seed)
    norm = nn.BatchNorm2d(2)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    parts = nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, stride=(1, 2)), norm, ACTIVATIONS[names[0]]()),
        nn.AvgPool2d(2, stride=1, padding=1, count_include_pad=False),
        nn.Conv2d(2, 4, (1, 2), groups=2, dilation=(1, 2), bias=False),
        ACTIVATIONS[names[-1]](),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Identity(),
        nn.LazyLinear(2),
    )
    parts.eval()(torch.rand(2, 1, 4, 5))
    return _scaled(parts, scale)


def _scaled(net: nn.Sequential, scale: float) -> nn.Sequential:
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                module.weight *= scale
    return net.double().eval()


@st.composite
def networks(draw: st.DrawFn) -> tuple[nn.Sequential, Tensor]:
    """A random network of one to three hidden layers, and two inputs."""
    names = draw(st.lists(st.sampled_from(sorted(ACTIVATIONS)), min_size=1, max_size=3))
    scale = draw(st.sampled_from([0.5, 1.0, 3.0]))
    seed = draw(st.integers(0, 10**6))
    generator = torch.Generator().manual_seed(seed + 1)
    if draw(st.booleans()):
        net, shape = image_network(names[:2], scale, seed), (1, 4, 5)
    else:
        sizes = draw(st.lists(st.integers(1, 7), min_size=4, max_size=4))
        net, shape = dense_network(sizes, names, scale, seed), (sizes[0],)
    return net, torch.rand(2, *shape, generator=generator).double() * 2 - 0.5


def attributions(model: nn.Module) -> dict[str, ab.Attribution]:
    return {
        "saliency": ab.Saliency(model),
        "input_x_gradient": ab.InputXGradient(model),
        "ig": ab.IntegratedGradients(model, steps=3),
        "ig_gauss": ab.IntegratedGradients(model, 4, baseline=0.3, quadrature="gauss_legendre"),
        "ig_unmultiplied": ab.IntegratedGradients(model, 3, multiply_by_inputs=False),
    }


def worst_found(attribution: ab.Attribution, x: Tensor, ball: ab.LpBall, target: Tensor) -> Tensor:
    """The largest deviation that ascent with restarts, corners and random points find."""
    found = torch.zeros(len(x), dtype=torch.float64)
    if ball.p in (1, 2, math.inf):  # projections onto other balls are slow
        ascent = ab.attacks.AttributionAscent(random_starts=2, steps=12)
        found = ascent(attribution, x, ball, target).deviation
    base = attribution.revalue(x, target)
    generator = torch.Generator().manual_seed(5)
    for _ in range(30):
        draw = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        delta = ball.maximiser(draw, draw)
        moved = (attribution.revalue(x + delta, target) - base).flatten(1).norm(dim=1)
        found = torch.maximum(found, moved)
    return found


def spectral_norms(attribution: ab.Attribution, x: Tensor, target: Tensor) -> Tensor:
    """Largest singular value of the dense Jacobian, by plain autograd through the gradient."""
    model = attribution.classifier.model

    def saliency(points: Tensor) -> Tensor:
        return cases.gradient(model, points, target)

    return torch.linalg.matrix_norm(cases.dense_jacobian(saliency, x), 2)


class Rough(Dense):
    """Products off by as much as ``terms`` allow, of a machine with four digits: up and down."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "terms", 2**40)

    def linear(self, x: Tensor) -> Tensor:
        return super().linear(x) + self._wrong(x.abs() @ self.weight.abs().T)

    def adjoint(self, u: Tensor, shape: Sequence[int]) -> Tensor:
        return super().adjoint(u, shape) + self._wrong(u.abs() @ self.weight.abs())

    def absolute(self) -> Dense:
        return Dense(self.weight.abs())

    def _wrong(self, size: Tensor) -> Tensor:
        signs = torch.where(size.sum(0).sort().indices % 2 == int(self.weight[0, 0] > 0), 1.0, -1.0)
        return 0.99 * gamma(self.terms) * signs * size


class RoughActivation(SmoothActivation):
    """Evaluated as badly as it says, in the third digit: up and down."""

    def derivative(self, order: int, z: Tensor) -> Tensor:
        signs = torch.where(torch.arange(z.shape[-1]) % 2 == order % 2, 0.99, -0.99)
        return super().derivative(order, z) + signs * self.error(order, z)

    def error(self, order: int, z: Tensor) -> Tensor:
        return 2.0**37 * super().error(order, z)


def roughened(network: Network | Rectified) -> Network | Rectified:
    """The same network, of which every product with weights is wrong in the fourth digit."""
    stages = [
        replace(stage, maps=tuple(Rough(part.weight, part.offset) for part in stage.maps))
        for stage in network.stages
    ]
    return replace(network, stages=tuple(stages))


def badly_evaluated(network: Network) -> Network:
    """The same network with activations that are wrong in the third digit."""
    fields = (vars(activation) for activation in network.activations)
    return replace(network, activations=tuple(RoughActivation(**each) for each in fields))


def poor_proofs(monkeypatch: pytest.MonkeyPatch, *modules: object) -> None:
    """A factorisation that proves up to a tenth of the trace only, and an eigenvalue too low."""
    honest = torch.linalg.eigvalsh

    def proved(matrix: Tensor) -> float | None:
        deficit = 0.1 * matrix.diagonal().sum().item()
        return deficit if honest(matrix)[0].item() >= -deficit else None

    for module in modules:
        monkeypatch.setattr(module, "proved", proved)
    monkeypatch.setattr(torch.linalg, "eigvalsh", lambda matrix: honest(matrix) * 0.95)


def in_units(net: nn.Sequential, units: Sequence[Tensor]) -> nn.Sequential:
    """The same network, inputs, neurons of every layer and logits counted in these units."""
    other = copy.deepcopy(net)
    layers = [module for module in other if isinstance(module, nn.Linear)]
    for layer, before, after in zip(layers, units[:-1], units[1:], strict=True):
        layer.weight.data = layer.weight.data * (after.unsqueeze(1) / before)
        layer.bias.data = layer.bias.data * after
    return other


def some_units(net: nn.Sequential, seed: int) -> list[Tensor]:
    """Powers of two, so that nothing is rounded: one for all inputs, others for each neuron."""
    generator = torch.Generator().manual_seed(seed)
    layers = [module for module in net if isinstance(module, nn.Linear)]

    def draw(size: int) -> Tensor:
        return 2.0 ** torch.randint(-20, 21, (size,), generator=generator).double()

    middle = [draw(layer.out_features) for layer in layers[:-1]]
    ends = (draw(1).expand(layers[0].in_features), draw(1).expand(layers[-1].out_features))
    return [ends[0], *middle, ends[1]]
