"""``switches``: neighbours that differ in one category, every one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attribound.attacks.displace import By, first_of, staying
from attribound.attributions import Attribution
from attribound.balls import Ball, check_ball
from attribound.basics.errors import InputError
from attribound.basics.tables import cell, render
from attribound.basics.tensors import angle_degrees, norm
from attribound.bounding.guarantees import ClaimOrMethod, Explained, as_attribution, method_of
from attribound.bounding.method import Method, Question
from attribound.bounding.reasons.asking import answer, check_names
from attribound.bounding.reasons.attained import attack, perturbations
from attribound.networks.inputs import Target, check_inputs
from attribound.results import Claim

_AT_ONCE = 256  # neighbours
_TOLERANCE = 1e-5

#: Labels of the features, -1 for those of no category; or the features of each category.
Categories = Tensor | Sequence[int] | Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Switches:
    """What becomes of each example's list of reasons if one of its categories were another.

    Without a ball every neighbour was evaluated: ``kept`` and ``attained`` are the same number,
    which is exact, and so are ``deviation`` and ``degrees``. With a ball around each of them (and
    around the example itself) ``kept`` holds as far as ``claim`` does.

    Attributes:
        k, by: how many scores are on a list; ranked by ``value`` or ``absolute`` value.
        claim: None without a ball.
        ball: around each neighbour, or None.
        target: the labels explained.
        features, values: the list at x, ``(batch, k)``, and its scores.
        kept: at least so many of the list stay, whatever switch is made, ``(batch,)``.
        attained: fewest that were seen.
        switched: the features that switch turns off and on, ``(batch, 2)``; -1 for none.
        deviation, degrees: how far the map moves, and turns, at most, by switches alone.
        label_kept: no switch changes the prediction; None without a classifier.
        neighbours: how many there are, ``(batch,)``.
        names: of all scores; None for their numbers.
        columns: names of the features that are switched; None for their numbers.
        subject: of which network it speaks.
    """

    k: int
    by: By
    claim: Claim | None
    ball: Ball | None
    target: Tensor
    features: Tensor
    values: Tensor
    kept: Tensor
    attained: Tensor
    switched: Tensor
    deviation: Tensor
    degrees: Tensor
    label_kept: Tensor | None
    neighbours: Tensor
    names: tuple[str, ...] | None
    columns: tuple[str, ...] | None
    subject: str

    def __len__(self) -> int:
        return len(self.kept)

    def sentence(self, row: int) -> str:
        """What is known of one example, in words."""
        kept, left = int(self.kept[row]), int(self.attained[row])
        off, on = self.switched[row].tolist()
        if kept == self.k:
            return f"all {self.k} stay, whatever is switched"
        at_least = f"at least {kept} of {self.k} stay; " if kept < left else ""
        if left == self.k:
            return f"{at_least}no switch was seen that changes the list"
        one, other = (_named(place, self.columns) for place in (off, on))
        moved = f"{one} -> {other}" if off >= 0 else "a perturbation without a switch"
        return f"{at_least}{moved} leaves {left} of {self.k}"

    def __repr__(self) -> str:
        rows = [
            (
                row,
                int(self.neighbours[row]),
                ", ".join(_named(place, self.names) for place in self.features[row].tolist()),
                self.deviation[row].item(),
                self.degrees[row].item(),
                self.sentence(row),
            )
            for row in range(len(self))
        ]
        around = "" if self.ball is None else f" and a {self.ball.name} ball of radius "
        around += "" if self.ball is None else f"{cell(self.ball.epsilon)}, claim: {self.claim}"
        title = f"One category switched{around}: the {self.k} largest scores of {self.subject}"
        header = ["example", "neighbours", "reasons", "moved by", "degrees", ""]
        return render(title, header, rows)


def switches(  # noqa: PLR0913 - the names users type
    attribution: Explained,
    x: Tensor,
    categories: Categories,
    k: int = 4,
    target: Target = None,
    *,
    ball: Ball | None = None,
    claim: ClaimOrMethod = "certified",
    by: By = "value",
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    on: float | Tensor = 1.0,
    off: float | Tensor = 0.0,
) -> Switches:
    """Evaluate every neighbour that differs in one category; with ``ball``, bound around each.

    A category is no continuous feature: its one-hot columns are frozen in balls, and switched here.

    Args:
        attribution: g.
        x: inputs ``(batch, *features)``; of each category one feature is on.
        categories: integer labels of the features, -1 for those of no category; or a list of the
            features of each category, as places in the flattened input.
        k: how many scores are given as reasons.
        target: labels to explain; default: the predicted class at x.
        ball: small changes of the other features beside the switch; freeze categories in it.
        claim: under which the ball is bounded.
        by: ``value`` for the largest scores, ``absolute`` for the largest in size.
        names: of all scores, in the order of the flattened map.
        columns: of all features, for sentences; default: ``names`` if there are as many.
        on: what a feature is in its category, where that is not 1; one a feature after scaling.
        off: what it is otherwise.

    Raises:
        InputError: a category has not exactly one feature on, or the claim is about another map.
    """
    x = check_inputs(x)
    attribution = as_attribution(attribution)
    if ball is not None:
        check_ball(ball, x)
        _check_subject(method_of(claim), attribution, x, ball)
    labels = attribution.targets(x, target)
    clean = attribution(x, labels)
    top = first_of(clean, k, by)
    called = check_names(names, clean[0].numel())
    if columns is None and called is not None and len(called) == x[0].numel():
        columns = called
    ends = (torch.as_tensor(each, dtype=x.dtype, device=x.device) for each in (on, off))
    lit, dark = (each.expand(x.shape[1:]).flatten() for each in ends)
    owner, pairs = _enumerated(x, _groups(categories, x), lit, dark)
    points = x[owner].flatten(1).clone()
    switched = (pairs >= 0).all(1).nonzero().flatten()
    first, second = pairs[switched].unbind(1)
    points[switched, first], points[switched, second] = dark[first], lit[second]
    points = points.view(len(owner), *x.shape[1:])
    kept, seen, moved = [], [], []
    for rows in torch.split(torch.arange(len(owner), device=x.device), _AT_ONCE):
        own, there = owner[rows], points[rows]
        part = attribution.rows(x, own)
        now = part.revalue(there, labels[own])
        moved.append(torch.stack([norm(now - clean[own]), angle_degrees(now, clean[own])]))
        seen.append(staying(now, clean[own], k, by))
        if ball is None:
            kept.append(seen[-1])
            continue
        question = Question(part, there, ball.rows(x, own), labels[own])
        kept.append(_around(question, now, top[own], (k, by), claim))
        for delta in perturbations(attack(question, k, by)):
            after = part.revalue(there + delta, labels[own])
            seen[-1] = torch.minimum(seen[-1], staying(after, clean[own], k, by))
    least, fewest = torch.cat(kept), torch.cat(seen)
    distance, angle = torch.cat(moved, 1)
    ranked = fewest - distance / (1 + distance)  # of equals the one that moves the map furthest
    worst = [_of(owner, row)[ranked[_of(owner, row)].argmin()] for row in range(len(x))]
    kinds = attribution.classifier
    same = None
    if kinds is not None:
        same = kinds.predict(points) == kinds.predict(x)[owner]
        same = torch.stack([same[_of(owner, row)].all() for row in range(len(x))])
    rows_of = [_of(owner, row) for row in range(len(x))]
    return Switches(
        k=k,
        by=by,
        claim=None if ball is None else method_of(claim).claim,
        ball=ball,
        target=labels,
        features=top,
        values=clean.flatten(1).gather(1, top),
        kept=torch.stack([least[rows].min() for rows in rows_of]),
        attained=torch.stack([fewest[rows].min() for rows in rows_of]),
        switched=pairs[torch.stack(worst)],
        deviation=torch.stack([distance[rows].max() for rows in rows_of]),
        degrees=torch.stack([angle[rows].max() for rows in rows_of]),
        label_kept=same,
        neighbours=torch.tensor([len(rows) - 1 for rows in rows_of], device=x.device),
        names=called,
        columns=None if columns is None else tuple(columns),
        subject=attribution.subject,
    )


def _check_subject(method: Method, attribution: Attribution, x: Tensor, ball: Ball) -> None:
    """Refuse a claim about another map: its list is not the one at x that switches begin with."""
    about = method.speaks_of(attribution, x, ball)
    if about is not attribution:
        raise InputError(
            "claim",
            expected="one about the map itself, such as 'certified', around neighbours",
            got=f"{method.claim.name}, about {about.subject}",
            remedy="leave the ball out, or ask attribound.reasons at each neighbour",
        )


def _around(
    question: Question, now: Tensor, top: Tensor, asked: tuple[int, By], claim: ClaimOrMethod
) -> Tensor:
    """Members of the list at x that are on the list of a neighbour, and can't leave that."""
    found = answer(method_of(claim), question, now, *asked)
    same = top.unsqueeze(2) == found.features.unsqueeze(1)
    return (same & found.stays.unsqueeze(1)).any(2).sum(1)


