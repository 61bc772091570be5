"""The rows of one block: an audit, or the l-infinity problem at x."""

from __future__ import annotations

import hashlib
import json
import math
import time
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor, nn

import attribound as ab
import fashion
from attribound.attacks import Ascend, Attack, AttributionAscent, BestOf
from attribound.attacks.engine import Search
from attribound.attacks.steps import InBall
from attribound.bounding.first_order.entrywise_sum import entrywise_sum
from attribound.bounding.first_order.norm_relaxation import norm_relaxation
from claims.plan import LARGE, LARGE_IMAGES, Block
from claims.store import BOUNDS, LINEAR, MEASURED_BY

_PICTURES = 200  # of CIFAR-10, from which a few are taken

ATTRIBUTIONS: dict[str, ab.Attribution] = {
    "saliency": ab.Saliency(),
    "ig-3": ab.IntegratedGradients(steps=3, quadrature="gauss_legendre", label="ig-3"),
}


@dataclass(frozen=True)
class RandomAscent(AttributionAscent):
    """The same ascent from random points alone, so that a bound can know none of its starts."""

    @property
    def search(self) -> Search:
        """Ascent from random points."""
        return replace(super().search, starts=(InBall(self.random_starts),))


#: Two passes. Mean-value bounds seed their search with an ascent of their own; the first pass goes
#: further or takes other steps, but its starts are among those of that ascent. Bounds and first
#: pass draw from seeds 0, 1000, 2000 ...: never the points of the second. The linear optimum is
#: left out there because the first has climbed from it with as many steps.
ATTACKS: dict[str, Attack] = {
    "first": BestOf(
        AttributionAscent(steps=16, random_starts=1, seed=1000),
        AttributionAscent(steps=16, step=Ascend(), seed=2000),
    ),
    "second": RandomAscent(steps=16, random_starts=2, seed=500),
}
#: The norm solver with fewer steps than by default, because mean-value bounds call it often.
FIRST_ORDER = ab.FirstOrder(
    norm=ab.NormSolver(iterations=3, roundings=2, solver=ab.SpectralSolver(tolerance=0.02))
)
#: Two random starts, as many as were the default when the rows were stored.
MEAN_VALUE = ab.MeanValue(
    shells=2, rounds=1, attack=AttributionAscent(random_starts=2), first_order=FIRST_ORDER
)
METHODS = (FIRST_ORDER, ab.Adjusted(), MEAN_VALUE)
AT_X = {"norm": ab.NormSolver(), "spectral": ab.SpectralSolver()}


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


@cache
def network(name: str) -> nn.Module:
    """A network, without gradients of its parameters."""
    if name in LARGE:
        shipped = LARGE[name]
        model = convolutional(3) if shipped is None else ab.zoo.load(shipped)
    else:
        model = fashion.network(name)
    return model.requires_grad_(False)


@cache
def choice(name: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Index, image and label of the correctly classified test images, in a random order."""
    generator = torch.Generator().manual_seed(seed)
    if name in LARGE and LARGE[name] is None:
        x = torch.rand(LARGE_IMAGES, 3, 32, 32, generator=generator)
        return torch.arange(LARGE_IMAGES), x, network(name)(x).argmax(1)
    if name in LARGE:
        pictures = ab.data.load("cifar10", "test")
        x, y = pictures.read(torch.arange(_PICTURES)), pictures.labels[:_PICTURES]
    else:
        x, y = fashion.images("t10k")
    order = torch.randperm(len(x), generator=generator)
    with torch.no_grad():
        hits = torch.cat([network(name)(some).argmax(1) for some in x.split(500)]) == y
    order = order[hits[order]]
    return order, x[order], y[order]


def places(block: Block) -> list[int]:
    """Places in :func:`choice`: tests at even, calibration at odd ones, so that never both.

    More images of either role leave those already chosen as they are.
    """
    if block.network in LARGE:
        return list(block.images)
    return [2 * i + (block.role == "calibration") for i in block.images]


@cache
def recognised(name: str) -> str:
    """Digest of a network's parameters."""
    digest = hashlib.sha256()
    for key, value in network(name).state_dict().items():
        digest.update(key.encode() + value.numpy().tobytes())
    return digest.hexdigest()[:16]


def options(block: Block) -> dict[str, Any]:
    """What the block is computed with."""
    common = {"attributions": [ATTRIBUTIONS[block.attribution]]}
    if block.ball is None:
        return common | AT_X
    claims = [*METHODS, ab.Certified()] if block.certified else [*METHODS]
    return common | {"balls": [block.ball], "claims": claims, "attacks": ATTACKS}


def described(block: Block, seed: int) -> str:
    """Everything that the rows of a block depend on, beside the images."""
    versions = {"attribound": MEASURED_BY, "torch": torch.__version__}
    known = {**versions, "network": recognised(block.network), "seed": seed}
    return json.dumps(known | ab.to_spec(options(block), whole=True), sort_keys=True)


def measure(block: Block, seed: int) -> pa.Table:
    """The rows of one block, of :data:`BOUNDS` or :data:`LINEAR`.

    Raises:
        RuntimeError: an image could not be measured.
    """
    order, images, labels = choice(block.network, seed)
    at = places(block)
    x, target, model = images[at], labels[at], network(block.network)
    if block.ball is None:
        rows = compared(ATTRIBUTIONS[block.attribution].of(model), x, target)
    else:
        run = ab.audit(model, (x, target), batch=len(x), maps="none", **options(block))
        rows = run.rows().to_pylist()  # in the order of the images
    errors = {row["error"] for row in rows if row.get("error")}
    if errors:
        raise RuntimeError(f"{block}: {'; '.join(errors)}")
    common = {"network": block.network, "role": block.role, "settings": described(block, seed)}
    for row, place, index in zip(rows, block.images, order[at].tolist(), strict=True):
        row |= {**common, "place": place, "sample": index}
    return pa.Table.from_pylist(rows, LINEAR if block.ball is None else BOUNDS)


def compared(attribution: ab.Attribution, x: Tensor, target: Tensor) -> list[dict[str, Any]]:
    """Max |J delta| over the unit cube by the norm solver, Theorem 2 and Corollary 1."""
    rows: list[dict[str, Any]] = []
    for part, some in attribution.groups(x):
        jacobian = part.linearize(x[some], target[some]).jacobian
        count, size = len(x[some]), x[0].numel()
        started = time.perf_counter()
        norm = AT_X["norm"](jacobian, math.inf)
        solved = time.perf_counter()
        with torch.no_grad():
            theorem2 = entrywise_sum(jacobian)
        summed = time.perf_counter()
        spectral = AT_X["spectral"](jacobian)
        shared = {
            "attribution": attribution.name,
            "features": size,
            "theorem2_products": size,
            "theorem2_seconds": (summed - solved) / count,
            "norm_seconds": (solved - started) / count,
        }
        own = {
            "label": target[some],
            "theorem2": theorem2,
            "corollary1": norm_relaxation(spectral, math.inf),
            "corollary1_products": spectral.products,
            "norm_lower": norm.value.lower,
            "norm_upper": norm.value.upper,
            "norm_products": norm.products,
        }
        for i, status in enumerate(norm.status):
            numbers = {name: values[i].item() for name, values in own.items()}
            rows.append({**shared, **numbers, "norm_status": str(status)})
    return rows
