"""Train a small softplus network on the embedded digits, then bound and attack its explanations.

``python examples/digits.py`` takes a few seconds and no download, but scikit-learn.
"""

from __future__ import annotations

import time

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import attribound as ab
from attribound.basics.tables import render

IMAGES = 8
CLAIMS = ["first_order", "mean_value", "certified"]


def train() -> tuple[nn.Module, Tensor, Tensor]:
    """A network 64-64-64-10 trained on 1,500 digits; the other 297 with their labels."""
    torch.manual_seed(0)
    digits = load_digits()
    x = torch.as_tensor(digits.data, dtype=torch.float32) / 16
    y = torch.as_tensor(digits.target)
    order = torch.randperm(len(x))
    x, y = x[order], y[order]
    model = nn.Sequential(
        nn.Linear(64, 64),
        nn.Softplus(beta=20),
        nn.Linear(64, 64),
        nn.Softplus(beta=20),
        nn.Linear(64, 10),
    )
    optimiser = torch.optim.Adam(model.parameters(), 3e-3, weight_decay=1e-4)
    for _ in range(200):
        rows = torch.randint(1500, (256,))
        loss = cross_entropy(model(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval(), x[1500:], y[1500:]


def main() -> None:
    """Print what bounds promise and what an attack attains, for two balls."""
    start = time.perf_counter()
    model, x, y = train()
    with torch.no_grad():
        accuracy = (model(x).argmax(1) == y).float().mean().item()
    seconds = time.perf_counter() - start
    print(f"Trained in {seconds:.1f} s: {accuracy:.1%} of {len(x)} test digits right.\n")

    attribution = ab.IntegratedGradients(model, steps=20)
    x = x[:IMAGES]
    gap = attribution.completeness_gap(x).mean().item()
    print(f"Integrated gradients of {IMAGES} digits; mean completeness gap {gap:.3f} logits.\n")
    for ball in (ab.L2Ball(0.25), ab.LinfBall(0.05)):
        found = ab.attacks.AttributionAscent(random_starts=2, seed=1)(attribution, x, ball)
        bounds = ab.bounds(attribution, x, ball, claims=CLAIMS)
        first = bounds["first_order"]
        rows = [
            [int(label), *map(float, numbers), bool(kept), source]
            for label, *numbers, kept, source in zip(
                first.target,
                first.attribution_norm,
                found.deviation,
                first.adjusted,
                *[bounds[claim].euclidean for claim in CLAIMS],
                found.label_kept,
                first.source,
                strict=True,
            )
        ]
        header = ["digit", "|g|", "attained", "adjusted", *CLAIMS, "label kept", "first-order by"]
        print(render(f"{ball}: how far the explanation moves", header, rows))
        print(bounds)
        shares = [
            f"{ab.validate(bounds[claim], found).summary['broken']:.0%} {claim}" for claim in CLAIMS
        ]
        print(f"Digits whose bound the attack exceeds: {', '.join(shares)}.\n")
    for claim in ab.Claim:
        print(f"{claim}: {claim.meaning}")


if __name__ == "__main__":
    main()
