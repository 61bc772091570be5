from __future__ import annotations

import pytest
import torch

import attribound as ab
from attribound.networks.inputs import check_inputs, check_targets

X = torch.rand(3, 4)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[1.0, 2.0]], r"expected a torch.Tensor.*got list"),
        (torch.ones(2, 3, dtype=torch.long), r"floating point numbers, got torch.int64"),
        (torch.ones(2, 3, dtype=torch.bool), r"floating point numbers, got torch.bool"),
        (torch.rand(4), r"a batch .*got shape \(4,\)"),
        (torch.tensor(1.0), r"a batch .*got shape \(\)"),
        (torch.rand(0, 4), r"at least one example.*got shape \(0, 4\)"),
        (torch.rand(2, 0), r"at least one example.*got shape \(2, 0\)"),
        (torch.tensor([[1.0], [torch.nan]]), r"NaN or infinity in examples \[1\]"),
        (torch.tensor([[-torch.inf], [1.0]]), r"NaN or infinity in examples \[0\]"),
    ],
)
def test_unusable_inputs_are_refused(x, message) -> None:
    with pytest.raises(ab.InputError, match=f"x: .*{message}"):
        check_inputs(x)


def test_inputs_come_back_detached() -> None:
    x = X.clone().requires_grad_()
    out = check_inputs(x)
    assert torch.equal(out, x)
    assert not out.requires_grad
    assert x.requires_grad


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (-1, "labels from 0 to 4, got labels from -1 to -1"),
        (5, "labels from 0 to 4, got labels from 5 to 5"),
        (torch.tensor([0, -2, 4]), "labels from 0 to 4, got labels from -2 to 4"),
        (torch.tensor([0, 1, 5]), "labels from 0 to 4, got labels from 0 to 5"),
        (torch.tensor([0, 1]), r"one label, or 3 of them, got shape \(2,\)"),
        (torch.tensor([[0], [1], [2]]), r"one label, or 3 of them, got shape \(3, 1\)"),
        (torch.tensor([0.0, 1.0, 2.0]), "integer labels, got torch.float32"),
        (1.0, "integer labels, got torch.float32"),
        (torch.tensor([True, False, True]), "integer labels, got torch.bool"),
        (True, "integer labels, got torch.bool"),
        ("cat", "integer labels, got 'cat'"),
        (torch.tensor([1j, 0, 0]), "integer labels, got torch.complex64"),
    ],
)
def test_unusable_labels_are_refused(target, message) -> None:
    with pytest.raises(ab.InputError, match=f"target: .*{message}"):
        check_targets(target, X, 5)


def test_labels_without_a_known_number_of_classes() -> None:
    assert check_targets(99, X, None).tolist() == [99, 99, 99]
    with pytest.raises(ab.InputError, match="from 0 to the last class, got labels from -1"):
        check_targets(-1, X, None)


@pytest.mark.parametrize("target", [2, torch.tensor(2), torch.full((3,), 2, dtype=torch.uint8)])
def test_labels_become_a_long_vector(target) -> None:
    labels = check_targets(target, X, 5)
    assert labels.dtype == torch.long
    assert labels.tolist() == [2, 2, 2]
