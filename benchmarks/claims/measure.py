"""The rows of one part: bounds and attacks, or the l-infinity problem at x."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor, nn

import attribound as ab
import fashion
from attribound import zoo
from attribound.attacks import Ascend, Attack, AttributionAscent
from attribound.attacks.engine import Search
from attribound.attacks.steps import InBall
from attribound.bounding.first_order.entrywise_sum import entrywise_sum
from attribound.bounding.first_order.norm_relaxation import norm_relaxation
from attribound.data import load
from attribound.spectral import NormSolver
from claims.plan import LARGE, LARGE_IMAGES, Part, Settings, places
from claims.store import Row
from core import convolutional

_PICTURES = 200  # of CIFAR-10, from which a few are taken

METHODS: dict[str, Callable[[nn.Module], ab.Attribution]] = {
    "saliency": ab.Saliency,
    "ig-3": lambda model: ab.IntegratedGradients(model, steps=3, quadrature="gauss_legendre"),
}


@dataclass(frozen=True)
class RandomAscent(AttributionAscent):
    """The same ascent from random points alone, so that a bound can know none of its starts."""

    @property
    def search(self) -> Search:
        """Ascent from random points."""
        return replace(super().search, starts=(InBall(self.random_starts),))


#: Scores the bounds. Mean-value bounds seed their search with an ascent of their own; these trials
#: go further or take other steps, but their starts are among those of that ascent.
ATTACKS: dict[str, Attack] = {
    "ascent": AttributionAscent(steps=16, random_starts=1, seed=1000),
    "projected ascent": AttributionAscent(steps=16, step=Ascend(), seed=2000),
}
#: Scores them again. Bounds and first pass draw from seeds 0, 1000, 2000 ...: never these points.
#: The linear optimum is left out because the first pass has climbed from it with as many steps.
ATTACKS_AGAIN: dict[str, Attack] = {
    "random ascent": RandomAscent(steps=16, random_starts=2, seed=500),
}
#: The norm solver with fewer steps than by default, because mean-value bounds call it often.
FIRST_ORDER = ab.FirstOrder(
    norm=NormSolver(iterations=3, roundings=2, solver=ab.SpectralSolver(tolerance=0.02))
)
BOUNDS: dict[str, ab.FirstOrder | ab.MeanValue | ab.Certified] = {
    "first_order": FIRST_ORDER,
    "mean_value": ab.MeanValue(shells=2, rounds=1, first_order=FIRST_ORDER),
    "certified": ab.Certified(),
}


@cache
def network(name: str) -> nn.Module:
    """A network, without gradients of its parameters."""
    if name not in LARGE:
        model = fashion.network(name)
    else:
        shipped = LARGE[name]
        model = convolutional(3) if shipped is None else zoo.load(shipped)
    return model.requires_grad_(False)


@cache
def choice(name: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Index, image and label of the correctly classified test images, in a random order."""
    generator = torch.Generator().manual_seed(seed)
    if name in LARGE and LARGE[name] is None:
        x = torch.rand(LARGE_IMAGES, 3, 32, 32, generator=generator)
        return torch.arange(LARGE_IMAGES), x, network(name)(x).argmax(1)
    if name in LARGE:
        pictures = load("cifar10", "test")
        x, y = pictures.read(torch.arange(_PICTURES)), pictures.labels[:_PICTURES]
    else:
        x, y = fashion.images("t10k")
    order = torch.randperm(len(x), generator=generator)
    with torch.no_grad():
        hits = torch.cat([network(name)(some).argmax(1) for some in x.split(500)]) == y
    order = order[hits[order]]
    return order, x[order], y[order]


@cache
def fingerprint(name: str) -> str:
    """Digest of a network's parameters."""
    digest = hashlib.sha256()
    for key, value in network(name).state_dict().items():
        digest.update(key.encode() + value.numpy().tobytes())
    return digest.hexdigest()[:16]


def described(part: Part, settings: Settings) -> dict[str, object]:
    """Everything the rows of a part depend on."""
    common: dict[str, object] = {
        "attribound": ab.__version__,
        "torch": torch.__version__,
        "network": fingerprint(part.network),
        "seed": settings.seed,
        "images": [part.images.start, part.images.stop],
    }
    if part.ball is None:
        return {**common, "norm": repr(NormSolver()), "spectral": repr(ab.SpectralSolver())}
    if part.again:
        return {**common, "attack_again": _shown(ATTACKS_AGAIN)}
    claims = part.claims(settings)
    return {
        **common,
        "attack": _shown(ATTACKS),
        **{name: repr(BOUNDS[name]) for name, count in claims.items() if count},
        "claims": claims,
    }


