"""``make bench``: the spectral solver against what users have today, as ratios from one run.

Everything runs on the same Jacobian operator, so that the ratios compare
algorithms; hessian-eigenthings also on PyTorch's own double backward, which is
what its users have. Ratios are medians over interleaved rounds.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

import numpy as np
import torch
from hessian_eigenthings import LambdaOperator, lanczos, lanczos_tridiagonal
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor, nn

import attribound as ab
import fashion
from attribound.basics.tables import render
from attribound.networks.frozen import frozen
from attribound.operators import dense
from attribound.results import SpectralEstimate

IMAGES = 16
STEPS = 20
SIZES = [(1, 8), (1, 28), (3, 32), (3, 128), (3, 224)]
ROUNDS = 5
MOST = 40  # steps of hessian-eigenthings at most


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def single(jacobian: ab.LinearOperator, row: int) -> tuple[Callable[[Tensor], Tensor], list[int]]:
    """``v -> J^T J v`` on flat vectors for one image, and a count of its products."""
    one = jacobian.select(torch.tensor([row]))
    count = [0]

    def gram(v: Tensor) -> Tensor:
        count[0] += 2
        return one.rmatvec(one.matvec(v.view_as(one.domain))).flatten()

    return gram, count


def by_scipy(jacobian: ab.LinearOperator, row: int) -> tuple[float, int]:
    """Largest singular value of one image by svds, and its products."""
    one = jacobian.select(torch.tensor([row]))
    count = [0]

    def apply(
        product: Callable[[Tensor], Tensor], like: Tensor
    ) -> Callable[[np.ndarray], np.ndarray]:
        def flat(v: np.ndarray) -> np.ndarray:
            count[0] += 1
            vector = torch.from_numpy(v.astype(np.float32)).view_as(like)
            return product(vector).flatten().numpy()

        return flat

    shape = (one.range.numel(), one.domain.numel())
    operator = LinearOperator(
        shape,
        matvec=apply(one.matvec, one.domain),
        rmatvec=apply(one.rmatvec, one.range),
        dtype=np.float32,
    )
    value = svds(operator, k=1, return_singular_vectors=False, random_state=0)[0]
    return float(value), count[0]


def plain(model: nn.Module, x: Tensor) -> Callable[[Tensor], Tensor]:
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


def by_eigenthings(gram: Callable[[Tensor], Tensor], size: int, iterations: int) -> float:
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


def solvers(name: str) -> None:
    """Time, products and accuracy on one trained network."""
    x = fashion.images("t10k")[0][:IMAGES]
    model = fashion.network(name)
    attribution = ab.IntegratedGradients(model, steps=STEPS)
    jacobian = attribution.linearize(x).jacobian
    default, ritz = ab.SpectralSolver(), ab.SpectralSolver(stop="ritz")
    rows = range(IMAGES)

    start = time.perf_counter()
    matrices = [dense(jacobian, row, at_once=3) for row in rows[:2]]
    truth2 = [float(torch.linalg.svdvals(matrix)[0]) for matrix in matrices]
    dense_time = (time.perf_counter() - start) / 2 * IMAGES

    tight = ab.SpectralSolver(tolerance=1e-5)(jacobian)
    truth = tight.value.lower.tolist()
    apart = max(abs(a / b - 1) for a, b in zip(truth, truth2, strict=False))
    print(f"\ndense and Krylov values agree to {apart:.1g}")

    found: dict[str, SpectralEstimate] = {}
    scipy_products: list[int] = []
    plain_values: list[float] = []
    as_residual, as_exact = zip(
        *[iterations_needed(jacobian, row, truth[row]) for row in rows], strict=True
    )
    as_ours = tuple(((default(jacobian).products + 1) // 2).tolist())

    def ours(key: str, solver: ab.SpectralSolver) -> None:
        found[key] = solver(attribution.linearize(x).jacobian)

    def scipy() -> None:
        fresh = attribution.linearize(x).jacobian
        scipy_products[:] = [by_scipy(fresh, row)[1] for row in rows]

    def eigenthings(iterations: tuple[int, ...]) -> None:
        fresh = attribution.linearize(x).jacobian
        for row in rows:
            by_eigenthings(single(fresh, row)[0], x[0].numel(), iterations[row])

    def eigenthings_plain(iterations: tuple[int, ...]) -> None:
        with frozen(model):
            plain_values[:] = [
                by_eigenthings(plain(model, x[row]), x[0].numel(), iterations[row]) for row in rows
            ]

    def product(times: int = 5) -> None:
        for _ in range(times):
            jacobian.matvec(x)

    work: dict[str, Callable[[], None]] = {
        "ours": lambda: ours("upper", default),
        "ours, Ritz value only": lambda: ours("ritz", ritz),
        "SciPy svds": scipy,
        "hessian-eigenthings, our steps": lambda: eigenthings(as_ours),
        "hessian-eigenthings, our steps, PyTorch": lambda: eigenthings_plain(as_ours),
        "hessian-eigenthings, Ritz error, PyTorch": lambda: eigenthings_plain(as_exact),
        "hessian-eigenthings, residual": lambda: eigenthings(as_residual),
        "hessian-eigenthings, Ritz error": lambda: eigenthings(as_exact),
        "five products": product,
    }
    rounds = [{key: seconds(job) for key, job in work.items()} for _ in range(ROUNDS)]

    def ratio(above: str, below: str) -> float:
        """Median over rounds: the machine is noisy, neighbours in time are comparable."""
        return median(times[above] / times[below] for times in rounds)

    off = max(abs(a / b - 1) for a, b in zip(plain_values, truth, strict=True))
    print(f"PyTorch's own products give the same values to {off:.1g}")
    products = found["upper"].products.double()
    gap = (found["upper"].value.upper / torch.tensor(truth) - 1).max().item()
    raw = "five products"
    ritz_error = (found["upper"].value.lower / torch.tensor(truth) - 1).abs().max().item()
    rows_shown: list[tuple[str, float, str]] = [
        (
            "dense Jacobian + SVD / ours (2 images, scaled)",
            dense_time / median(times["ours"] for times in rounds),
            ">= 20",
        ),
        ("SciPy svds / ours", ratio("SciPy svds", "ours"), ">= 1.5"),
        (
            "hessian-eigenthings on PyTorch's double backward / ours, as many steps",
            ratio("hessian-eigenthings, our steps, PyTorch", "ours"),
            ">= 1",
        ),
        (
            "the same, its Ritz error 1e-6, told when to stop, no upper value",
            ratio("hessian-eigenthings, Ritz error, PyTorch", "ours"),
            ">= 1",
        ),
        (
            "hessian-eigenthings on our products / ours, as many steps",
            ratio("hessian-eigenthings, our steps", "ours"),
            ">= 1",
        ),
        (
            "the same, residual 1 %, theirs told when to stop",
            ratio("hessian-eigenthings, residual", "ours, Ritz value only"),
            ">= 1",
        ),
        (
            "the same, its Ritz error 1e-6, told when to stop, no upper value",
            ratio("hessian-eigenthings, Ritz error", "ours"),
            ">= 1",
        ),
        (
            "our time / (products x raw product)",
            5 * ratio("ours", raw) / products.mean().item(),
            "<= 1.25",
        ),
        ("products an image, ours: mean", products.mean().item(), ""),
        ("products an image, ours: max", products.max().item(), ""),
        (
            "products an image, ours, residual 1 %, no upper value",
            found["ritz"].products.double().mean().item(),
            "",
        ),
        ("products an image, SciPy", float(np.mean(scipy_products)), ""),
        (
            "products an image, hessian-eigenthings, Ritz error 1e-6, told when to stop",
            2 * float(np.mean(as_exact)),
            "",
        ),
        ("upper / truth - 1, largest", gap, "0 to 0.015"),
        ("Ritz / truth - 1, largest error", ritz_error, ""),
        ("seconds, ours", median(times["ours"] for times in rounds), ""),
    ]
    print(
        render(
            f"Fashion-MNIST {name}, IG of {STEPS} steps, {IMAGES} images, "
            f"{torch.get_num_threads()} threads",
            ["", "measured", "goal"],
            rows_shown,
        ),
        flush=True,
    )


def hessian_products() -> None:
    """One Hessian-vector product: our derivatives against PyTorch's own."""
    x = fashion.images("t10k")[0][:STEPS].contiguous()
    model = fashion.network("nat")
    jacobian = ab.Saliency(model).linearize(x).jacobian
    point = x.clone().requires_grad_()
    with frozen(model):
        top = model(point).amax(1).sum()
        (gradient,) = torch.autograd.grad(top, point, create_graph=True)
    best: dict[str, float] = {}
    for _ in range(20):
        for key, job in {
            "ours": lambda: jacobian.matvec(x),
            "native": lambda: torch.autograd.grad(gradient, point, x, retain_graph=True),
            "forward + backward": lambda: torch.autograd.grad(model(point).amax(1).sum(), point),
        }.items():
            best[key] = min(best.get(key, float("inf")), seconds(job))
    print(
        f"\none batch of {STEPS} Hessian-vector products: PyTorch's double backward / ours = "
        f"{best['native'] / best['ours']:.2f}; ours / (forward + backward) = "
        f"{best['ours'] / best['forward + backward']:.2f}"
    )


