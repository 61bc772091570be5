"""The certificates of a batch of examples of a ReLU network, as a bound on your network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from rich.progress import track
from torch import Tensor, nn

from attribound.attributions import Attribution
from attribound.basics.tensors import norm, round_up
from attribound.bounding.certified.path import GradientPath, paths
from attribound.bounding.certified.rectified import Rectified
from attribound.bounding.certified.relu.deviation import Effort, Flips, flips
from attribound.bounding.certified.relu.region import regions
from attribound.bounding.certified.relu.tree import Limits
from attribound.bounding.cosine import cosine_and_degrees
from attribound.bounding.method import Question
from attribound.bounding.restate import counted
from attribound.results import Bound, Bracket, Claim, Gap, Status

SWITCHES, EXACT = "switches", "switches, exact"
#: Units of what products of float32 may be made in, where PyTorch is told so.
_FEWER_DIGITS = {"tf32": 2.0**-11, "bf16": 2.0**-8}
_ROUNDINGS = 32  # of both maps, added beside those that were seen at x


@dataclass(frozen=True)
class Spending:
    """Limits on one example."""

    memory_limit: int
    nodes: int
    seconds: float
    progress: bool


def rectified_bound(
    question: Question, network: Rectified, spending: Spending, claim: Claim
) -> Bound:
    """The certificate of every example; nothing is smoothed, so that it speaks of your network."""
    attribution, x, target = question.attribution, question.x, question.target
    attribution.check(x, smooth=False)
    clean = attribution.revalue(x, target)
    limits = Limits(spending.nodes, spending.seconds)
    effort = Effort(limits, spending.memory_limit, evaluation_unit(attribution, x))
    rows = [*zip(paths(attribution, x), target.tolist(), regions(question.ball, x), strict=True)]
    found: list[Flips] = []
    own: list[float] = []
    steep: list[float] = []
    with torch.no_grad():
        for path, label, region in track(rows, "certifying", disable=not spending.progress):
            found.append(flips(network, path, label, region, effort))
            mean = mean_gradient(network, path, label)
            here = clean[len(own)].flatten().to("cpu", torch.float64)
            own.append((here - path.displacement[0] * mean).norm().item())
            steep.append(mean.abs().max().item() if path.multiplied else 0.0)
    # The map that is evaluated at x may differ from ours, even in a mask: that is seen. Comparing
    # it with others that are evaluated adds their rounding, taken to be at most three times that.
    units = _ROUNDINGS * torch.finfo(x.dtype).eps
    rounding = 4 * _tensor(own) + units * norm(clean).double().cpu()
    # The map that is moved to may be larger than the one at x, by as much as it moves.
    value, root = (
        round_up(_tensor([getattr(each, name) for each in found]) * (1 + units) + rounding, x)
        for name in ("value", "root")
    )
    return _stated(question, claim, found, (clean, value, root, _tensor(steep).to(x)))


def mean_gradient(network: Rectified, path: GradientPath, label: int) -> Tensor:
    """The weighted sum of the gradients on the path, ``(d,)``, in float64."""
    total = torch.zeros_like(path.x)
    for _, weight, point in path.points():
        total = total + weight * network.gradients(point, label)
    return total[0]


def evaluation_unit(attribution: Attribution, x: Tensor) -> float:
    """The unit of rounding of the network as it is evaluated for ``x``.

    In float16 small numbers lose digits: no unit says how many.
    """
    assert attribution.classifier is not None
    model = attribution.classifier.model
    tensors = [x, *(model.parameters() if isinstance(model, nn.Module) else ())]
    dtypes = {each.dtype for each in tensors if each.is_floating_point()}
    if torch.float16 in dtypes:
        return math.inf
    unit = max(torch.finfo(each).eps / 2 for each in dtypes)
    if torch.float32 not in dtypes:
        return unit
    backends: Any = torch.backends  # typed as modules, which they replace
    uses = (backends.mkldnn.matmul, backends.mkldnn.conv)
    if x.device.type == "cuda":
        uses = (backends.cuda.matmul, backends.cudnn.conv)
    return max(unit, *(_FEWER_DIGITS.get(use.fp32_precision, 0.0) for use in uses))


def _tensor(values: list[float]) -> Tensor:
    # Where the computation overflowed nothing is proved: infinity, which is true.
    return torch.tensor(values, dtype=torch.float64).nan_to_num(nan=math.inf, posinf=math.inf)


def _stated(
    question: Question, claim: Claim, found: list[Flips], values: tuple[Tensor, ...]
) -> Bound:
    clean, value, root, steep = values
    x, length = question.x, norm(clean)
    cosine, degrees = cosine_and_degrees(value, length)
    rows = zip(found, (degrees == 180).tolist(), (length == 0).tolist(), strict=True)
    bound = Bound(
        ball=question.ball,
        target=question.target,
        claim=claim,
        euclidean=value,
        adjusted=value,
        cosine=cosine,
        degrees=degrees,
        adjusted_cosine=cosine,
        adjusted_degrees=degrees,
        xi=Bracket(steep, steep, 0.0),
        direction=torch.zeros_like(x),
        source=tuple(EXACT if each.exact else SWITCHES for each in found),
        values={str(claim): value, "root": root},
        attribution_norm=length,
        label=None,
        products=torch.tensor([each.nodes for each in found], device=x.device),
        status=tuple(_status(each, wide, zero) for each, wide, zero in rows),
        subject=question.attribution.subject,
        gap=Gap(
            root,
            _tensor([each.attained for each in found]).to(x),
            torch.tensor([each.neurons for each in found], device=x.device),
            torch.tensor([each.nodes for each in found], device=x.device),
            torch.tensor([each.exact for each in found], device=x.device),
        ),
    )
    return counted(bound, question.attribution.steps_needed(x, question.target, clean))


def _status(each: Flips, wide: bool, zero: bool) -> Status:
    status = Status.STOPPED if each.stopped else Status.CONVERGED
    status |= Status.ANGLE_UNBOUNDED | Status.VACUOUS if wide else Status.CONVERGED
    return status | (Status.ZERO_ATTRIBUTION if zero else Status.CONVERGED)
