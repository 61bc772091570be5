"""Every training method as its paper writes it: loops over examples and nodes, plain autograd.

Nothing here comes from the package. Losses of the prediction are taken on the whole batch in
the mode the model is in, clean inputs first; attributions one example at a time in eval mode.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Terms = dict[str, Tensor]


def ce(logits: Tensor, y: Tensor) -> Tensor:
    return -torch.stack(
        [row.log_softmax(0)[label] for row, label in zip(logits, y, strict=True)]
    ).mean()


def kl(clean: Tensor, moved: Tensor) -> Tensor:
    p, q = clean.softmax(1), moved.softmax(1)
    return (p * (p.log() - q.log())).sum(1).mean()


def slope(fn: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    point = point.detach().requires_grad_()
    return torch.autograd.grad(fn(point), point, create_graph=True)[0]


def cos(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / ((a * a).sum() * (b * b).sum()).sqrt()


def corr(a: Tensor, b: Tensor) -> Tensor:
    return torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1]


def ig(model: nn.Module, x: Tensor, label: int, steps: int) -> Tensor:
    total = torch.zeros_like(x)
    for k in range(1, steps + 1):
        total = total + slope(lambda z: model(z[None])[0, label], k / steps * x) / steps
    return x * total


def ig_norm(model: nn.Module, x: Tensor, moved: Tensor, label: int, steps: int) -> Tensor:
    total = torch.zeros_like(x)
    for k in range(1, steps + 1):
        point = x + k / steps * (moved - x)
        total = total + slope(lambda z: -model(z[None])[0].log_softmax(0)[label], point) / steps
    return ((moved - x) * total).abs().sum()


def art(model: nn.Module, x: Tensor, moved: Tensor, label: int) -> Tensor:
    own, other = [], []
    for z in (x, moved):
        logits = model(z[None])[0].tolist()
        rival = max((c for c in range(len(logits)) if c != label), key=lambda c: logits[c])
        own.append(slope(lambda z: model(z[None])[0, label], z))
        other.append(slope(lambda z, c=rival: model(z[None])[0, c], z))
    terms = []
    for z in (x, moved):
        d_own = max((1 - cos(z, g) for g in own), key=Tensor.item)
        d_other = min((1 - cos(z, g) for g in other), key=Tensor.item)
        terms.append(torch.log(1 + torch.exp(-(d_other - d_own))))
    return (terms[0] + terms[1]) / 2


def softplus_for_relu(model: nn.Module, beta: float) -> nn.Module:
    """The same network with the same parameters; only for sequential ones."""
    layers = [nn.Softplus(beta) if isinstance(m, nn.ReLU) else m for m in model]
    return nn.Sequential(*layers)


def _each(model: nn.Module, x: Tensor, moved: Tensor, y: Tensor, term) -> Tensor:
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    values = [term(model, a, b, int(c)) for a, b, c in zip(x, moved, y, strict=True)]
    for module, mode in modes:
        module.training = mode
    return torch.stack(values).mean()


def terms(objective, model: nn.Module, x: Tensor, moved: Tensor, y: Tensor) -> Terms:
    """The terms of ``objective`` by its name and settings."""

    def each(term) -> Tensor:
        return _each(model, x, moved, y, term)

    def igr(settings) -> Tensor:
        steps = settings.ig.steps
        return settings.weight * each(
            lambda f, a, b, c: 1 - cos(ig(f, a, c, steps), ig(f, b, c, steps))
        )

    s = objective
    if s.name == "ce":
        return {"ce": ce(model(x), y)}
    if s.name == "at":
        return {"ce_attacked": ce(model(moved), y)}
    if s.name == "trades":
        clean, after = model(x), model(moved)
        return {"ce": ce(clean, y), "kl": s.beta * kl(clean, after)}
    if s.name in {"at+igr", "trades+igr"}:
        regularizer = igr(s)  # before batch norm sees x in train mode
        return {**terms(s.base, model, x, moved, y), "igr": regularizer}
    if s.name in {"ig_norm", "ig_sum_norm"}:
        norm = s.weight * each(lambda f, a, b, c: ig_norm(f, a, b, c, s.ig_steps))
        if s.name == "ig_norm":
            return {"ce": ce(model(x), y), "ig_norm": norm}
        return {"ce_attacked": ce(model(moved), y), "ig_norm": norm}
    if s.name == "advaat":
        steps = s.ig.steps
        distance = each(lambda f, a, b, c: (1 - corr(ig(f, a, c, steps), ig(f, b, c, steps))) / 2)
        return {"ce_attacked": ce(model(moved), y), "attribution": s.weight * distance}
    assert s.name == "art"
    kinked = isinstance(model, nn.Sequential) and any(isinstance(m, nn.ReLU) for m in model)

    def alignment(f: nn.Module, a: Tensor, b: Tensor, c: int) -> Tensor:
        return art(softplus_for_relu(f, s.beta) if kinked else f, a, b, c)

    term = s.weight * each(alignment)
    return {"ce_attacked": ce(model(moved), y), "attribution": term}
