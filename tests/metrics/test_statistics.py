from __future__ import annotations

import math

import pytest
import torch

from attribound.basics.errors import InputError
from attribound.metrics import Mean, Share


def test_a_share_is_its_count_over_n() -> None:
    assert Share(3, 4).value == 0.75


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_the_error_of_a_share_is_that_of_many_repetitions(share) -> None:
    draws = torch.rand(20_000, 400, generator=torch.Generator().manual_seed(0)) < share
    spread = draws.double().mean(1).std().item()
    assert Share(round(share * 400), 400).standard_error == pytest.approx(spread, rel=0.25)


@pytest.mark.parametrize("count", [0, 50])
def test_a_share_of_none_or_all_is_not_certain(count) -> None:
    assert 0.01 < Share(count, 50).standard_error < 0.05


@pytest.mark.parametrize(("count", "n"), [(-1, 3), (4, 3), (0, 0)])
def test_refuses_what_is_no_share(count, n) -> None:
    with pytest.raises(InputError, match=f"share: expected a count from 0 to n.*got {count} of"):
        Share(count, n)


def test_the_mean_and_its_error_by_hand() -> None:
    mean = Mean.of(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    assert mean == Mean(3.0, math.sqrt((4 + 1 + 0 + 9) / 4), 4)
    assert mean.standard_error == pytest.approx(math.sqrt((4 + 1 + 0 + 9) / 3 / 4))


def test_one_number_has_a_mean_without_a_known_error() -> None:
    assert Mean.of(torch.tensor([0.5])) == Mean(0.5, 0.0, 1)
    assert Mean.of(torch.tensor([0.5])).standard_error == math.inf


@pytest.mark.parametrize(
    "made",
    [
        lambda: Mean.of(torch.tensor([math.nan, 1.0])),
        lambda: Mean(0.0, -1.0, 3),
        lambda: Mean(0.0, 1.0, 0),
    ],
)
def test_refuses_what_is_no_mean(made) -> None:
    with pytest.raises(InputError, match="mean: expected finite numbers"):
        made()
