"""What is traced is differentiated rightly, and what is not known is left to autograd."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import attribound as ab
import cases
import laws
from attribound.models import Normalisation, ResNet18, SmallCNN
from attribound.models.normalisation import Normalised
from attribound.networks.structured import trace

OFFSET = 0.1


class Constant(nn.Module):
    """Goes through a layer without the input."""

    def __init__(self, make: Callable[[nn.Module], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 7))
        self.norm = nn.BatchNorm1d(7)
        self.make = make

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x) + self.make(self)


class Net(nn.Module):
    """A convolution, some function of images and of the convolution's parent, and a head."""

    def __init__(self, middle: Callable[[nn.Module, Tensor], Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.parts = nn.ModuleList(parts)
        self.middle = middle
        self.head = nn.LazyLinear(3)
        self.register_buffer("offset", torch.linspace(0.5, 2, 4))
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(self.middle(self, torch.tanh(self.conv(x))), 1))


def randomised(model: nn.Module) -> nn.Module:
    """In eval mode and float64, with batch norms that do something."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias)
    return model.double().eval()


def net(middle: Callable[..., Tensor], *parts: nn.Module) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model = Net(middle, *parts).eval()
    x = torch.randn(3, 2, 6, 6)
    model(x)  # sizes of the head
    return randomised(model), x.double()


def layer(module: nn.Module) -> tuple[nn.Module, Tensor]:
    return net(lambda m, z: torch.tanh(m.parts[0](z)), module)


LAYERS = [
    nn.Conv2d(4, 2, 3),
    nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False),
    nn.Conv2d(4, 8, (1, 3), stride=(1, 2), padding=(0, 2), dilation=(1, 2)),
    nn.Conv2d(4, 8, 3, padding=1, groups=2),
    nn.Sequential(nn.Conv2d(4, 6, 2, bias=False), nn.BatchNorm2d(6)),
    nn.Sequential(nn.Conv2d(4, 6, 2), nn.BatchNorm2d(6, affine=False)),
    nn.BatchNorm2d(4, eps=0.1),
    nn.Sequential(nn.Flatten(), nn.Linear(144, 7), nn.BatchNorm1d(7)),
    nn.Sequential(nn.Flatten(2), nn.Conv1d(4, 3, 5, stride=2), nn.AvgPool1d(3, 2, 1)),
    nn.AvgPool2d(2),
    nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
    nn.AvgPool2d(2, 1, divisor_override=3),
    nn.AdaptiveAvgPool2d(1),
    nn.AdaptiveAvgPool2d((4, None)),
    nn.Softplus(),
    nn.Softplus(7.0, threshold=30),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.SiLU(),
    nn.GELU(),
    nn.ReLU(),
    nn.Sequential(nn.Conv2d(4, 3, 3), nn.ReLU(inplace=True)),
    nn.LeakyReLU(0.3),
    nn.Sequential(nn.Tanh(), nn.Softplus(3), nn.SiLU(), nn.SiLU(), nn.GELU()),
    nn.Dropout(0.5),
    nn.Identity(),
]
MIDDLES: dict[str, Callable[..., Tensor]] = {
    "sum of views": lambda m, z: torch.tanh(z) + F.silu(z),
    "shortcut": lambda m, z: torch.sigmoid(z + 2 * F.softplus(z, 3)),
    "difference": lambda m, z: torch.sub(z, torch.tanh(z), alpha=0.5).sigmoid(),
    "used three times": lambda m, z: (z + z.tanh() + z).tanh(),
    "rational": lambda m, z: (1 - z / 2 + (-1.5) * z).tanh(),
    "buffers": lambda m, z: ((z - m.offset.view(4, 1, 1)) / m.offset[:, None, None]).tanh(),
    "parameters": lambda m, z: (m.gain.view(1, 4, 1, 1) * z).tanh(),
    "means": lambda m, z: z.tanh().mean((2, 3)),
    "mean kept": lambda m, z: z.tanh().mean(-1, keepdim=True),
    "view": lambda m, z: z.view(z.size(0), -1).tanh(),
    "reshape": lambda m, z: z.reshape(-1, 12, 12).tanh().view(z.shape[0], 3, -1),
    "written over": lambda m, z: F.relu(z + 0.1, inplace=True).tanh(),
    "same": lambda m, z: F.dropout(z.clone().contiguous(), 0.5, False).tanh(),
}


def dense_hessian(model: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    return cases.dense_jacobian(lambda p: cases.gradient(model, p, target), x)


def agrees(model: nn.Module, x: Tensor) -> None:
    """Logits, gradient and every product are those of autograd, in float64, to 1e-10."""
    network = trace(model)
    assert network is not None
    tight = {"rtol": 1e-10, "atol": 1e-11}
    target = torch.arange(len(x)) % 2
    here = network.linearise(x, target)
    torch.testing.assert_close(here.logits, model(x).detach(), **tight)
    torch.testing.assert_close(network.logits(x), here.logits)
    expected = cases.gradient(model, x, target).detach()
    torch.testing.assert_close(here.gradient, expected, **tight)
    torch.testing.assert_close(network.gradient(x, target)[1], expected, **tight)
    matrix = dense_hessian(model, x, target)
    size = x[0].numel()
    columns = torch.eye(size).double().view(size, 1, *x.shape[1:]).expand(size, *x.shape)
    products = here.product(columns.flatten(0, 1).contiguous()).view(size, len(x), size)
    torch.testing.assert_close(products.permute(1, 2, 0), matrix, **tight)
    torch.testing.assert_close(here.product(columns[3]), products[3].view_as(x), **tight)


@pytest.mark.parametrize("module", LAYERS, ids=str)
def test_every_layer_has_its_dense_hessian(module) -> None:
    agrees(*layer(copy.deepcopy(module)))


@pytest.mark.parametrize("middle", MIDDLES)
def test_every_operation_has_its_dense_hessian(middle) -> None:
    agrees(*net(MIDDLES[middle]))


@pytest.mark.parametrize("name", ["tabular", "image", "signal"])
def test_networks_have_their_dense_hessians(name) -> None:
    model, x = cases.NETWORKS[name]()
    agrees(randomised(model), x)


@pytest.mark.parametrize("in_place", [True, False])
def test_smooth_copies_are_traced_as_they_run(in_place) -> None:
    """Modules in them look like ReLUs, and are none while the copy runs."""
    torch.manual_seed(0)
    own = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.ReLU(in_place), nn.Flatten(), nn.Linear(48, 3), nn.LeakyReLU(0.1)
    )
    copied = ab.smooth(own.double().eval(), beta=5.0)
    agrees(copied, torch.randn(2, 2, 6, 6).double())
    agrees(ab.smooth(copied, beta=2.0), torch.randn(2, 2, 6, 6).double())


def test_three_dimensions_have_their_dense_hessian() -> None:
    model, x = net(lambda m, z: m.parts[0](z.view(-1, 1, 4, 6, 6)).tanh(), nn.Conv3d(1, 2, 2))
    agrees(model, x)


def test_normalised_residual_networks_in_single_precision() -> None:
    torch.manual_seed(0)
    normalisation = Normalisation((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    deep = Normalised(normalisation, ResNet18(width=4))
    small = SmallCNN()
    nn.init.normal_(small.classifier.fc3.weight, std=0.1)
    for made, x in [(deep, torch.rand(2, 3, 16, 16)), (small, torch.rand(2, 1, 28, 28))]:
        model = randomised(made).float()
        here, target = trace(model).linearise(x, torch.tensor([0, 1])), torch.tensor([0, 1])
        ours = [here.logits, here.gradient, here.product(x)]
        theirs = by_autograd(model, x, target)
        truth = by_autograd(copy.deepcopy(model).double(), x.double(), target)
        for one, other, exact in zip(ours, theirs, truth, strict=True):
            rounding = (other - exact).norm()  # of autograd itself
            assert (one - exact).norm() <= 2 * rounding + 1e-6 * exact.norm()
            assert (one - other).norm() <= 1e-5 * other.norm() + 2 * rounding


def by_autograd(model: nn.Module, x: Tensor, target: Tensor) -> list[Tensor]:
    point = x.detach().requires_grad_()
    gradient = cases.gradient(model, point, target)
    (product,) = torch.autograd.grad(gradient, point, x, retain_graph=True)
    return [model(x).detach(), gradient.detach(), product]


class Surroundings(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + OFFSET


class Branch(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.sum() > 0 else super().forward(-x)


class OwnTensor(nn.Linear):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.shift = torch.ones(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.shift


class MadeTensor(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.ones(3)


class Object(nn.Linear):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.settings = type("Settings", (), {"shift": 1.0})()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.settings.shift


class Counts(nn.Linear):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


class Pair(nn.Linear):
    def forward(self, x: Tensor, other: float = 0.0) -> Tensor:
        return super().forward(x) + other


def hooked() -> nn.Module:
    model = nn.Linear(7, 3)
    model.register_forward_hook(lambda *args: 2 * args[2])
    return model


def hooked_inside() -> nn.Module:
    model = nn.Sequential(nn.Linear(7, 3))
    model[0].register_forward_pre_hook(lambda *args: None)
    return model


def own_forward() -> nn.Module:
    model = nn.Linear(7, 3)
    model.forward = lambda x: 2 * F.linear(x, model.weight)
    return model


class Kind(Tensor):
    """A tensor that may do anything."""


def subclassed() -> nn.Module:
    model = nn.Linear(7, 3)
    model.register_buffer("shift", torch.ones(3).as_subclass(Kind))
    return model


def parametrised() -> nn.Module:
    model = nn.Linear(7, 3)
    parametrize.register_parametrization(model, "weight", nn.Softplus())
    return model


def flat(change: Callable[[nn.Module, Tensor], Tensor]) -> nn.Module:
    torch.manual_seed(0)
    model = Net(change).eval()
    model(torch.randn(1, 2, 6, 6))
    return model


def counting_function() -> nn.Module:
    seen: list[int] = []

    def change(m: nn.Module, z: Tensor) -> Tensor:
        seen.append(1)
        return z

    return flat(change)


REFUSED: dict[str, Callable[[], object]] = {
    "a function": lambda: torch.tanh,
    "hooks": hooked,
    "hooks inside": hooked_inside,
    "a forward of its own": own_forward,
    "a parametrised weight": parametrised,
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(7, 3)),
    "a variable around it": lambda: Surroundings(7, 3),
    "a branch": lambda: Branch(7, 3),
    "a tensor as attribute": lambda: OwnTensor(7, 3),
    "a tensor made on the way": lambda: MadeTensor(7, 3),
    "an object as attribute": lambda: Object(7, 3),
    "a forward that changes it": lambda: Counts(7, 3),
    "attention": lambda: cases.sequence()[0],
    "max-pooling": lambda: nn.Sequential(nn.Unflatten(1, (1, 7)), nn.MaxPool1d(2), nn.Flatten()),
    "a softplus with a corner": lambda: nn.Sequential(nn.Linear(7, 3), nn.Softplus(1, 2)),
    "an approximate GELU": lambda: nn.Sequential(nn.Linear(7, 3), nn.GELU("tanh")),
    "dropout in train mode": lambda: nn.Sequential(nn.Linear(7, 3), nn.Dropout().train()),
    "batch norm in train mode": lambda: nn.BatchNorm1d(7).train(),
    "batch norm without statistics": lambda: nn.BatchNorm1d(7, track_running_stats=False).eval(),
    "padding by reflection": lambda: nn.Conv1d(1, 3, 3, padding=1, padding_mode="reflect"),
    "padding by name": lambda: nn.Conv1d(1, 3, 3, padding="same"),
    "products": lambda: flat(lambda m, z: z * z),
    "inverses": lambda: flat(lambda m, z: 1 / (z + 5)),
    "a weight of the input": lambda: flat(lambda m, z: F.linear(z, z[0, 0])),
    "a mean over everything": lambda: flat(lambda m, z: z + z.mean()),
    "examples flattened": lambda: flat(lambda m, z: z.flatten().view(-1, 4, 6, 6)),
    "as many examples as written": lambda: flat(lambda m, z: z.view(1, -1, 2)),
    "other sizes": lambda: flat(lambda m, z: z.view(-1, z.size(1), 36)),
    "other shapes": lambda: flat(lambda m, z: z.view(-1, z.shape[1], 36)),
    "constants by others": lambda: flat(lambda m, z: z * m.gain.exp().view(4, 1, 1)),
    "read after it was written": lambda: flat(lambda m, z: F.relu(z, inplace=True) + z),
    "written through a view": lambda: flat(lambda m, z: F.relu(z.view(-1, 144), inplace=True)),
    "an unknown function": lambda: flat(lambda m, z: torch.sin(z)),
    "an unknown method": lambda: flat(lambda m, z: z.sin()),
    "the input itself": nn.Identity,
    "a layer of constants": lambda: Constant(lambda m: F.linear(m.weight, m.weight)).eval(),
    "a norm of constants": lambda: Constant(lambda m: m.norm(m.weight)).eval(),
    "a layer of a number": lambda: Constant(lambda m: F.linear(1.0, m.weight)).eval(),
    "a function with a variable": counting_function,
    "a tensor of another kind": subclassed,
    "nothing of the input": lambda: flat(lambda m, z: m.gain.view(1, 4)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_known_is_left_alone(case) -> None:
    model = REFUSED[case]()
    before = copy.copy(vars(model)) if isinstance(model, nn.Module) else None
    assert trace(model) is None
    if before is not None and case != "a forward that changes it":
        assert vars(model) == before


def test_hooks_of_all_modules_are_seen() -> None:
    model = cases.tabular()[0]
    handle = nn.modules.module.register_module_forward_hook(lambda *args: None)
    try:
        assert trace(model) is None
    finally:
        handle.remove()
    assert trace(model) is not None


def test_arguments_that_have_defaults_keep_them() -> None:
    model = Pair(7, 3).double()
    agrees(model, torch.randn(4, 7).double())


def test_tracing_makes_no_noise() -> None:
    class Warning_(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            warnings.warn("again", stacklevel=1)
            return super().forward(x)

    model, state = Warning_(7, 3), torch.get_rng_state()
    assert trace(model) is not None
    assert torch.equal(torch.get_rng_state(), state)


def test_a_law_rejects_another_network() -> None:
    """The comparison of these tests can fail."""
    model, x = cases.tabular()
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].weight[0, 0] += 1e-6
    network = trace(model)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(network.logits(x), other(x).detach(), **laws.TIGHT)
