"""The structure is used only where it is the network: compared once, and as long as it is."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import attribound as ab
import cases
import laws
from attribound.networks.structured import choosing, trace
from attribound.networks.structured.linear import AveragePool, MeanPiece, Scaling
from attribound.networks.structured.network import StructuredNetwork, Sum, UnstructuredError
from attribound.networks.structured.pointwise import LeakyReLU, Softplus, Tanh


class Residual(nn.Module):
    factor = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)
        self.act, self.pool = nn.Softplus(5), nn.AvgPool2d(2)
        self.head = nn.Linear(18, 3)
        self.scale = 1.5

    def forward(self, x: Tensor) -> Tensor:
        out = self.act(self.norm(self.conv(x)) + self.factor * self.scale * x)
        return self.head(torch.tanh(self.pool(out)).flatten(1))


def residual() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model = Residual()
    model.norm.running_mean.normal_()
    model.norm.running_var.uniform_(0.5, 2)
    return model.double().eval(), torch.rand(3, 2, 6, 6).double()


def answers(classifier: ab.Classifier, x: Tensor) -> list[Tensor]:
    target = torch.arange(len(x)) % 3
    gradient, product = classifier.linearise(x, target)
    plain = classifier.gradient(x.clone().requires_grad_(), target)
    return [gradient, product(x), plain]


def truth(model: nn.Module, x: Tensor) -> list[Tensor]:
    point, target = x.clone().requires_grad_(), torch.arange(len(x)) % 3
    gradient = cases.gradient(model, point, target)
    (product,) = torch.autograd.grad(gradient, point, x, retain_graph=True)
    return [gradient.detach(), product, gradient.detach()]


def right(classifier: ab.Classifier, x: Tensor) -> None:
    for ours, theirs in zip(answers(classifier, x), truth(classifier.model, x), strict=True):
        torch.testing.assert_close(ours, theirs, **laws.TIGHT)


def test_it_is_used_without_being_asked_for_and_can_be_switched_off() -> None:
    model, x = residual()
    assert ab.Classifier(model).is_structured(x)
    off = ab.Classifier(model, structured=False)
    assert not off.is_structured(x)
    right(off, x)
    right(ab.Classifier(model), x)


def in_place(model: nn.Module) -> None:
    with torch.no_grad():
        model.conv.weight.mul_(1.1)


def unseen(model: nn.Module) -> None:
    version = model.conv.weight._version
    model.conv.weight.data.mul_(1.1)
    assert model.conv.weight._version == version


def by_numpy(model: nn.Module) -> None:
    model.norm.running_mean.numpy()[:] += 1


def data(model: nn.Module) -> None:
    model.head.weight.data = 2 * model.head.weight.data


def step(model: nn.Module) -> None:
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.rand(2, 2, 6, 6).double()).sum().backward()
    optimiser.step()


def loaded(model: nn.Module) -> None:
    model.load_state_dict(residual_of_seed(1).state_dict())


def statistics(model: nn.Module) -> None:
    model.train()
    model(torch.rand(4, 2, 6, 6).double())
    model.eval()


def residual_of_seed(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return Residual().double()


#: Weights may change in any way: they are read anew.
WEIGHTS = [in_place, unseen, by_numpy, data, step, loaded, statistics]


@pytest.mark.parametrize("change", WEIGHTS)
def test_weights_that_change_are_read_anew(change) -> None:
    model, x = residual()
    classifier = ab.Classifier(model)
    before = answers(classifier, x)
    change(model)
    assert classifier.is_structured(x)
    right(classifier, x)
    assert not torch.equal(answers(classifier, x)[0], before[0])


def attribute(model: nn.Module) -> None:
    model.scale = 0.5


def child(model: nn.Module) -> None:
    model.act = nn.Tanh()


def replaced(model: nn.Module) -> None:
    model.head.weight = nn.Parameter(2 * model.head.weight.detach())


def assigned(model: nn.Module) -> None:
    model.load_state_dict(residual_of_seed(1).state_dict(), assign=True)


def beta(model: nn.Module) -> None:
    model.act.beta = 2.0


def hook(model: nn.Module) -> None:
    model.norm.register_forward_hook(lambda *args: 2 * args[2])


def own_forward(model: nn.Module) -> None:
    model.act.forward = torch.tanh


def another_class(model: nn.Module) -> None:
    model.act.__class__ = Twice


class Twice(nn.Softplus):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    "change", [attribute, child, replaced, assigned, beta, hook, own_forward, another_class]
)
def test_modules_that_change_are_noticed(change) -> None:
    model, x = residual()
    classifier = ab.Classifier(model)
    before = answers(classifier, x)
    change(model)
    right(classifier, x)
    assert not torch.equal(answers(classifier, x)[0], before[0])
    assert classifier.is_structured(x) is (change not in (hook, own_forward))


def test_methods_and_attributes_of_classes_are_noticed(monkeypatch) -> None:
    model, x = residual()
    forward = nn.Softplus.forward
    for kind, name, value in [
        (Residual, "forward", lambda self, x: self.head(self.pool(x).flatten(1).tanh())),
        (nn.Softplus, "forward", lambda self, x: 2 * forward(self, x)),
        (Residual, "factor", 3.0),
    ]:
        classifier = ab.Classifier(model)
        before = answers(classifier, x)
        with monkeypatch.context() as patch:
            patch.setattr(kind, name, value)
            right(classifier, x)
            assert not torch.equal(answers(classifier, x)[0], before[0])
        right(classifier, x)


def test_a_hook_of_all_modules_is_noticed() -> None:
    model, x = residual()
    classifier = ab.Classifier(model)
    assert classifier.is_structured(x)
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, _, out: 2 * out if isinstance(module, nn.BatchNorm2d) else None
    )
    try:
        assert not classifier.is_structured(x)
        right(classifier, x)
    finally:
        handle.remove()


def test_modules_that_keep_changing_are_left_to_autograd() -> None:
    model, x = residual()
    classifier = ab.Classifier(model)
    used = []
    for i in range(6):
        model.scale = float(i)
        right(classifier, x)
        used.append(classifier.is_structured(x))
    assert used == [True] * 3 + [False] * 3


def test_whoever_watches_sees_the_network_run() -> None:
    class Watching(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += func is nn.functional.softplus
            return func(*args, **(kwargs or {}))

    model, x = residual()
    classifier = ab.Classifier(model)
    assert classifier.is_structured(x)
    with Watching() as watching:
        assert not classifier.is_structured(x)
        classifier.logits(x)
    assert watching.calls == 1
    with torch.autocast("cpu"):
        assert not classifier.is_structured(x)


def swapped(find: type, wrong: object) -> Callable[[StructuredNetwork], StructuredNetwork]:
    """The same network with one piece of another kind."""

    def change(network: StructuredNetwork) -> StructuredNetwork:
        steps = list(network.steps)
        (place,) = (i for i, step in enumerate(steps) if isinstance(step.piece, find))
        steps[place] = replace(steps[place], piece=wrong)
        return replace(network, steps=steps)

    return change


#: One wrong piece each; the second derivative alone is wrong in the last two.
BROKEN = {
    "another sharpness": swapped(Softplus, Softplus(5.01, 20.0)),
    "another function": swapped(Softplus, LeakyReLU()),
    "another sum": swapped(Sum, Sum(1.001)),
    "another factor": swapped(Scaling, Scaling(lambda x: (1.501, 0.0))),
    "another constant": swapped(Scaling, Scaling(lambda x: (1.5, 1e-3))),
    "another window": swapped(AveragePool, AveragePool(((2, 2), (2, 2), (0, 0), False, True, 3))),
    "another shape": swapped(AveragePool, MeanPiece((2, 3), keep=True)),
}


class BentWrongly(Tanh):
    """tanh whose gradient is right and whose second derivative is not."""

    def at(self, z: Tensor, *, owned: bool):
        value, here = super().at(z, owned=owned)
        here._scale = -2.01
        return value, here


class SteepWrongly(Tanh):
    """tanh whose value is right and whose gradient is not."""

    def at(self, z: Tensor, *, owned: bool):
        value, here = super().at(z, owned=owned)
        here.slope *= 1.001
        return value, here


BROKEN["a wrong curvature"] = swapped(Tanh, BentWrongly())
BROKEN["a wrong slope"] = swapped(Tanh, SteepWrongly())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_trace_with_a_wrong_piece_is_refused(broken, dtype, monkeypatch) -> None:
    model, x = residual()
    model, x = model.to(dtype), x.to(dtype)
    assert ab.Classifier(model).is_structured(x)
    monkeypatch.setattr(choosing, "trace", lambda model: BROKEN[broken](trace(model)))
    classifier = ab.Classifier(model)
    assert not classifier.is_structured(x)
    for ours, theirs in zip(answers(classifier, x), truth(model, x), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_dtypes_are_left_to_autograd(dtype) -> None:
    model, x = cases.tabular()
    assert not ab.Classifier(model.to(dtype)).is_structured(x.to(dtype))


def test_logits_that_are_not_finite_are_no_agreement() -> None:
    model, x = cases.tabular()
    with torch.no_grad():
        model[-1].bias.fill_(torch.nan)
    assert not ab.Classifier(model).is_structured(x)


def test_what_fits_the_first_input_only_falls_back_later(monkeypatch) -> None:
    model, x = residual()
    for act in ("gradient", "linearise"):
        classifier = ab.Classifier(model)
        assert classifier.is_structured(x)

        def fail(*args: object) -> None:
            raise UnstructuredError("other sizes")

        with monkeypatch.context() as patch:
            patch.setattr(StructuredNetwork, act, fail)
            right(classifier, x)
        assert not classifier.is_structured(x)


def test_labels_that_are_given_are_checked_as_autograd_would() -> None:
    model, x = residual()
    for classifier in (ab.Classifier(model), ab.Classifier(model, structured=False)):
        with pytest.raises(ab.InputError, match="labels from 0 to 2"):
            classifier.targets(x, 3)
        ab.Saliency(classifier).linearize(x, 1)  # probed: not looked at again
        with torch.no_grad():
            model.head.bias[0] = torch.inf
        with pytest.raises(ab.ModelError, match="expected finite logits"):
            ab.Saliency(classifier)(x, 1)
        with pytest.raises(ab.ModelError, match="expected finite logits"):
            ab.Saliency(classifier).linearize(x, 1)
        with torch.no_grad():
            model.head.bias[0] = 0.0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_copies_trace_for_themselves(duplicate) -> None:
    model, x = residual()
    classifier = ab.Classifier(model)
    assert classifier.is_structured(x)
    other = duplicate(classifier)
    in_place(other.model)
    right(other, x)
    right(classifier, x)
    assert other.is_structured(x)


def test_a_linearisation_ends_with_its_weights() -> None:
    model, x = residual()
    _, product = ab.Classifier(model).linearise(x, torch.zeros(3, dtype=torch.long))
    product(x)
    in_place(model)
    with pytest.raises(ab.ModelError, match="modified by an in-place operation since"):
        product(x)


def test_weights_made_in_inference_mode_do_as_well() -> None:
    with torch.inference_mode():
        model, x = cases.tabular()
    network = trace(model)
    target = torch.zeros(len(x), dtype=torch.long)
    here = network.linearise(x.clone(), target)
    assert here.product(x.clone()).shape == x.shape


def test_bytes_are_those_that_are_held() -> None:
    """Slopes and curvatures of every example, points and gradients; products need half of it."""
    model, x = residual()
    classifier = ab.Classifier(model)
    target = torch.zeros(len(x), dtype=torch.long)
    here = trace(model).linearise(x, target)
    activations = (2 * 36 + 2 * 9) * 8
    assert here.held == len(x) * (2 * activations + 2 * 72 * 8)
    assert classifier.graph_bytes(x) == here.held // len(x)
    assert ab.Classifier(model, structured=False).graph_bytes(x) > classifier.graph_bytes(x)


@pytest.mark.parametrize(
    "attribution", [ab.Saliency(), ab.InputXGradient(), ab.IntegratedGradients(steps=3)], ids=repr
)
def test_it_is_compared_at_the_inputs_not_where_their_paths_begin(attribution, monkeypatch) -> None:
    """At a black image slopes may be next to nothing, and their differences are large beside it."""
    model, x = cases.tabular()
    seen: list[Tensor] = []
    agrees = choosing.agrees

    def watched(network, points, *others) -> bool:
        seen.append(points)
        return agrees(network, points, *others)

    monkeypatch.setattr(choosing, "agrees", watched)
    attribution.of(model)(x)
    assert torch.equal(seen[0][0], x[0])
