from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from attribound.networks.structured.layout import laid_out
from attribound.networks.structured.softplus import softplus_and_slope


@pytest.mark.parametrize("beta", [0.5, 1.0, 20.0, 200.0])
def test_values_and_slopes_are_those_of_double_precision(beta) -> None:
    """Relative to the value itself; below exp(-25) / beta, to that."""
    z = torch.cat([torch.linspace(-200, 50, 7000), torch.logspace(-30, 2, 999)]) / beta
    value, slope = softplus_and_slope(z, beta, 20.0)
    exact = F.softplus(z.double(), beta, 1e4)
    near = z * beta > -24
    torch.testing.assert_close(value[near].double(), exact[near], rtol=3e-6, atol=0)
    assert (value[~near] <= 4e-11 / beta).all()
    torch.testing.assert_close(
        slope.double(), torch.sigmoid(beta * z.double()), rtol=3e-6, atol=2e-11
    )


def test_what_is_not_finite_stays_so() -> None:
    z = torch.tensor([torch.inf, -torch.inf, torch.nan, 1e38, -1e38])
    value, slope = softplus_and_slope(z, 20.0, 20.0)
    torch.testing.assert_close(value, F.softplus(z, 20.0), equal_nan=True)
    torch.testing.assert_close(slope, torch.sigmoid(20 * z), equal_nan=True)


@pytest.mark.parametrize(
    "z",
    [
        torch.randn(3, 4).double(),
        torch.randn(3, 4).T,
        laid_out(torch.randn(2, 3, 4, 5)),
        torch.randn(2, 3, 4, 5)[:, :, 1:],
        torch.randn(0, 3),
    ],
    ids=["double", "transposed", "channels last", "with gaps", "empty"],
)
def test_layouts_and_dtypes_change_nothing(z) -> None:
    value, slope = softplus_and_slope(z, 3.0, 20.0)
    torch.testing.assert_close(value, F.softplus(z, 3.0))
    torch.testing.assert_close(slope, torch.sigmoid(3 * z))
    assert value.stride() == F.softplus(z, 3.0).stride()


@pytest.mark.parametrize("owned", [True, False])
def test_only_what_is_owned_is_written_over(owned) -> None:
    z = torch.randn(70_000)
    before = z.clone()
    value, _ = softplus_and_slope(z, 3.0, 20.0, owned=owned)
    torch.testing.assert_close(value, F.softplus(before, 3.0))
    assert torch.equal(z, before) is not owned


def test_one_channel_lies_last_too() -> None:
    """PyTorch finds both layouts alike then, and would go on with the slower one."""
    x = torch.rand(2, 1, 5, 4)
    assert torch.equal(laid_out(x), x)
    out = F.conv2d(laid_out(x), torch.rand(3, 1, 2, 2))
    assert out.is_contiguous(memory_format=torch.channels_last)