def _shown(attacks: dict[str, Attack]) -> dict[str, str]:
    return {name: repr(attack) for name, attack in attacks.items()}


def linear_rows(attribution: ab.Attribution, x: Tensor, target: Tensor) -> list[Row]:
    """Max |J delta| over the unit cube by the norm solver, Theorem 2 and Corollary 1."""
    rows: list[Row] = []
    for part, some in attribution.groups(x):
        jacobian = part.linearize(x[some], target[some]).jacobian
        size = jacobian.like[0].numel()
        count = len(jacobian.like)
        started = time.perf_counter()
        norm = NormSolver()(jacobian, math.inf)
        solved = time.perf_counter()
        with torch.no_grad():
            theorem2 = entrywise_sum(jacobian)
        summed = time.perf_counter()
        spectral = ab.SpectralSolver()(jacobian)
        corollary1 = norm_relaxation(spectral, math.inf)
        rows += [
            {
                "theorem2": theorem2[i].item(),
                "theorem2_products": size,
                "theorem2_seconds": (summed - solved) / count,
                "corollary1": corollary1[i].item(),
                "corollary1_products": spectral.products[i].item(),
                "norm_lower": norm.value.lower[i].item(),
                "norm_upper": norm.value.upper[i].item(),
                "norm_products": norm.products[i].item(),
                "norm_status": str(norm.status[i]),
                "norm_seconds": (solved - started) / count,
            }
            for i in range(count)
        ]
    return rows


def attacked_rows(
    attribution: ab.Attribution,
    x: Tensor,
    ball: ab.LpBall,
    target: Tensor,
    attacks: dict[str, Attack],
) -> list[Row]:
    """The strongest of ``attacks`` on each image."""
    started = time.perf_counter()
    trials = {name: attack(attribution, x, ball, target) for name, attack in attacks.items()}
    elapsed = (time.perf_counter() - started) / len(x)
    deviations = torch.stack([found.deviation for found in trials.values()])
    best, which = deviations.max(0)
    names = list(trials)
    return [
        {
            "attack": best[i].item(),
            "attack_by": names[which[i]],
            "attack_label_kept": bool(trials[names[which[i]]].label_kept[i]),
            "attack_gradients": sum(found.evaluations for found in trials.values()),
            "attack_seconds": elapsed,
        }
        for i in range(len(x))
    ]


def claimed_rows(
    attribution: ab.Attribution,
    x: Tensor,
    ball: ab.LpBall,
    target: Tensor,
    claims: dict[str, int],
) -> list[Row]:
    """The bound of each claim, of as many of the first images as ``claims`` says."""
    rows: list[Row] = [{} for _ in x]
    for count in sorted({count for count in claims.values() if count}, reverse=True):
        names = [name for name, images in claims.items() if images == count]
        found = ab.bounds(
            attribution, x[:count], ball, target[:count], claims=names, methods=BOUNDS
        )
        for name in names:
            bound = found[name]
            for i, row in enumerate(rows[:count]):
                row[name] = bound.euclidean[i].item()
                row[f"{name}_source"] = bound.source[i]
                row[f"{name}_status"] = str(bound.status[i])
                row[f"{name}_products"] = bound.products[i].item()
                row[f"{name}_seconds"] = found.seconds[name] / count
                if name == "first_order":
                    row["adjusted"] = bound.adjusted[i].item()
                    row["attribution_norm"] = bound.attribution_norm[i].item()
    return rows


def measure(part: Part, settings: Settings) -> list[Row]:
    """The rows of one part."""
    order, images, labels = choice(part.network, settings.seed)
    chosen = list(part.images) if part.network in LARGE else places(part.role, part.images)
    x, target = images[chosen], labels[chosen]
    attribution = METHODS[part.attribution](network(part.network))
    if part.ball is None:
        rows = linear_rows(attribution, x, target)
    elif part.again:
        rows = attacked_rows(attribution, x, part.ball, target, ATTACKS_AGAIN)
    else:
        claims = part.claims(settings)
        bounded = claimed_rows(attribution, x, part.ball, target, claims)
        hit = attacked_rows(attribution, x, part.ball, target, ATTACKS)
        rows = [{**a, **b} for a, b in zip(bounded, hit, strict=True)]
    for row, index, label in zip(rows, order[chosen].tolist(), target.tolist(), strict=True):
        row |= {
            "network": part.network,
            "attribution": part.attribution,
            "role": part.kind,
            "p": math.inf if part.ball is None else float(part.ball.p),
            "epsilon": None if part.ball is None else float(part.ball.epsilon),
            "sample": index,
            "label": label,
            "features": x[0].numel(),
        }
    return rows
