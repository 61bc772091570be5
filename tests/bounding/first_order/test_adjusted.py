from __future__ import annotations

import torch
from torch import Tensor, nn

import attribound as ab


class Quartic(nn.Module):
    """f = x²/2 + k x³/6 + x⁴: the saliency x + k x²/2 + 4x³ bends, and not alike to both sides."""

    def __init__(self, bend: float) -> None:
        super().__init__()
        self.bend = bend

    def forward(self, x: Tensor) -> Tensor:
        score = (x**2 / 2 + self.bend * x**3 / 6 + x**4).sum(1)
        return torch.stack([score + 5, 0 * score], 1)


def deviation(bend: float, x: float, delta: float) -> float:
    def slope(z: float) -> float:
        return z + bend * z**2 / 2 + 4 * z**3

    return abs(slope(x + delta) - slope(x))


def test_is_the_largest_of_first_order_and_both_ends() -> None:
    """The same network mirrored: once the one end wins, once the other."""
    winners = set()
    for side in (1, -1):
        x = torch.tensor([[0.4 * side]], dtype=torch.float64)
        bound = ab.bound(ab.Saliency(Quartic(3.0 * side)), x, ab.L2Ball(0.3))
        plus, minus = (deviation(3.0 * side, 0.4 * side, 0.3 * sign) for sign in (1, -1))
        winners.add(plus > minus)
        torch.testing.assert_close(
            bound.adjusted.item(), max(bound.euclidean.item(), plus, minus), rtol=1e-6, atol=0
        )
        assert bound.c.item() > 1
    assert winners == {True, False}


def test_c_is_one_where_the_attribution_is_linear_along_v() -> None:
    x = torch.tensor([[-0.1]]).double()
    bound = ab.bound(ab.Saliency(Quartic(0.0)), x, ab.L2Ball(1e-6))
    torch.testing.assert_close(bound.c.item(), 1.0, rtol=1e-4, atol=0)
