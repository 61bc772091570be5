from __future__ import annotations

import copy
import io
import math
import pickle
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import GraphModule, symbolic_trace
from torch.fx.graph import CodeGen
from torch.utils.checkpoint import checkpoint

import attribound as ab
from attribound.networks import LogSumExpPool
from attribound.networks.kinks import find_kinks
from cases import Functional

BETA = 3.0


class BasicBlock(nn.Module):
    """The block of a ResNet: functional ReLUs, batch norm, a shortcut."""

    def __init__(self, width: int = 2) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_with(x, F.relu)

    def forward_with(self, x: Tensor, activation) -> Tensor:
        out = activation(self.bn1(self.conv1(x)))
        return activation(self.bn2(self.conv2(out)) + x)


class PreActivation(nn.Module):
    """The in-place ReLU changes the shortcut, too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(x, inplace=True)
        return self.conv(out) + x


class Network(nn.Module):
    """Modules and functions, a kink in each; parameters, buffers and a plain tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(inplace=True))
        self.block = BasicBlock()
        self.pool = nn.MaxPool2d(2)
        self.act = nn.PReLU()
        self.head = nn.Linear(2 * 2 * 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        out = F.max_pool2d(self.act(self.pool(self.block(self.stem(x)))), 2)
        return self.head(out.flatten(1)).relu()


def network() -> tuple[Network, Tensor]:
    torch.manual_seed(0)
    return Network().double().eval(), torch.randn(3, 1, 8, 8).double()


def block() -> tuple[BasicBlock, Tensor]:
    torch.manual_seed(0)
    return BasicBlock().double().eval(), torch.randn(2, 2, 4, 4).double()


def test_a_whole_network_converges_to_the_original() -> None:
    model, x = network()
    assert len(find_kinks(model, x)) == 6
    assert find_kinks(ab.smooth(model, 20), x) == ()
    errors = [(ab.smooth(model, beta)(x) - model(x)).abs().max() for beta in (1, 10, 100, 1e6)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.1
    assert errors[-1] < 1e-5


def test_residual_block() -> None:
    model, x = block()
    expected = model.forward_with(x, nn.Softplus(BETA))
    torch.testing.assert_close(ab.smooth(model, BETA)(x), expected)


def test_an_in_place_relu_changes_the_shortcut() -> None:
    model = PreActivation().double()
    x = torch.randn(1, 2, 3, 3, generator=torch.Generator().manual_seed(0)).double()
    smoothed = ab.smooth(model, BETA)
    active = F.softplus(x, BETA)
    torch.testing.assert_close(smoothed(x.clone()), model.conv(active) + active)
    assert torch.autograd.gradcheck(lambda x: smoothed(x.clone()), x.requires_grad_())
    assert torch.autograd.gradgradcheck(lambda x: smoothed(x.clone()), x)


@pytest.mark.parametrize("grad", [True, False])
def test_transformer_layer(grad) -> None:
    """Without gradients PyTorch would take a fused path, with the ReLU."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, activation="relu", batch_first=True)
    layer, x = layer.double().eval(), torch.randn(2, 5, 4).double()
    reference = copy.deepcopy(layer)
    reference.activation = nn.Softplus(BETA)
    expected = reference(x)
    smoothed = ab.smooth(layer, BETA)
    assert [kink.operator for kink in find_kinks(layer, x)] == ["relu"]
    assert find_kinks(smoothed, x) == ()
    with torch.set_grad_enabled(grad):
        torch.testing.assert_close(smoothed(x), expected)


def test_a_module_used_twice() -> None:
    torch.manual_seed(0)
    relu, linear = nn.ReLU(), nn.Linear(3, 3).double()
    x = torch.randn(2, 3).double()
    smoothed = ab.smooth(nn.Sequential(linear, relu, linear, relu), BETA)
    expected = F.softplus(linear(F.softplus(linear(x), BETA)), BETA)
    torch.testing.assert_close(smoothed(x), expected)


class Relu(nn.ReLU):
    """A subclass with nothing of its own."""


@pytest.mark.parametrize(
    "model", [nn.ReLU(), nn.ReLU(inplace=True), Relu(), nn.LeakyReLU(0.0), nn.Threshold(0.0, 0.0)]
)
def test_a_model_that_is_an_activation(model) -> None:
    x = torch.linspace(-2, 2, 9).double()
    torch.testing.assert_close(ab.smooth(model, BETA)(x.clone()), F.softplus(x, BETA))


@pytest.mark.parametrize("pooling", [True, False])
def test_a_model_that_is_a_pooling(pooling) -> None:
    smoothed = ab.smooth(nn.MaxPool2d(2), BETA, pooling=pooling)
    assert isinstance(smoothed, LogSumExpPool if pooling else nn.MaxPool2d)


def test_pooling_can_be_kept() -> None:
    model, x = network()
    kinks = find_kinks(ab.smooth(model, 20, pooling=False), x)
    assert [str(kink) for kink in kinks] == [
        "max_pool2d_with_indices in 'pool' (MaxPool2d)",
        "max_pool2d_with_indices in the model's forward",
    ]


def test_checkpointed_parts_are_refused() -> None:
    """Their forward runs again in the backward pass, as a ReLU: a gradient of another network."""
    torch.manual_seed(0)
    model, x = Checkpointed().double().eval(), torch.randn(2, 3).double()
    with pytest.raises(ab.ModelError, match="checkpointing off"):
        ab.bound(ab.Saliency(ab.smooth(model, BETA)), x, ab.L2Ball(0.1))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(lambda x: F.relu(self.linear(x)), x, use_reentrant=False)


def test_the_original_is_untouched() -> None:
    model, x = network()
    before = model(x)
    types = [type(module) for module in model.modules()]
    state = copy.deepcopy(model.state_dict())
    ab.smooth(model, BETA)(x).sum().backward()
    assert [type(module) for module in model.modules()] == types
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(model(x), before)


@pytest.mark.parametrize("share", [False, True])
def test_weights_are_copied_or_shared(share) -> None:
    model, x = network()
    smoothed = ab.smooth(model, BETA, share_weights=share)
    before = smoothed(x)
    with torch.no_grad():
        model.stem[0].weight.mul_(2)
    changed_by_parameter = not torch.equal(smoothed(x), before)
    before = smoothed(x)
    model.block.bn1.running_var.mul_(4)
    changed_by_buffer = not torch.equal(smoothed(x), before)
    assert changed_by_parameter is changed_by_buffer is share
    assert (smoothed.head.weight is model.head.weight) is share


def test_state_loads_in_both_directions() -> None:
    model, x = network()
    torch.manual_seed(1)
    other = Network().double().eval()
    smoothed = ab.smooth(other, BETA)
    assert list(smoothed.state_dict()) == list(model.state_dict())
    smoothed.load_state_dict(model.state_dict())
    torch.testing.assert_close(smoothed(x), ab.smooth(model, BETA)(x))
    other.load_state_dict(smoothed.state_dict())
    assert torch.equal(other(x), model(x))


def through_torch(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize(
    "again",
    [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model)), through_torch],
    ids=["deepcopy", "copy", "pickle", "torch.save"],
)
def test_copies_stay_smooth(again) -> None:
    model, x = network()
    smoothed = ab.smooth(model, BETA)
    twin = again(smoothed)
    assert isinstance(twin, Network)
    assert torch.equal(twin(x), smoothed(x))
    assert find_kinks(twin, x) == ()


def test_a_deepcopy_has_its_own_weights() -> None:
    model, _ = network()
    smoothed = ab.smooth(model, 20)
    assert copy.deepcopy(smoothed).head.weight is not smoothed.head.weight


def test_smoothing_again_uses_the_newer_beta() -> None:
    model, x = network()
    twice = ab.smooth(ab.smooth(model, 50.0), BETA)
    torch.testing.assert_close(twice(x), ab.smooth(model, BETA)(x))
    assert type(twice).__mro__.count(Network) == 1
    assert type(twice).__name__ == "SmoothNetwork"


def test_smoothing_a_model_with_a_smooth_part_uses_the_newer_beta() -> None:
    model, x = block()
    whole = ab.smooth(nn.Sequential(ab.smooth(model, 50.0)), BETA)
    torch.testing.assert_close(whole(x), ab.smooth(model, BETA)(x))


def test_smoothing_a_smooth_model_leaves_it_as_it_was() -> None:
    model, x = network()
    once = ab.smooth(model, BETA)
    before = once(x)
    ab.smooth(once, 50.0)
    assert torch.equal(once(x), before)


def test_modes_are_kept_module_by_module() -> None:
    model, _ = network()
    model.train()
    model.block.bn1.eval()
    smoothed = ab.smooth(model, 20)
    modes = {name: module.training for name, module in model.named_modules()}
    assert {name: module.training for name, module in smoothed.named_modules()} == modes


def test_the_class_is_kept() -> None:
    model, _ = network()
    smoothed = ab.smooth(model, 20)
    assert isinstance(smoothed, Network)
    assert type(smoothed).__name__ == "SmoothNetwork"
    assert isinstance(ab.smooth(nn.Sequential(nn.ReLU(), nn.Tanh()), 20)[:1], nn.Sequential)


def test_functions_outside_the_model_are_not_touched() -> None:
    model, x = network()
    smoothed = ab.smooth(model, 20)
    smoothed(x)
    with pytest.raises(RuntimeError, match="shape"):
        smoothed(x[..., :3])
    assert torch.equal(F.relu(x), x.clamp(min=0))
    assert torch.equal(F.relu(x), torch.where(x > 0, x, 0.0))


def test_second_derivatives_of_a_whole_network() -> None:
    model, x = network()
    smoothed = ab.smooth(model, BETA)
    assert torch.autograd.gradgradcheck(smoothed, x[:1].requires_grad_())


@pytest.mark.parametrize("model", [F.relu, "model", None])
def test_refuses_what_is_not_a_module(model) -> None:
    with pytest.raises(
        ab.ModelError, match=r"model: expected a torch.nn.Module.*wrap the function"
    ):
        ab.smooth(model, 20)


def test_refuses_a_scripted_module() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scripting is deprecated
        scripted = torch.jit.script(nn.Sequential(nn.ReLU()))
    with pytest.raises(ab.ModelError, match="smooth the module before scripting it"):
        ab.smooth(scripted, 20)


@pytest.mark.parametrize("beta", [0, -1.0, math.inf, math.nan, "20", None])
def test_refuses_a_beta_that_is_no_sharpness(beta) -> None:
    with pytest.raises(ab.InputError, match="beta: expected a finite number above 0, got "):
        ab.smooth(nn.ReLU(), beta)


class Kinks(nn.Module):
    """Every kinked function that torch.export writes as an ATen operator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.prelu = nn.PReLU(2)
        self.rrelu = nn.RReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu6(F.relu(x) - 0.4) - F.leaky_relu(x, 0.2)
        x = F.relu_(self.rrelu(self.prelu(x)) + 0.3) + F.threshold(x, 0, 0)
        x = F.hardtanh(x, -0.5, 0.5) + x.clamp(-0.2, 0.4) + x.clamp_min(0.3) - x.clamp_max(0.2)
        x = F.max_pool2d(x, 2, 1) + F.adaptive_max_pool2d(x, 3)[..., :1, :1]
        return F.max_pool1d(x.flatten(1), 2) + F.max_pool3d(x, 1).flatten(1)[:, :1]


def graph_of(model: nn.Module, x: Tensor) -> GraphModule:
    """What torch.export makes of a model, as a plain graph module."""
    module = torch.export.export(model, (x,)).module(check_guards=False)
    module.graph.set_codegen(CodeGen())
    output = module.graph.output_node()
    output.args = tuple(output.args[0])
    return GraphModule(module, module.graph).eval()


def test_exported_graphs_are_smoothed_as_their_models() -> None:
    model, x = Kinks().eval(), torch.randn(2, 2, 6, 6)
    graph = graph_of(model, x)
    before = x.clone()
    torch.testing.assert_close(graph(x), model(x))
    smoothed = ab.smooth(graph, 20.0)
    torch.testing.assert_close(smoothed(x), ab.smooth(model, 20.0)(x))
    assert find_kinks(smoothed, x) == ()
    assert find_kinks(graph, x)
    assert torch.equal(x, before)


def test_in_place_operators_of_graphs_change_their_input() -> None:
    model = Functional(lambda x: torch.ops.aten.relu_.default(x).sum() + x.sum())
    x = torch.randn(3, 4)
    expected = 2 * F.softplus(x, 5.0).sum()
    torch.testing.assert_close(ab.smooth(model, 5.0)(x.clone()), expected)


def test_smooth_graphs_can_be_copied_and_pickled() -> None:
    """Graph modules copy themselves by making a class; a copy must stay smooth."""
    x = torch.randn(2, 3)
    graph = symbolic_trace(Relu())
    smoothed = ab.smooth(graph, 5.0)
    again = copy.deepcopy(smoothed)
    for other in (again, copy.deepcopy(again), copy.copy(smoothed), ab.smooth(smoothed, 5.0)):
        assert torch.equal(other(x), smoothed(x))
        assert find_kinks(other, x) == ()
    pickled = pickle.loads(pickle.dumps(smoothed))
    assert torch.equal(pickled(x), smoothed(x))
    again.layer.weight.data.zero_()
    assert smoothed.layer.weight.abs().min() > 0
    assert ab.smooth(graph, 5.0, share_weights=True).layer.weight is graph.layer.weight
    assert find_kinks(graph, x)


class Relu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):  # torch.fx cannot pickle annotations that are texts
        return torch.relu(self.layer(x))