def _of(owner: Tensor, row: int) -> Tensor:
    return (owner == row).nonzero().flatten()


def _named(place: int, names: Sequence[str] | None) -> str:
    return str(place) if names is None else names[place]


def _groups(categories: Categories, x: Tensor) -> list[list[int]]:
    """The features of each category."""
    size = x[0].numel()
    given: list[Any] = [*(categories.tolist() if isinstance(categories, Tensor) else categories)]
    if given and all(isinstance(each, (list, tuple)) for each in given) and x.dim() == 2:
        groups = [[int(place) for place in each] for each in given]
    else:
        labels = torch.as_tensor(categories).flatten().tolist()
        groups = [[p for p, label in enumerate(labels) if label == g] for g in {*labels} - {-1}]
        if len(labels) != size:
            groups = []
    places = [place for group in groups for place in group]
    fine = places and all(0 <= place < size for place in places)
    if not fine or len({*places}) < len(places):
        raise InputError(
            "categories",
            expected=f"labels of the {size} features, or lists of places, each at most once",
            got=repr(categories),
            remedy="e.g. [[3, 4, 5], [6, 7]], or [-1, -1, -1, 0, 0, 0, 1, 1]",
        )
    return groups


def _enumerated(
    x: Tensor, groups: Sequence[Sequence[int]], lit: Tensor, dark: Tensor
) -> tuple[Tensor, Tensor]:
    """The example of each neighbour, and the features it turns off and on; itself first: -1."""
    flat = x.flatten(1)
    owners, pairs = [*range(len(x))], [(-1, -1)] * len(x)
    for group in groups:
        places = torch.tensor(group, device=x.device)
        values = flat[:, places]
        is_on = torch.isclose(values, lit[places].expand_as(values), atol=_TOLERANCE)
        is_off = torch.isclose(values, dark[places].expand_as(values), atol=_TOLERANCE)
        wrong = (is_on.sum(1) != 1) | ~(is_on | is_off).all(1)
        if wrong.any():
            row = int(wrong.nonzero()[0])
            raise InputError(
                f"category of the features {', '.join(map(str, group))}",
                expected="exactly one of them on, the others off",
                got=f"{[round(each, 4) for each in values[row].tolist()]} in example {row}",
                remedy="give one-hot features, and on and off if they are not 1 and 0",
            )
        for row, before in enumerate(places[is_on.int().argmax(1)].tolist()):
            for after in group:
                if after != before:
                    owners.append(row)
                    pairs.append((before, after))
    return torch.tensor(owners, device=x.device), torch.tensor(pairs, device=x.device)
