"""What is asked of a network: modes, frozen parameters, hinges, its subject, its inputs."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attribound as ab
from attribound.networks.classifier import Classifier
from attribound.networks.fingerprint import fingerprint
from attribound.networks.frozen import frozen
from attribound.networks.hinges import hinges
from attribound.networks.inputs import check_inputs, check_targets
from attribound.networks.modes import eval_mode
from attribound.networks.subject import copy_of, original_of, subject_of


def test_every_module_returns_to_its_own_mode() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.BatchNorm1d(2), nn.Dropout())).train()
    model[1][0].eval()  # a frozen batch norm
    before = [module.training for module in model.modules()]
    with eval_mode(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == before


def test_also_after_an_error() -> None:
    model = nn.Dropout()
    with pytest.raises(ZeroDivisionError), eval_mode(model):
        1 / 0  # noqa: B018
    assert model.training


def test_a_function_has_no_mode() -> None:
    with eval_mode(abs):
        pass


def flags(model: nn.Module) -> list[bool]:
    return [parameter.requires_grad for parameter in model.parameters()]


def test_restores_exactly_the_flags_that_were_set() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].bias.requires_grad_(False)
    before = flags(model)
    seen = []

    def fail() -> None:
        with frozen(model):
            seen.extend(flags(model))
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert not any(seen)
    assert flags(model) == before


def test_a_function_has_nothing_to_freeze() -> None:
    with frozen(len):
        pass


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(F.relu(self.one(x))).abs()


def test_of_modules_functions_and_in_place() -> None:
    torch.manual_seed(0)
    x = torch.rand(5, 3).requires_grad_()
    net = Functional().eval()
    first, second = hinges(Classifier(net), x)
    torch.testing.assert_close(first, net.one(x))
    torch.testing.assert_close(second, net.two(F.relu(net.one(x))))
    in_place = nn.Sequential(net.one, nn.ReLU(inplace=True), net.two).eval()
    (only,) = hinges(Classifier(in_place), x)
    torch.testing.assert_close(only, net.one(x))
    (slope,) = torch.autograd.grad(only[:, 1].sum(), x)
    torch.testing.assert_close(slope, net.one.weight[1].expand(5, 3))


def test_convolutions_are_flat() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.LeakyReLU(), nn.Flatten(), nn.Linear(8, 2)).eval()
    (only,) = hinges(Classifier(net), torch.rand(3, 1, 4, 4))
    assert only.shape == (3, 8)


def test_none_in_a_smooth_network() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.Linear(4, 2)).eval()
    assert hinges(Classifier(net), torch.rand(2, 3)) == []


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()


def test_a_copy_and_its_original() -> None:
    net = network()
    smooth = ab.smooth(net, 50)
    assert original_of(smooth) is net
    assert original_of(net) is net
    assert copy_of(net) is None
    assert subject_of(net) == subject_of(None) == "your network"
    assert subject_of(smooth) == "its smooth copy, β = 50"


def test_a_copy_of_a_copy_is_one_of_the_original() -> None:
    net = network()
    again = ab.smooth(ab.smooth(net, 5), 100)
    assert original_of(again) is net
    assert subject_of(again) == "its smooth copy, β = 100"


def test_it_survives_copies_and_pickles_and_changes_nothing() -> None:
    smooth = ab.smooth(network(), 20)
    for same in (copy.deepcopy(smooth), pickle.loads(pickle.dumps(smooth))):
        assert subject_of(same) == "its smooth copy, β = 20"
        assert fingerprint("m", same) == fingerprint("m", smooth)
    assert smooth.state_dict().keys() == network().state_dict().keys()
    assert len([*smooth.modules()]) == 4


def test_a_module_that_is_replaced_whole() -> None:
    assert subject_of(ab.smooth(nn.ReLU(), 20)) == "its smooth copy, β = 20"


def test_every_result_says_whose_it_is() -> None:
    net, x = network(), torch.rand(2, 3)
    smooth = ab.smooth(net, 20)
    ball = ab.L2Ball(0.1)
    for claim in ("first_order", "adjusted", "mean_value", "certified"):
        bound = ab.bound(ab.Saliency(smooth), x, ball, claim=claim)
        assert bound.subject == "its smooth copy, β = 20"
        assert "of its smooth copy, β = 20, l2 ball" in repr(bound)
    assert ab.max_epsilon(ab.Saliency(smooth), x, degrees=10).subject == "its smooth copy, β = 20"
    attack = ab.attacks.PGD()
    assert "Attacked your network" in repr(attack(ab.Saliency(net), x, ball))
    assert attack.repeat(2)(ab.Saliency(smooth), x, ball).subject == "its smooth copy, β = 20"


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
