"""``make bench``: the spectral solver against what users have today, as ratios from one run.

Everything runs on the same Jacobian operator, so that the ratios compare
algorithms. Times are the best of several interleaved rounds.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from hessian_eigenthings import LambdaOperator, lanczos, lanczos_tridiagonal
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor, nn

import attribound as ab
import fashion
from attribound.frozen import frozen
from attribound.operators import LinearOperator as Jacobian
from attribound.operators import dense
from attribound.results import SpectralEstimate
from attribound.tables import render

IMAGES = 16
STEPS = 20
SIZES = [(1, 8), (1, 28), (3, 32), (3, 128), (3, 224)]
ROUNDS = 3


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def single(jacobian: Jacobian, row: int) -> tuple[Callable[[Tensor], Tensor], list[int]]:
    """``v -> J^T J v`` on flat vectors for one image, and a count of its products."""
    one = jacobian.select(torch.tensor([row]))
    count = [0]

    def gram(v: Tensor) -> Tensor:
        count[0] += 2
        return one.rmatvec(one.matvec(v.view_as(one.like))).flatten()

    return gram, count


def by_scipy(jacobian: Jacobian, row: int) -> tuple[float, int]:
    """Largest singular value of one image by svds, and its products."""
    one = jacobian.select(torch.tensor([row]))
    count = [0]

    def apply(product: Callable[[Tensor], Tensor]) -> Callable[[np.ndarray], np.ndarray]:
        def flat(v: np.ndarray) -> np.ndarray:
            count[0] += 1
            vector = torch.from_numpy(v.astype(np.float32)).view_as(one.like)
            return product(vector).flatten().numpy()

        return flat

    size = one.like.numel()
    operator = LinearOperator(
        (size, size), matvec=apply(one.matvec), rmatvec=apply(one.rmatvec), dtype=np.float32
    )
    value = svds(operator, k=1, return_singular_vectors=False, random_state=0)[0]
    return float(value), count[0]


def by_eigenthings(jacobian: Jacobian, row: int, iterations: int) -> float:
    """Largest singular value of one image by Lanczos on J^T J."""
    gram, _ = single(jacobian, row)
    operator = LambdaOperator(gram, jacobian.like[0].numel())
    result = lanczos(operator, k=1, max_iter=iterations, reorthogonalize=True, seed=0)
    return float(result.eigenvalues[0]) ** 0.5


def iterations_needed(jacobian: Jacobian, row: int, truth: float, errors: list[float]) -> list[int]:
    """Fewest steps with which hessian-eigenthings is within each error of the truth."""
    gram, _ = single(jacobian, row)
    size = jacobian.like[0].numel()
    start = torch.randn(size, generator=torch.Generator().manual_seed(0))
    run = lanczos_tridiagonal(LambdaOperator(gram, size), start, 40)
    whole = torch.diag(run.alphas) + torch.diag(run.betas, 1) + torch.diag(run.betas, -1)
    ritz = [torch.linalg.eigvalsh(whole[:k, :k].double())[-1].sqrt().item() for k in range(1, 41)]
    return [
        next((k for k, r in enumerate(ritz, 1) if abs(r / truth - 1) <= error), 40)
        for error in errors
    ]


def solvers(name: str) -> None:
    """Time, products and accuracy on one trained network."""
    x = fashion.images("t10k")[0][:IMAGES]
    attribution = ab.IntegratedGradients(fashion.network(name), steps=STEPS)
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
    best: dict[str, float] = {}
    scipy_products: list[int] = []
    error = {
        key: max(abs(solver(jacobian).value.lower / torch.tensor(truth) - 1).max().item(), 1e-6)
        for key, solver in [("upper", default), ("ritz", ritz)]
    }
    counts = [iterations_needed(jacobian, row, truth[row], [*error.values()]) for row in rows]
    needed = dict(zip(error, zip(*counts, strict=True), strict=True))

    def ours(key: str, solver: ab.SpectralSolver) -> None:
        found[key] = solver(attribution.linearize(x).jacobian)

    def scipy() -> None:
        fresh = attribution.linearize(x).jacobian
        scipy_products[:] = [by_scipy(fresh, row)[1] for row in rows]

    def eigenthings(iterations: tuple[int, ...]) -> None:
        fresh = attribution.linearize(x).jacobian
        for row in rows:
            by_eigenthings(fresh, row, iterations[row])

    def product(times: int = 5) -> None:
        for _ in range(times):
            jacobian.matvec(x)

    work: dict[str, Callable[[], None]] = {
        "ours": lambda: ours("upper", default),
        "ours, Ritz value only": lambda: ours("ritz", ritz),
        "SciPy svds": scipy,
        "hessian-eigenthings, as accurate": lambda: eigenthings(needed["upper"]),
        "hessian-eigenthings, as accurate as Ritz only": lambda: eigenthings(needed["ritz"]),
        "five products": product,
    }
    for _ in range(ROUNDS):
        for key, job in work.items():
            best[key] = min(best.get(key, float("inf")), seconds(job))
    products = found["upper"].products.double()
    raw = best["five products"] / 5
    gap = (found["upper"].value.upper / torch.tensor(truth) - 1).max().item()

    def line(label: str, ratio: float, goal: str) -> list[object]:
        return [label, float(ratio), goal]

    print(
        render(
            f"Fashion-MNIST {name}, IG of {STEPS} steps, {IMAGES} images, "
            f"{torch.get_num_threads()} threads",
            ["", "measured", "goal"],
            [
                line(
                    "dense Jacobian + SVD / ours (2 images, scaled)",
                    dense_time / best["ours"],
                    ">= 20",
                ),
                line("SciPy svds / ours", best["SciPy svds"] / best["ours"], ">= 1.5"),
                line(
                    "hessian-eigenthings / ours, Ritz value as accurate as ours",
                    best["hessian-eigenthings, as accurate"] / best["ours"],
                    ">= 1",
                ),
                line(
                    "hessian-eigenthings / ours, both with a residual of 1 %",
                    best["hessian-eigenthings, as accurate as Ritz only"]
                    / best["ours, Ritz value only"],
                    ">= 1",
                ),
                line(
                    "our time / (products x raw product)",
                    best["ours"] / (raw * products.mean()),
                    "<= 1.25",
                ),
                line("products per image, ours: mean", products.mean(), ""),
                line("products per image, ours: max", products.max(), ""),
                line(
                    "products per image, ours, Ritz value only",
                    found["ritz"].products.double().mean(),
                    "",
                ),
                line("products per image, SciPy", float(np.mean(scipy_products)), ""),
                line(
                    "products per image, hessian-eigenthings",
                    2 * float(np.mean(needed["upper"])),
                    "",
                ),
                line("upper / truth - 1, largest", gap, "0 to 0.015"),
                line("Ritz / truth - 1, largest error", error["upper"], ""),
                line("seconds, ours", best["ours"], ""),
            ],
        )
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


def scaling(channels: int, side: int) -> None:
    """Products and peak memory at one size (in a process of its own)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, channels, side, side, generator=generator)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    attribution = ab.IntegratedGradients(convolutional(channels), steps=5)
    start = time.perf_counter()
    bound = ab.bound(attribution, x, ab.L2Ball(0.1))
    elapsed = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{x[0].numel()} {bound.products.double().mean():.1f} {peak:.0f} {peak - before:.0f} "
        f"{elapsed / len(x):.2f}"
    )


def main() -> None:
    """Run one part, or all of them."""
    if len(sys.argv) == 3:
        scaling(int(sys.argv[1]), int(sys.argv[2]))
        return
    for name in fashion.NETWORKS:
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
            f"\nA small convolutional network, IG of 5 steps: products from the smallest to the "
            f"largest input x {max(counts) / min(counts):.2f}",
            ["features", "products", "peak memory", "of it ours", "seconds an image"],
            rows,
        )
    )


if __name__ == "__main__":
    main()
