"""``make bench``: the spectral solver against what users have today, as ratios from one run.

Everything runs on the same Jacobian operator, so that the ratios compare
algorithms; hessian-eigenthings also on PyTorch's own double backward, and SciPy's svds
on the Hessian of curvlinops, which is what their users have. Ratios are medians over
interleaved rounds of CPU time on one thread. curvlinops is measured if it is there: ``make peers``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import Tensor

import attribound as ab
import fashion
from attribound.basics.tables import render
from attribound.networks.frozen import frozen
from attribound.operators import dense
from attribound.results import SpectralEstimate
from peers import (
    STEPS,
    HessianLinearOperator,
    by_curvlinops,
    by_eigenthings,
    by_scipy,
    iterations_needed,
    plain,
    single,
)

IMAGES = 8
FEW = 2  # for what takes long
ROUNDS = 3


def seconds(work: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def solvers(name: str) -> None:
    """Time, products and accuracy on one trained network."""
    x = fashion.images("t10k")[0][:IMAGES]
    model = fashion.network(name)
    attribution = ab.IntegratedGradients(model, steps=STEPS)
    jacobian = attribution.linearize(x).jacobian
    default, ritz = ab.SpectralSolver(), ab.SpectralSolver(stop="ritz")
    rows = range(IMAGES)

    start = time.process_time()
    matrices = [dense(jacobian, row, at_once=3) for row in rows[:FEW]]
    truth2 = [float(torch.linalg.svdvals(matrix)[0]) for matrix in matrices]
    dense_time = (time.process_time() - start) / FEW * IMAGES

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
        each = [fresh.select(torch.tensor([row])) for row in rows]
        scipy_products[:] = [by_scipy(one.matvec, one.rmatvec, one.domain)[1] for one in each]

    def eigenthings(iterations: tuple[int, ...]) -> None:
        fresh = attribution.linearize(x).jacobian
        for row in rows:
            by_eigenthings(single(fresh, row)[0], x[0].numel(), iterations[row])

    def eigenthings_plain(iterations: tuple[int, ...]) -> None:
        with frozen(model):
            plain_values[:] = [
                by_eigenthings(plain(model, x[row]), x[0].numel(), iterations[row])
                for row in rows[:FEW]
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
    for times in rounds:  # scaled to the steps of all images
        for key, counts in {"our steps": as_ours, "Ritz error": as_exact}.items():
            times[f"hessian-eigenthings, {key}, PyTorch"] *= sum(counts) / sum(counts[:FEW])

    def ratio(above: str, below: str) -> float:
        """Median over rounds: the machine is noisy, neighbours in time are comparable."""
        return median(times[above] / times[below] for times in rounds)

    off = max(abs(a / b - 1) for a, b in zip(plain_values, truth, strict=False))
    print(f"PyTorch's own products give the same values to {off:.1g}")
    products = found["upper"].products.double()
    gap = (found["upper"].value.upper / torch.tensor(truth) - 1).max().item()
    raw = "five products"
    ritz_error = (found["upper"].value.lower / torch.tensor(truth) - 1).abs().max().item()
    rows_shown: list[tuple[str, float | str, str]] = [
        (
            f"dense Jacobian + SVD / ours ({FEW} images, scaled)",
            dense_time / median(times["ours"] for times in rounds),
            ">= 20",
        ),
        ("SciPy svds on our products / ours", ratio("SciPy svds", "ours"), ">= 1.7"),
        ("SciPy svds on curvlinops' Hessian / ours, one image", curvlinops(attribution, x), ">= 1"),
        (
            f"hessian-eigenthings on PyTorch's double backward ({FEW}) / ours, as many steps",
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
            f"Fashion-MNIST {name}, IG of {STEPS} steps, {IMAGES} images, CPU time on one thread",
            ["", "measured", "goal"],
            rows_shown,
        ),
        flush=True,
    )


def curvlinops(attribution: ab.IntegratedGradients, x: Tensor) -> float | str:
    """Time of svds on the Hessian of curvlinops / of our solver, for one image: it takes long."""
    if HessianLinearOperator is None:
        return "not installed"
    model, one, label = attribution.classifier.model, x[:1], attribution.targets(x[:1])
    found: dict[str, float] = {}

    def theirs() -> None:
        with frozen(model):
            found["theirs"], _ = by_scipy(*by_curvlinops(model, one[0], label), one[0])

    def ours() -> None:
        found["ours"] = ab.SpectralSolver()(attribution.linearize(one).jacobian).value.lower.item()

    ratio = median(seconds(theirs) / seconds(ours) for _ in range(ROUNDS))
    off = abs(found["theirs"] / found["ours"] - 1)
    print(f"curvlinops' products give the same value to {off:.1g}")
    return ratio


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


def main() -> None:
    """Both networks, then the products themselves."""
    torch.set_num_threads(1)
    for name in ("nat", "at"):
        solvers(name)
    hessian_products()


if __name__ == "__main__":
    main()