def convolutional(channels: int) -> nn.Module:
    """A small smooth network for images of any size."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.Softplus(10),
        nn.AvgPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.Softplus(10),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(256, 10),
    ).eval()


def peak_megabytes() -> float:
    """Largest resident size of this process so far."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def scaling(channels: int, side: int) -> None:
    """Products and peak memory at one size (in a process of its own)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, channels, side, side, generator=generator)
    before = peak_megabytes()
    attribution = ab.IntegratedGradients(convolutional(channels), steps=5)
    start = time.perf_counter()
    bound = ab.bound(attribution, x, ab.L2Ball(0.1))
    elapsed = time.perf_counter() - start
    peak = peak_megabytes()
    print(
        f"{x[0].numel()} {bound.products.double().mean():.1f} {peak:.0f} {peak - before:.0f} "
        f"{elapsed / len(x):.2f}"
    )


def main() -> None:
    """Run one part, or all of them."""
    if len(sys.argv) == 3:
        scaling(int(sys.argv[1]), int(sys.argv[2]))
        return
    for name in ("nat", "at"):
        solvers(name)
    hessian_products()
    rows = []
    for channels, side in SIZES:
        out = subprocess.run(
            [sys.executable, __file__, str(channels), str(side)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        rows.append([int(out[0]), float(out[1]), f"{out[2]} MB", f"{out[3]} MB", float(out[4])])
    counts = [row[1] for row in rows]
    print(
        render(
            f"\nA small convolutional network, IG of 5 steps: products, largest / smallest "
            f"{max(counts) / min(counts):.2f}; {min(counts) / mean(counts) - 1:+.0%} to "
            f"{max(counts) / mean(counts) - 1:+.0%} of their mean (goal: flat to 50 %)",
            ["features", "products", "peak memory", "of it ours", "seconds an image"],
            rows,
        )
    )


if __name__ == "__main__":
    main()
