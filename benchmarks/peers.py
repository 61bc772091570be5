"""What other tools make of the same question: SciPy, hessian-eigenthings, curvlinops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from hessian_eigenthings import LambdaOperator, lanczos, lanczos_tridiagonal
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor, nn

import attribound as ab

try:
    from curvlinops import HessianLinearOperator
except ImportError:
    HessianLinearOperator = None

STEPS = 20
MOST = 40  # steps of hessian-eigenthings at most
Product = Callable[[Tensor], Tensor]


def single(jacobian: ab.LinearOperator, row: int) -> tuple[Product, list[int]]:
    """``v -> J^T J v`` on flat vectors for one image, and a count of its products."""
    one = jacobian.select(torch.tensor([row]))
    count = [0]

    def gram(v: Tensor) -> Tensor:
        count[0] += 2
        return one.rmatvec(one.matvec(v.view_as(one.domain))).flatten()

    return gram, count


def by_scipy(matvec: Product, rmatvec: Product, like: Tensor) -> tuple[float, int]:
    """Largest singular value of a square matrix by svds, and its products."""
    count = [0]

    def flat(product: Product) -> Callable[[np.ndarray], np.ndarray]:
        def apply(v: np.ndarray) -> np.ndarray:
            count[0] += 1
            return product(torch.from_numpy(v.astype(np.float32)).view_as(like)).flatten().numpy()

        return apply

    operator = LinearOperator(
        (like.numel(), like.numel()),
        matvec=flat(matvec),
        rmatvec=flat(rmatvec),
        dtype=np.float32,
    )
    value = svds(operator, k=1, return_singular_vectors=False, random_state=0)[0]
    return float(value), count[0]


class Along(nn.Module):
    """Logits along the path to an image, which is the parameter: curvlinops knows no inputs.

    Divided by the place on the path: the Hessian of their mean is that of integrated gradients.
    """

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        super().__init__()
        self.model = model
        self.x = nn.Parameter(x.clone())

    def forward(self, alpha: Tensor) -> Tensor:
        """``(nodes,)`` places to ``(nodes, classes)``."""
        return self.model(alpha.view(-1, 1, 1, 1) * self.x) / alpha.view(-1, 1)


class Score(nn.Module):
    """The mean of the logits of some labels, as a loss."""

    reduction = "mean"

    def forward(self, logits: Tensor, label: Tensor) -> Tensor:
        """``(nodes, classes)`` and ``(nodes,)`` to a number."""
        return logits.gather(1, label.unsqueeze(1)).mean()


def by_curvlinops(model: nn.Module, x: Tensor, label: Tensor) -> tuple[Product, ...]:
    """Products with the Jacobian of integrated gradients of one image, and with its adjoint."""
    alpha = torch.arange(1, STEPS + 1) / STEPS
    along, labels = Along(model, x), label.expand(STEPS)
    (gradient,) = torch.autograd.grad(Score()(along(alpha), labels), along.x)
    operator = HessianLinearOperator(along, Score(), [along.x], [(alpha, labels)])

    def hessian(v: Tensor) -> Tensor:
        return (operator @ v.flatten()).view_as(x)

    return (
        lambda v: gradient * v + x * hessian(v),
        lambda u: gradient * u + hessian(x * u),
    )


def plain(model: nn.Module, x: Tensor) -> Product:
    """``v -> J^T J v`` of integrated gradients of one image, as written with PyTorch alone.

    The graph is built once and kept, as a careful user would.
    """
    alpha = torch.arange(1, STEPS + 1).view(-1, 1, 1, 1) / STEPS
    points = (alpha * x).requires_grad_()
    logits = model(points)
    (gradient,) = torch.autograd.grad(
        logits[:, logits[-1].argmax()].sum(), points, create_graph=True
    )
    mean_gradient = gradient.detach().mean(0)

    def hessian(v: Tensor) -> Tensor:
        (product,) = torch.autograd.grad(gradient, points, alpha * v, retain_graph=True)
        return product.mean(0)

    def gram(v: Tensor) -> Tensor:
        v = v.view_as(x)
        u = mean_gradient * v + x * hessian(v)
        return (mean_gradient * u + hessian(x * u)).flatten()

    return gram


def by_eigenthings(gram: Product, size: int, iterations: int) -> float:
    """Largest singular value of one image by Lanczos on J^T J."""
    operator = LambdaOperator(gram, size)
    result = lanczos(operator, k=1, max_iter=iterations, reorthogonalize=True, seed=0)
    return float(result.eigenvalues[0]) ** 0.5


def iterations_needed(jacobian: ab.LinearOperator, row: int, truth: float) -> tuple[int, int]:
    """Fewest steps of hessian-eigenthings for a residual of 1 %, and for an error of 1e-6."""
    gram, _ = single(jacobian, row)
    size = jacobian.domain[0].numel()
    start = torch.randn(size, generator=torch.Generator().manual_seed(0))
    run = lanczos_tridiagonal(LambdaOperator(gram, size), start, MOST)
    whole = (torch.diag(run.alphas) + torch.diag(run.betas, 1) + torch.diag(run.betas, -1)).double()
    residual, exact = MOST, MOST
    for k in reversed(range(1, MOST)):
        theta, vectors = torch.linalg.eigh(whole[:k, :k])
        if run.betas[k - 1] * vectors[-1, -1].abs() <= 0.01 * theta[-1]:
            residual = k
        if abs(theta[-1].sqrt().item() / truth - 1) <= 1e-6:
            exact = k
    return residual, exact
