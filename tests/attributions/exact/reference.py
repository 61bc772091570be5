"""ReLU networks with what makes exact integrals hard, and slow truths about them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

import attribound as ab
from attribound.models.normalisation import Normalisation, Normalised


def mlp(widths: tuple[int, ...], seed: int = 0, hinge: Callable[[], nn.Module] = nn.ReLU):
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    before = 5
    for width in widths:
        layers += [nn.Linear(before, width), hinge()]
        before = width
    return nn.Sequential(*layers, nn.Linear(before, 3)).double().eval()


def duplicated(seed: int = 0) -> nn.Module:
    """Every neuron twice: both cross at the same place."""
    net = mlp((12, 10), seed)
    with torch.no_grad():
        for layer in (net[0], net[2]):
            half = len(layer.bias) // 2
            layer.weight[half:], layer.bias[half:] = layer.weight[:half], layer.bias[:half]
    return net


def without_deep_biases(seed: int = 0) -> nn.Module:
    """Neurons of later layers are zero until what feeds them turns on."""
    net = mlp((2, 6, 6), seed)
    nn.init.zeros_(net[2].bias)
    nn.init.zeros_(net[4].bias)
    return net


def without_biases() -> nn.Module:
    net = mlp((12, 10))
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.zeros_(layer.bias)
    return net


def cnn(seed: int = 0) -> nn.Module:
    """Convolutions, batch norm, average pooling and a normalisation in front."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(3, 4, 2),
        nn.LeakyReLU(0.1),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(16, 8),
        nn.ReLU(),
        nn.Linear(8, 3),
    )
    net[1].running_mean.normal_()
    net[1].running_var.uniform_(0.5, 2)
    return Normalised(Normalisation((0.3,), (0.5,)), net).double().eval()


def tied() -> tuple[nn.Module, Tensor]:
    """On a constant image every neuron of a channel crosses half-way from .3 to .7."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 3)).double()
    net[0].bias.data = -0.5 * net[0].weight.data.sum((1, 2, 3))
    return net.eval(), torch.full((1, 1, 4, 4), 0.7, dtype=torch.float64)


def rows(count: int = 4) -> Tensor:
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(3)).double()


def images(flat: bool) -> Tensor:
    x = torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(3)).double()
    if flat:
        x[:, :, 1:5, 1:5] = torch.tensor([0.6, 0.8]).double().view(2, 1, 1, 1)
    return x


CASES: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "one hidden layer": lambda: (mlp((12,)), rows()),
    "two": lambda: (mlp((12, 10)), rows()),
    "four": lambda: (mlp((9, 8, 8, 6), 1), rows()),
    "leaky": lambda: (mlp((12, 10), 2, lambda: nn.LeakyReLU(0.2)), rows()),
    "none": lambda: (mlp(()), rows()),
    "duplicated neurons": lambda: (duplicated(), rows()),
    "no deep biases": lambda: (without_deep_biases(), rows()),
    "no biases": lambda: (without_biases(), rows()),
    "convolutions": lambda: (cnn(), images(flat=False)),
    "ties": tied,
    "flat areas": lambda: (cnn(), images(flat=True)),
}


def exact(net: nn.Module, baseline: float = 0.3, **settings: object) -> ab.IntegratedGradients:
    return ab.IntegratedGradients(net, baseline=baseline, quadrature="exact", **settings)


def midpoints(net: nn.Module, x: Tensor, target: Tensor, baseline: float = 0.3) -> Tensor:
    """10,000 of them."""
    many = ab.IntegratedGradients(net, 10_000, baseline, quadrature="midpoint")
    return many(x, target)


def differences(attribution: ab.Attribution, x: Tensor, target: Tensor) -> Tensor:
    """The Jacobian ``(batch, d, d)`` by central differences."""
    step, columns = 1e-7, []
    for k in range(x[0].numel()):
        e = torch.zeros(x[0].numel()).double()
        e[k] = step
        e = e.view_as(x[0])
        moved = attribution.revalue(x + e, target) - attribution.revalue(x - e, target)
        columns.append(moved.flatten(1) / (2 * step))
    return torch.stack(columns, 2)


def followed(net: nn.Module, x: Tensor, target: int, baseline: float) -> Tensor:
    """The integral of one example by following one change of a mask after another: wrong on ties.

    At each crossing the nearest next one is looked for on the piece in force, and that neuron
    alone is switched.
    """
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    base = torch.full_like(x, baseline)
    away, alpha = x - base, 0.0
    z = base
    masks = []
    for layer in linear[:-1]:
        z = layer(z)
        masks.append((z > 0).double())
        z = z * masks[-1]
    total = torch.zeros_like(x)
    for _ in range(1000):
        value, slope, nearest, who = base, away, 1.0, None
        for number, layer in enumerate(linear[:-1]):
            value, slope = layer(value), layer.weight @ slope
            place = -value / slope
            place[(place <= alpha + 1e-9) | ~torch.isfinite(place)] = 2.0
            if place.min() < nearest:
                nearest, who = place.min().item(), (number, int(place.argmin()))
            value, slope = value * masks[number], slope * masks[number]
        gradient = linear[-1].weight[target]
        for number in range(len(linear) - 2, -1, -1):
            gradient = (gradient * masks[number]) @ linear[number].weight
        total = total + (nearest - alpha) * gradient
        if who is None:
            break
        masks[who[0]][who[1]] = 1 - masks[who[0]][who[1]]
        alpha = nearest
    return away * total
