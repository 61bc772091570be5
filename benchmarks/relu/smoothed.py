"""Certificates of averaged maps: how far they turn, beside attacks, anchors and votes.

One example of one network is a block: one sample of draws gives its rows at all radii. The
anchors of the literature are on the same draws: the mean-only form (Levine et al. 2019) and votes
of pixels (Anani et al. 2025); uniform noise (Wang and Kong 2024) has a sample of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor, nn

import attribound as ab
import credit
import fashion
from attribound.attributions import Classifier
from attribound.bounding.smoothed.turning import Turning, mean_only_degrees
from attribound.values import Record
from claims.store import MEASURED_BY, RESULTS, Stored
from relu import networks, transformer
from relu.networks import NETWORKS, Network

TABLE = RESULTS / "smoothed.parquet"
RADII = (0.05, 0.1, 0.25)
_TEXT, _NUMBER, _COUNT = pa.string(), pa.float64(), pa.int64()
KEY = {"network": _TEXT, "role": _TEXT, "place": _COUNT, "settings": _TEXT}
SCHEMA = pa.schema(
    {
        **KEY,
        "epsilon": _NUMBER,
        "sample": _COUNT,
        "degrees": _NUMBER,
        "shown_degrees": _NUMBER,
        "mean_only": _NUMBER,  # degrees, from the same draws
        "uniform": _NUMBER,  # degrees, from a fifth as many draws of uniform noise
        "attack": _NUMBER,  # degrees, of the averaged map
        "similarity": _NUMBER,
        "label_share": _NUMBER,
        "status": _TEXT,
        "k": _COUNT,  # of the votes
        "inside": _COUNT,  # pixels that provably stay in
        "outside": _COUNT,
        "scores": _COUNT,
        "overlap": _COUNT,  # of the k, provably
        "draws": _COUNT,
        "seconds": _NUMBER,  # of the processor, for all radii
        "attack_seconds": _NUMBER,  # at this radius
    }
)


def _softplus(name: str, stored: str) -> Network:
    """As it was trained."""
    needs = (fashion.FASHION, fashion.WEIGHTS)
    images = partial(fashion.images, "t10k")
    make = partial(fashion.network, stored)
    about = "SmallCNN with softplus (beta 20), Fashion-MNIST"
    return Network(name, about, "cnn", make, images, (), needs)


def _transformer() -> Network:
    needs = (fashion.FASHION, fashion.WEIGHTS)
    images = partial(fashion.images, "t10k")
    about = "transformer of two layers, Fashion-MNIST"
    return Network("transformer", about, "cnn", transformer.load, images, (), needs)


def _resnet50() -> Network:
    """Weights that others trained."""
    file = credit.shared("checkpoints", "imagenet-resnet50-standard.safetensors")
    folder = credit.shared("imagenet")

    def make() -> nn.Module:
        from reproduction.paper.networks import KERAS_RESNET50  # noqa: PLC0415 - heavy

        return ab.models.load(file, KERAS_RESNET50, dtype=torch.float32)

    def pictures() -> tuple[Tensor, Tensor]:
        found = ab.data.load("imagenet", root=folder.parent)
        rows = torch.arange(0, len(found), 10)
        return found.read(rows), found.labels[rows]

    about = "ResNet-50 at 224 x 224, ImageNet"
    return Network("resnet50", about, "huge", make, pictures, (), (file, folder))


_SHOWN = ("credit-german-nat", "credit-german-at", "credit-taiwan-nat", "credit-taiwan-at")
SUBJECTS = {
    each.name: each
    for each in (
        NETWORKS["cnn-at"],
        NETWORKS["cnn-nat"],
        _softplus("softplus-at", "at"),
        _softplus("softplus-nat", "nat"),
        NETWORKS["narrow-at"],
        NETWORKS["narrow-nat"],
        *(NETWORKS[name] for name in _SHOWN),
        _transformer(),
        NETWORKS["resnet18"],
        _resnet50(),
    )
}
#: Draws by the size of a network; 5,000 of ResNet-50 would take half an hour an example.
DRAWS = {"mlp": 100_000, "cnn": 5000, "narrow": 5000, "wide": 5000, "huge": 200}
EXAMPLES = {"mlp": 8, "cnn": 8, "narrow": 4, "wide": 2, "huge": 2}


@dataclass(frozen=True)
class Smoothing(Record):
    """How much is computed.

    Attributes:
        examples: at most so many of each network.
        seed: of the choice of examples.
        networks: which.
    """

    examples: int = 8
    seed: int = 0
    networks: tuple[str, ...] = tuple(SUBJECTS)


def method_of(network: str) -> ab.Smoothed:
    """The effort for a network."""
    return ab.Smoothed(draws=DRAWS[SUBJECTS[network].size])


def attack_of(network: str) -> ab.attacks.AveragedAscent:
    """Judged on fewer draws than the certificate; the widest is not climbed: that took hours."""
    if SUBJECTS[network].size == "huge":
        return ab.attacks.AveragedAscent(betas=(), climbing=4, judging=40)
    return ab.attacks.AveragedAscent(climbing=16, judging=500)


@cache
def chosen(network: str, seed: int) -> networks.Chosen:
    """Examples that are classified correctly, in a random order."""
    subject = SUBJECTS[network]
    if network in NETWORKS:
        return networks.chosen(network, seed)
    x, y = subject.examples()
    with torch.no_grad():
        hits = torch.cat([model_of(network)(some).argmax(1) for some in x.split(50)]) == y
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    order = order[hits[order]]
    return networks.Chosen(order, x[order], y[order], hits.double().mean().item())


@cache
def model_of(network: str) -> nn.Module:
    """The network, without gradients of its parameters."""
    if network in NETWORKS:
        return networks.model_of(network)
    return SUBJECTS[network].make().eval().requires_grad_(False)


def described(network: str, seed: int) -> str:
    """Everything that the rows of a network depend on, beside the example."""
    known = {
        "attribound": MEASURED_BY,
        "torch": torch.__version__,
        "about": SUBJECTS[network].about,
        "seed": seed,
        "radii": RADII,
        "method": ab.to_spec(method_of(network), whole=True),
        "attack": ab.to_spec(attack_of(network), whole=True),
    }
    return json.dumps(known, sort_keys=True)


def plan(settings: Smoothing) -> Iterator[tuple[str, int]]:
    """Network and place; every network gets its first example before any gets its second."""
    for place in range(settings.examples):
        for name in settings.networks:
            subject = SUBJECTS[name]
            if subject.missing is None and place < EXAMPLES[subject.size]:
                yield name, place


def key(block: tuple[str, int], settings: Smoothing) -> tuple[str, str, int, str]:
    """What tells the rows of a block apart."""
    return block[0], "test", block[1], described(block[0], settings.seed)


def stored(path: Path = TABLE) -> Stored:
    """The table."""
    return Stored(path, SCHEMA)


def missing(table: Stored, settings: Smoothing) -> list[tuple[str, int]]:
    """What of the plan is not there."""
    there = table.keys()
    return [block for block in plan(settings) if key(block, settings) not in there]


def run(table: Stored, settings: Smoothing, told: Callable[[str], None] = print) -> None:
    """Compute what is missing, one example after the other."""
    todo = missing(table, settings)
    for done, block in enumerate(todo, 1):
        table.add(measure(block, settings))
        told(f"smoothed {done}/{len(todo)}: {block[0]}, example {block[1]}")


def measure(block: tuple[str, int], settings: Smoothing) -> pa.Table:
    """The rows of one example, one a radius."""
    name, place = block
    data, method = chosen(name, settings.seed), method_of(name)
    x, label = data.x[place : place + 1], data.labels[place : place + 1]
    saliency = ab.Saliency(Classifier(model_of(name)))
    questions = [ab.Question(saliency, x, ab.L2Ball(radius), label) for radius in RADII]
    start = time.process_time()
    ((_, known),) = method.examples(questions)
    seconds = time.process_time() - start
    uniform = _uniform(saliency, x, label, method)
    rows = []
    for radius, question, (example, to) in zip(RADII, questions, known, strict=True):
        turning = method.turning(example, to)
        certain = example.votes.certain(to.shift)
        start = time.process_time()
        about = method.speaks_of(saliency, x, question.ball)
        found = attack_of(name)(about, x, question.ball, label)
        spent = time.process_time() - start
        degrees = turning.moves(to.shift)[0]
        rows.append(
            {
                **dict(zip(KEY, key(block, settings), strict=True)),
                "epsilon": radius,
                "sample": int(data.index[place]),
                "degrees": degrees,
                "shown_degrees": turning.shown(to.shift),
                "mean_only": mean_only_degrees(example.average.length, to.shift),
                "uniform": uniform.moves(to.shift)[0],
                "attack": found.degrees.item(),
                "similarity": example.similarity,
                "label_share": example.label_share,
                "status": str(ab.Status.CONVERGED if example.similarity >= 0.7 else _OTHER),
                "k": example.votes.k,
                "inside": int(certain[0].sum()),
                "outside": int(certain[1].sum()),
                "scores": example.votes.share.size,
                "overlap": example.votes.overlap(to.shift),
                "draws": method.draws,
                "seconds": seconds,
                "attack_seconds": spent,
            }
        )
    return pa.Table.from_pylist(rows, SCHEMA)


_OTHER = ab.Status.ANOTHER_EXPLANATION


def _uniform(saliency: ab.Attribution, x: Tensor, label: Tensor, method: ab.Smoothed) -> Turning:
    """What is known with uniform noise, from a fifth as many draws: nothing of a variance helps."""
    fewer = replace(method, noise="uniform", draws=max(50, method.draws // 5))
    question = ab.Question(saliency, x, ab.L2Ball(1.0), label)
    ((_, ((example, to),)),) = fewer.examples([question])
    return fewer.turning(example, to)
