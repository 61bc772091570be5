"""Where a number that is none came from: term, examples, layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attribound.basics.errors import ModelError
from attribound.networks.modes import eval_mode
from attribound.training.objective import Step, TrainingObjective

_NAMED = 8


class NotFiniteError(ModelError):
    """A loss or a gradient became NaN or infinite; the training stopped before using it."""


def bad_parameters(model: nn.Module) -> list[str]:
    """Names of the parameters whose gradient is not finite."""
    return [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all()
    ]


def bad_examples(objective: TrainingObjective, step: Step, attacked: Tensor) -> list[int]:
    """Places in the batch of examples whose own loss, or its gradient, is not finite.

    One by one and in eval mode: slow, for when the training has stopped anyway.
    """
    found = []
    parameters = [p for p in step.model.parameters() if p.requires_grad]
    with eval_mode(step.model):
        for i in range(len(step.x)):
            alone = Step(step.model, step.x[i : i + 1], step.y[i : i + 1], step.ball, step.seed)
            loss = torch.stack([*objective.losses(alone, attacked[i : i + 1]).values()]).sum()
            slopes = torch.autograd.grad(loss, parameters, allow_unused=True)
            values = [loss, *(slope for slope in slopes if slope is not None)]
            if not all(bool(torch.isfinite(value).all()) for value in values):
                found.append(i)
    return found


def bad_layer(model: nn.Module, inputs: Sequence[Tensor]) -> str | None:
    """The first layer whose output is not finite at one of ``inputs``, as in a forward pass."""
    bad: list[str] = []

    def watch(name: str) -> Any:
        def look(_: nn.Module, __: object, output: Tensor) -> None:
            if isinstance(output, Tensor) and not torch.isfinite(output).all():
                bad.append(name)

        return layers[name].register_forward_hook(look)

    layers = {name: module for name, module in model.named_modules() if not [*module.children()]}
    handles = [watch(name) for name in layers]
    try:
        with torch.no_grad(), eval_mode(model):
            for x in inputs:
                model(x)
    finally:
        for handle in handles:
            handle.remove()
    return bad[0] if bad else None


def not_finite(
    what: str, objective: TrainingObjective, step: Step, attacked: Tensor, rows: Tensor
) -> NotFiniteError:
    """The error that says where: ``what`` is bad, and ``rows`` are the examples of the batch."""
    examples = [int(rows[i]) for i in bad_examples(objective, step, attacked)]
    named = ", ".join(map(str, examples[:_NAMED])) + (", ..." if len(examples) > _NAMED else "")
    weights = [n for n, p in step.model.named_parameters() if not torch.isfinite(p).all()]
    layer = bad_layer(step.model, (step.x, attacked))
    places = [
        what,
        f"{len(examples)} of {len(rows)} examples are not finite on their own"
        + (f": training examples {named}" if examples else ""),
        f"first layer with a non-finite output: {layer or 'none'}",
        *([f"weights that are not finite: {weights[0]}"] if weights else []),
    ]
    return NotFiniteError(
        "training",
        expected="finite losses and gradients",
        got="; ".join(places),
        remedy="lower optimiser.lr, set clip_gradient, or lengthen epsilon_warm_up; "
        "the checkpoint before this step is kept",
    )
