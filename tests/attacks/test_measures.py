from __future__ import annotations

import pytest
import torch

import attribound as ab
from attribound.attacks import Angle, Distance, MassCentre, Targeted, TopK, usual_k

BEFORE = torch.tensor([[4.0, -3.0, 2.0, 1.0, 0.0, 0.0]]).double()
AFTER = torch.tensor([[0.0, -3.0, 0.5, 1.0, -5.0, 0.0]]).double()


def test_distance_and_angle() -> None:
    torch.testing.assert_close(Distance().score(AFTER, BEFORE), (AFTER - BEFORE).norm(dim=1))
    cosine = torch.nn.functional.cosine_similarity(AFTER, BEFORE)
    torch.testing.assert_close(Angle().score(AFTER, BEFORE), 1 - cosine)
    assert Angle().score(0 * AFTER, BEFORE).item() == 1


def test_top_k_sums_over_the_clean_top_and_counts_who_left() -> None:
    """The clean top three are 0, 1, 2; of the perturbed top three (4, 1, 3) only 1 was there."""
    assert TopK(3).score(AFTER, BEFORE).item() == -3.5
    assert TopK(3).measure(AFTER, BEFORE).item() == 2
    assert TopK(3).measure(BEFORE, BEFORE).item() == 0


def test_without_k_it_is_the_usual_one() -> None:
    """Of six features a third, rounded up."""
    assert [usual_k(n) for n in (1, 6, 64, 784, 1024, 1025, 3072)] == [
        1,
        2,
        22,
        100,
        100,
        342,
        1000,
    ]
    for name in ("score", "measure"):
        assert getattr(TopK(), name)(AFTER, BEFORE) == getattr(TopK(2), name)(AFTER, BEFORE)


def test_top_k_wants_a_possible_k() -> None:
    seven = TopK(7)
    with pytest.raises(ab.InputError, match="k: expected a number of features from 1 to 6"):
        seven.score(AFTER, BEFORE)
    for k in (0, 1.5, True):
        with pytest.raises(ab.InputError, match="k: expected a whole number, 1 or more"):
            TopK(k)


def test_mass_centre_of_images_sums_channels() -> None:
    image = torch.zeros(1, 2, 3, 4).double()
    image[0, 0, 0, 0], image[0, 1, 2, 3] = 1.0, -3.0
    point = torch.zeros_like(image)
    point[0, 0, 0, 0] = 1
    centre = torch.tensor([1.5, 2.25]).double()  # three quarters of the way to (2, 3)
    torch.testing.assert_close(MassCentre().score(image, point), (centre**2).sum().unsqueeze(0))
    assert not MassCentre().score(0 * image, point).isnan().any()


def test_mass_centre_of_rows_is_a_position() -> None:
    torch.testing.assert_close(
        MassCentre().score(torch.eye(6)[None, 5], torch.eye(6)[None, 1]), torch.tensor([16.0])
    )


def test_targeted_sums_over_its_region() -> None:
    region = torch.tensor([False, False, False, False, True, True])
    assert Targeted(region).score(AFTER, BEFORE).item() == 5
    with pytest.raises(ab.InputError, match=r"region: expected a mask .* got shape \(2,\)"):
        Targeted(torch.ones(2)).score(AFTER, BEFORE)
