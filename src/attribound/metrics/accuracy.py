"""How many examples a model gets right, as they are and under attack."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from rich.progress import track
from torch import Tensor, nn

from attribound.attacks import PGD
from attribound.attacks.objectives import Problem
from attribound.attributions import Saliency
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.metrics.statistics import Share
from attribound.networks.inputs import check_inputs, check_targets
from attribound.networks.modes import eval_mode

#: Examples at once: enough to keep a processor busy, and no more memory than that needs.
BATCH = 250


def clean_accuracy(model: nn.Module, x: Tensor, y: Tensor) -> Share:
    """The share of examples ``(batch, *features)`` whose label, of ``(batch,)``, is predicted.

    Computed in eval mode, batch by batch, without a graph.
    """
    x, y = check_inputs(x), check_targets(y, x, None)
    return Share(int(correct(model, x, y).sum()), len(x))


def attacked_accuracy(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, attack: PGD) -> Share:
    """The share of examples whose label is predicted at ``x`` and where the attack ends.

    Wrong at ``x`` is wrong: zero is a perturbation, too, so these are not attacked.
    An upper estimate of the accuracy in the worst case, as with any attack.
    """
    x, y = check_inputs(x), check_targets(y, x, None)
    ball.check_inside(x)
    right = correct(model, x, y).nonzero().flatten()
    kept = 0
    with eval_mode(model):
        saliency = Saliency(model)
        batches = [right[rows] for rows in slices(len(right))]
        for rows in track(batches, "attacking", disable=not attack.progress):
            part, labels = x[rows], y[rows]
            # The search alone, without the verdict of an attack on attributions: no map is made.
            problem = Problem(saliency, part, labels, clean=part)
            found = attack.search.run(problem, ball, attack.seed, progress=False)
            if found.interrupted:
                raise KeyboardInterrupt
            kept += int(correct(model, part + found.delta, labels).sum())
    return Share(kept, len(x))


def beginning_with(correctly: int, model: nn.Module, x: Tensor, y: Tensor) -> int:
    """How many examples, from the first, contain ``correctly`` ones whose label is predicted.

    All, if there are not so many.
    """
    if correctly < 1:
        raise InputError(
            "examples classified correctly",
            expected="1 or more",
            got=repr(correctly),
            remedy="say how many shall be attacked",
        )
    seen = 0
    for rows in slices(len(x)):
        right = correct(model, x[rows], y[rows])
        if int(right.sum()) >= correctly:
            return seen + int(right.nonzero()[correctly - 1]) + 1
        seen, correctly = rows.stop, correctly - int(right.sum())
    return len(x)


def correct(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Whether the largest logit of each example is that of its label, in eval mode."""
    with torch.no_grad(), eval_mode(model):
        parts = [model(x[rows]).argmax(1) == y[rows] for rows in slices(len(x))]
    return torch.cat(parts)


def slices(total: int, size: int = BATCH) -> Iterator[slice]:
    """The rows from 0 to ``total``, ``size`` at a time."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))
