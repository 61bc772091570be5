"""Neighbours in one category, against a loop over them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import captum.attr
import pytest
import torch
from torch import Tensor, nn

import attribound as ab
from attribound.attacks.displace import first_of, staying
from attribound.basics.tensors import norm

GROUPS = [[3, 4, 5], [6, 7]]
LABELS = [-1, -1, -1, 0, 0, 0, 1, 1]
NAMES = ["age", "income", "debt", "own", "rent", "free", "yes", "no"]
SCALE = torch.tensor([1.0, 1.0, 1.0, 0, 0, 0, 0, 0]).double()


def network(kinked: bool = False) -> nn.Module:
    torch.manual_seed(1)
    middle = nn.ReLU() if kinked else nn.Softplus(3)
    return nn.Sequential(nn.Linear(8, 10), middle, nn.Linear(10, 2)).double().eval()


def people() -> Tensor:
    x = torch.rand(4, 8, generator=torch.Generator().manual_seed(2)).double()
    x[:, 3:] = 0
    for row, (home, phone) in enumerate(((3, 6), (4, 7), (5, 6), (3, 7))):
        x[row, home] = x[row, phone] = 1
    return x


def neighbours(x: Tensor) -> list[tuple[int, int, Tensor]]:
    """Slowly: everything that can be switched in one row."""
    found = []
    for group in GROUPS:
        (before,) = [place for place in group if x[place] == 1]
        for after in group:
            if after != before:
                other = x.clone()
                other[before], other[after] = 0.0, 1.0
                found.append((before, after, other))
    return found


@pytest.mark.parametrize("by", ["value", "absolute"])
@pytest.mark.parametrize("categories", [GROUPS, LABELS, torch.tensor(LABELS)])
def test_every_neighbour_is_evaluated(by, categories) -> None:
    attribution, x = ab.InputXGradient(network()), people()
    found = ab.switches(attribution, x, categories, k=2, by=by, names=NAMES)
    labels = attribution.targets(x)
    clean = attribution(x, labels)
    for row in range(4):
        slow = neighbours(x[row])
        assert found.neighbours[row] == len(slow) == 3
        maps = torch.stack([attribution(o[None], labels[[row]])[0] for *_, o in slow])
        here = clean[[row]].expand_as(maps)
        kept = staying(maps, here, 2, by)
        assert found.kept[row] == found.attained[row] == kept.min()
        torch.testing.assert_close(found.deviation[row], norm(maps - here).max())
        if kept.min() < 2:
            worst = {(b, a) for (b, a, _), n in zip(slow, kept, strict=True) if n == kept.min()}
            assert tuple(found.switched[row].tolist()) in worst
        same = [bool((attribution.targets(o[None]) == labels[row]).all()) for *_, o in slow]
        assert bool(found.label_kept[row]) == all(same)
    assert torch.equal(found.features, first_of(clean, 2, by))
    assert found.claim is None


def test_around_neighbours_bounds_hold_and_attacks_are_inside() -> None:
    """With small changes of the other features beside the switch: brute force on a grid."""
    attribution, x = ab.Saliency(network()), people()
    ball = ab.LinfBall(0.1, scale=SCALE)
    found = ab.switches(attribution, x, GROUPS, k=2, ball=ball)
    labels = attribution.targets(x)
    clean = attribution(x, labels)
    steps = torch.tensor([*itertools.product((-0.1, 0.0, 0.1), repeat=3)]).double()
    for row in range(4):
        for other in (x[row], *(o for *_, o in neighbours(x[row]))):
            points = other.repeat(len(steps), 1)
            points[:, :3] += steps
            maps = attribution(points, labels[row].expand(len(points)))
            left = staying(maps, clean[[row]].expand_as(maps), 2, "value").min()
            assert left >= found.kept[row]
    assert (found.kept <= found.attained).all()
    assert found.claim.name == "certified"
    assert "claim: certified" in repr(found)
    exact = ab.switches(attribution, x, GROUPS, k=2)
    assert (exact.kept >= found.kept).all()


def test_a_network_with_kinks_has_neighbours_too() -> None:
    attribution, x = ab.Saliency(network(kinked=True)), people()
    found = ab.switches(attribution, x, GROUPS, k=2, ball=ab.L2Ball(0.02, scale=SCALE))
    assert (found.kept <= found.attained).all()


def test_other_values_than_one_and_zero() -> None:
    """In standard deviations from the mean: the same people, the same answer."""
    model, x = network(), people()
    mean, std = torch.rand(8).double(), torch.rand(8).double() + 0.5

    class Back(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            return model(mean + std * z)

    plain = ab.switches(ab.InputXGradient(model), x, GROUPS, k=2, by="absolute")
    z = (x - mean) / std
    scaled = ab.switches(
        ab.InputXGradient(Back()), z, GROUPS, k=2, on=(1 - mean) / std, off=-mean / std
    )
    assert torch.equal(plain.neighbours, scaled.neighbours)
    assert (scaled.switched[:, 1] != scaled.switched[:, 0]).any()


def test_sentences() -> None:
    attribution, x = ab.Saliency(network()), people()
    found = ab.switches(attribution, x, GROUPS, k=2, names=NAMES)
    for row in range(4):
        said = found.sentence(row)
        if found.kept[row] == 2:
            assert said == "all 2 stay, whatever is switched"
        else:
            off, on = (NAMES[place] for place in found.switched[row].tolist())
            assert said == f"{off} -> {on} leaves {int(found.kept[row])} of 2"
    some = replace(found, kept=torch.tensor([0, 1, 1, 0]), attained=torch.tensor([2, 2, 1, 0]))
    assert some.sentence(0) == "at least 0 of 2 stay; no switch was seen that changes the list"
    still = replace(
        found, kept=torch.zeros(4), attained=torch.ones(4), switched=some.switched * 0 - 1
    )
    assert still.sentence(1).endswith("a perturbation without a switch leaves 1 of 2")
    assert len(some) == 4
    assert "One category switched" in repr(found)


def test_what_is_no_category_is_refused() -> None:
    attribution, x = ab.Saliency(network()), people()
    for wrong in ([[3, 4], [4, 5]], [[3, 9]], [0, 1], [[]]):
        with pytest.raises(ab.InputError, match="categories: expected labels of the 8 features"):
            ab.switches(attribution, x, wrong, k=2)
    x[1, 3] = 0.5
    with pytest.raises(ab.InputError, match=r"exactly one of them on, the others off, got \[0.5"):
        ab.switches(attribution, x, GROUPS, k=2)
    with pytest.raises(ab.InputError, match="names: expected 8 names"):
        ab.switches(attribution, people(), GROUPS, k=2, names=["a"])


def test_a_claim_about_another_map_is_refused() -> None:
    """Lists of averaged maps at neighbours say nothing of the list of the map at x."""
    attribution, x = ab.Saliency(network()), people()
    with pytest.raises(ab.InputError, match="smoothed, about the averaged map of your network"):
        ab.switches(attribution, x, GROUPS, k=2, ball=ab.L2Ball(0.1), claim="smoothed:draws=100")


def test_objects_of_captum_and_functions_are_attributions() -> None:
    model, x = network(), people()
    theirs = ab.switches(captum.attr.InputXGradient(model), x, GROUPS, k=2, target=0)
    ours = ab.switches(ab.InputXGradient(model), x, GROUPS, k=2, target=0)
    assert torch.equal(theirs.kept, ours.kept)
    plain = ab.switches(lambda x, _: x, x, GROUPS, k=2, target=0)
    torch.testing.assert_close(plain.deviation, torch.full((4,), 2**0.5).double())
