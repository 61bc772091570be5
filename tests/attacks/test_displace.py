from __future__ import annotations

import pytest
import torch

import attribound as ab
import cases
from attribound.attacks import Displace, Displaced, TowardsRivals
from attribound.attacks.displace import first_of, staying
from attribound.attacks.objectives import Problem

BEFORE = torch.tensor([[4.0, -3.0, 2.0, 1.0, 0.0, -0.5]]).double()
AFTER = torch.tensor([[0.5, -3.0, 2.5, 1.0, 5.0, 0.0]]).double()


def test_margins_are_those_of_the_weakest_and_the_strongest() -> None:
    """By value the list is 0, 2, 3, then 0.5, 2.5, 1; by size 0, 1, 2, then 0.5, 3, 2.5."""
    assert Displaced(3).score(AFTER, BEFORE).item() == 5 - 0.5
    assert Displaced(3, leaving=2).score(AFTER, BEFORE).item() == (5 + 0) / 2 - (0.5 + 1) / 2
    assert Displaced(3, "absolute").score(AFTER, BEFORE).item() == 5 - 0.5
    assert Displaced(5, leaving=9).score(AFTER, BEFORE).item() == -3 - 0  # one can come in
    assert Displaced(3).measure(AFTER, BEFORE).item() == 1  # now 4, 2, 3
    assert staying(AFTER, BEFORE, 3, "absolute").item() == 2  # now 4, 1, 2
    assert staying(BEFORE, BEFORE, 3, "value").item() == 3


def test_of_equals_the_first_is_on_the_list() -> None:
    assert first_of(torch.ones(2, 4), 2, "value").tolist() == [[0, 1], [0, 1]]


def test_starts_swap_the_easiest_pair_of_a_linear_map() -> None:
    """Where the rows of two scores differ most beside their margin, the rival gets ahead."""
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    clean, ball = attribution(x), ab.L2Ball(2.0)
    labels = attribution.targets(x)
    begun = TowardsRivals(2, count=1).begin(Problem(attribution, x, labels, clean), ball, 0)
    (delta,) = begun.deltas
    after = attribution.revalue(x + delta, labels)
    matrix = attribution.classifier.model.matrices[0]
    for row in range(len(x)):
        top = first_of(clean, 2, "value")[row].tolist()
        gains = [
            2.0 * (matrix[j] - matrix[i]).norm() - (clean[row, i] - clean[row, j])
            for i in top
            for j in range(4)
            if j not in top
        ]
        leads = [after[row, j] - after[row, i] for i in top for j in range(4) if j not in top]
        assert max(leads).item() == pytest.approx(max(gains).item(), rel=1e-9)


@pytest.mark.parametrize("by", ["value", "absolute"])
def test_it_leaves_fewer_than_chance_and_than_an_attack_on_the_norm(by) -> None:
    model, x = cases.tabular()
    attribution, ball = ab.Saliency(model), ab.L2Ball(0.3)
    clean = attribution(x)
    labels = attribution.targets(x)

    def kept(delta: torch.Tensor) -> int:
        return int(staying(attribution.revalue(x + delta, labels), clean, 3, by).sum())

    aimed = Displace(3, by)(attribution, x, ball)
    assert ball.contains(aimed.delta, x).all()
    others = [
        ab.attacks.AttributionAscent()(attribution, x, ball).delta,
        *(ball.sample_sphere(x, seed) for seed in range(5)),
    ]
    assert kept(aimed.delta) <= min(kept(delta) for delta in others)
    assert kept(aimed.delta) < 3 * len(x)


def test_lists_that_are_none_are_refused() -> None:
    with pytest.raises(ab.InputError, match="k: expected a whole number from 1 to 5"):
        Displaced(6).score(AFTER, BEFORE)
    with pytest.raises(ab.InputError, match="by: expected 'value' or 'absolute'"):
        Displaced(2, "size").score(AFTER, BEFORE)
