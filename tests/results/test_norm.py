from __future__ import annotations

import torch

from attribound.results import Bracket, NormEstimate, Status, join


def estimate(lower: float) -> NormEstimate:
    return NormEstimate(
        Bracket(torch.tensor([lower]), torch.tensor([2.0]), 1e-6),
        torch.ones(1, 3),
        torch.tensor([40]),
        (Status.ITERATION_LIMIT,),
    )


def test_repr_is_a_table_that_says_how_sure_the_upper_value_is() -> None:
    shown = repr(estimate(1.5))
    for part in ("fails with probability <= 1e-06", "attained", "1.5", "40", "iteration-limit"):
        assert part in shown


def test_groups_join() -> None:
    both = join([estimate(1.5), estimate(1.75)])
    assert both.value.lower.tolist() == [1.5, 1.75]
    assert both.point.shape == (2, 3)
    assert len(both.status) == 2
