"""Models with closed forms, small smooth networks, and slow attributions straight from the paper.

Everything is float64 and seeded. The slow attributions share no code with the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

import attribound as ab
from attribound.operators import DenseOperator, LinearOperator


class Quadratic(nn.Module):
    """Logits ½ xᵀA_k x + b_kᵀx: the saliency of class k is exactly A_k x + b_k."""

    def __init__(self, matrices: Tensor, slopes: Tensor | None = None) -> None:
        super().__init__()
        self.matrices = matrices
        self.slopes = torch.zeros(matrices.shape[:2]).to(matrices) if slopes is None else slopes

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        curved = torch.einsum("bi,kij,bj->bk", flat, self.matrices, flat) / 2
        return curved + flat @ self.slopes.T


class Functional(nn.Module):
    """A function as the forward of a model."""

    def __init__(self, fn: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: Tensor) -> Tensor:
        return self.fn(x)


def rotation(size: int, seed: int = 0) -> Tensor:
    draw = torch.randn(size, size, generator=torch.Generator().manual_seed(seed)).double()
    return torch.linalg.qr(draw)[0]


def quadratic(eigenvalues: list[float], batch: int = 2) -> tuple[ab.Saliency, Tensor]:
    """A saliency that is linear, with a known spectrum in a rotated basis; class 0 wins."""
    size = len(eigenvalues)
    turn = rotation(size)
    matrix = turn @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ turn.T
    slopes = torch.zeros(2, size, dtype=torch.float64)
    slopes[0] = 50.0
    model = Quadratic(torch.stack([matrix, torch.zeros_like(matrix)]), slopes)
    x = torch.rand(batch, size, generator=torch.Generator().manual_seed(1)).double() + 0.1
    return ab.Saliency(model), x


def tabular(features: int = 7, classes: int = 3) -> tuple[nn.Module, Tensor]:
    """A softplus network on rows of numbers."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(features, 16), nn.Softplus(5), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, classes)
    )
    return model.double().eval(), torch.rand(5, features).double() + 0.2


def image() -> tuple[nn.Module, Tensor]:
    """A convolutional network with batch norm (eval) and average pooling on 2x6x6 images."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.Softplus(10),
        nn.AvgPool2d(2),
        nn.Conv2d(4, 5, 3),
        nn.SiLU(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(5, 4),
    )
    return model.double().eval(), torch.rand(3, 2, 6, 6).double()


class Attention(nn.Module):
    """A transformer layer on an embedded sequence, mean over positions, two classes."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            width, 2, dim_feedforward=8, activation="gelu", batch_first=True
        )
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layer(x).mean(1))
        return logits


def sequence() -> tuple[nn.Module, Tensor]:
    """Five positions of four embedding dimensions."""
    torch.manual_seed(0)
    return Attention().double().eval(), torch.randn(3, 5, 4).double()


def signal() -> tuple[nn.Module, Tensor]:
    """A 1-D convolution over a signal with one channel."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(1, 3, 3), nn.Softplus(5), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(9, 2)
    )
    return model.double().eval(), torch.rand(4, 1, 8).double()


NETWORKS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "tabular": tabular,
    "image": image,
    "sequence": sequence,
    "signal": signal,
}

ATTRIBUTIONS: dict[str, Callable[[nn.Module], ab.Attribution]] = {
    "saliency": ab.Saliency,
    "input_x_gradient": ab.InputXGradient,
    "ig_riemann": lambda m: ab.IntegratedGradients(m, steps=4),
    "ig_midpoint": lambda m: ab.IntegratedGradients(m, 3, baseline=0.3, quadrature="midpoint"),
    "ig_gauss": lambda m: ab.IntegratedGradients(m, 5, quadrature="gauss_legendre"),
    "ig_unmultiplied": lambda m: ab.IntegratedGradients(m, 3, multiply_by_inputs=False),
    "smooth_grad": lambda m: ab.SmoothGrad(m, samples=3, sigma=0.2),
    "expected_gradients": lambda m: ab.ExpectedGradients(m, baselines=0.3, samples=3, sigma=0.1),
    "absolute": lambda m: ab.Absolute(ab.Saliency(m)),
}


def gradient(model: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    """Gradient of each target logit, with its graph."""
    if not x.requires_grad:
        x = x.detach().requires_grad_()
    score = model(x)[torch.arange(len(x)), target].sum()
    return torch.autograd.grad(score, x, create_graph=True)[0]


def integrated_gradients(
    model: nn.Module, x: Tensor, target: Tensor, nodes: list[float], weights: list[float]
) -> Tensor:
    """IG from a zero baseline by a plain loop over nodes, with its graph."""
    total = torch.zeros_like(x)
    for alpha, weight in zip(nodes, weights, strict=True):
        total = total + weight * gradient(model, alpha * x, target)
    return x * total


def dense_jacobian(fn: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The Jacobian ``(batch, m, n)`` of a batched function, row by row with plain autograd."""
    points = x.detach().requires_grad_()
    out = fn(points).flatten(1)
    rows = [
        torch.autograd.grad(out[:, i].sum(), points, retain_graph=True, materialize_grads=True)[
            0
        ].flatten(1)
        for i in range(out.shape[1])
    ]
    return torch.stack(rows, 1).detach()


def random_operator(size: int, seed: int, batch: int = 1, decay: float = 1.0) -> Tensor:
    """Matrices ``(batch, size, size)`` with singular values i^-decay in random bases."""
    generator = torch.Generator().manual_seed(seed)
    left, right = (
        torch.linalg.qr(torch.randn(batch, size, size, generator=generator).double())[0]
        for _ in range(2)
    )
    values = torch.arange(1, size + 1).double() ** -decay
    return left * values @ right


@dataclass(frozen=True, eq=False)
class Counting(DenseOperator):
    """Counts the rows it multiplies."""

    rows: list[int] = field(default_factory=list)

    def matvec(self, v: Tensor) -> Tensor:
        self.rows.append(len(v))
        return super().matvec(v)

    def rmatvec(self, u: Tensor) -> Tensor:
        self.rows.append(len(u))
        return super().rmatvec(u)

    def select(self, index: Tensor) -> LinearOperator:
        return Counting(self.matrix[index], self.rows)
