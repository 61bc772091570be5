from __future__ import annotations

import pytest
import torch
from torch import nn

import attribound as ab
import cases


def relu_network() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
    model.append(nn.Linear(32, 3))
    return model.double().eval(), torch.randn(20, 6).double()


def linear(weight: list[list[float]]) -> nn.Module:
    model = nn.Linear(len(weight[0]), len(weight), bias=False).double()
    model.weight.data = torch.tensor(weight, dtype=torch.float64)
    return model


@pytest.mark.parametrize("attribution", cases.ATTRIBUTIONS.values(), ids=cases.ATTRIBUTIONS.keys())
def test_a_model_is_faithful_to_itself(attribution) -> None:
    model, x = cases.tabular()
    result = ab.fidelity(model, model, x, attribution)
    assert result.agreement == 1.0
    for difference in (result.logits, result.attribution, result.degrees):
        assert torch.equal(difference, torch.zeros(len(x)).double())


def test_differences_of_two_linear_models() -> None:
    """Of the original's label, even where the other model predicts another one."""
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double()
    result = ab.fidelity(linear([[2, 0], [0, 1]]), linear([[0, 2], [1, 1]]), x)
    assert result.labels_agree.tolist() == [False, False]
    assert result.agreement == 0.0
    torch.testing.assert_close(result.logits, torch.tensor([2.0, 2.0]).double())
    torch.testing.assert_close(result.attribution, torch.tensor([2.0**0.5, 1.0]).double())
    torch.testing.assert_close(result.degrees, torch.tensor([90.0, 45.0]).double())


@pytest.mark.parametrize("attribution", [ab.Saliency, ab.InputXGradient])
def test_a_smooth_copy_comes_closer_as_beta_grows(attribution) -> None:
    model, x = relu_network()
    results = [ab.fidelity(model, ab.smooth(model, b), x, attribution) for b in (2, 20, 200, 1e6)]
    for name in ("logits", "attribution", "degrees"):
        means = [getattr(result, name).mean().item() for result in results]
        assert means == sorted(means, reverse=True)
        assert means[0] > 10 * means[2]
        assert means[3] < 1e-5
    assert results[-1].agreement == 1.0


def test_repr_counts_the_labels_that_agree() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.1, 1.0]]).double()
    text = repr(ab.fidelity(linear([[1, 0], [0, 1]]), linear([[-1, 0.5], [0, 1]]), x))
    assert "same label for 2 of 3" in text
    assert "attribution angle (degrees)" in text


def test_zero_attributions_give_no_nan() -> None:
    zero, other = linear([[0, 0], [0, 0]]), linear([[1, 0], [0, 0]])
    x = torch.ones(2, 2).double()
    same, apart = ab.fidelity(zero, zero, x), ab.fidelity(zero, other, x)
    assert same.attribution.tolist() == [0.0, 0.0]
    assert apart.attribution.tolist() == [torch.inf, torch.inf]
    assert same.degrees.tolist() == apart.degrees.tolist() == [180.0, 180.0]
    assert "nan" not in repr(same) + repr(apart)


def test_refuses_inputs_that_are_no_batch() -> None:
    model, x = relu_network()
    with pytest.raises(ab.InputError, match="x: expected a batch"):
        ab.fidelity(model, model, x[0])
