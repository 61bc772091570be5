from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.attention import SDPBackend, sdpa_kernel

import attribound as ab
import cases
import laws
from attribound.networks.fast_derivatives import second_derivative
from attribound.networks.kinks import find_ending

ACT = pytest.mark.parametrize("act", ["__call__", "linearize"])


class Wrapped(nn.Module):
    """A network followed by something that should be refused."""

    def __init__(self, change) -> None:
        super().__init__()
        self.net, _ = cases.tabular()
        self.change = change

    def forward(self, x: Tensor):
        return self.change(self.net(x), x)


class Counting(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.calls = model, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.model(x)


def test_gradient_is_that_of_the_target() -> None:
    model, x = cases.tabular()
    target = torch.tensor([0, 1, 2, 0, 1])
    for form in (model, model.forward):
        ours = ab.Classifier(form).gradient(x.clone().requires_grad_(), target)
        torch.testing.assert_close(ours, cases.gradient(model, x, target).detach(), **laws.TIGHT)


@pytest.mark.parametrize("method", cases.ATTRIBUTIONS)
def test_functions_do_as_well_as_modules(method) -> None:
    model, x = cases.tabular()
    linear = cases.ATTRIBUTIONS[method](model.forward).linearize(x)
    plain = cases.ATTRIBUTIONS[method](model).linearize(x)
    torch.testing.assert_close(linear.value, plain.value)
    torch.testing.assert_close(linear.jacobian.rmatvec(x), plain.jacobian.rmatvec(x))


@pytest.mark.parametrize("limit", [1, 2**30])
@pytest.mark.parametrize("method", cases.ATTRIBUTIONS)
def test_parameters_are_left_as_they_were(method, limit) -> None:
    model, x = cases.tabular()
    model[0].weight.requires_grad_(False)
    model[2].bias.grad = torch.full_like(model[2].bias, 3.0)
    flags = [p.requires_grad for p in model.parameters()]
    values = [p.clone() for p in model.parameters()]
    attribution = cases.ATTRIBUTIONS[method](ab.Classifier(model, memory_limit=limit))
    attribution(x)
    jacobian = attribution.linearize(x).jacobian
    jacobian.matvec(x)
    jacobian.select(torch.tensor([0])).rmatvec(x[:1])
    assert [p.requires_grad for p in model.parameters()] == flags
    assert all(map(torch.equal, model.parameters(), values))
    for parameter in model.parameters():
        if parameter is model[2].bias:
            assert (parameter.grad == 3).all()
        else:
            assert parameter.grad is None


def test_parameters_are_restored_when_the_model_raises() -> None:
    def fail(logits: Tensor, x: Tensor) -> Tensor:
        raise KeyError("inside the model")

    model = Wrapped(fail)
    with pytest.raises(KeyError, match="inside the model"):
        ab.Saliency(model)(torch.rand(2, 7).double())
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("model", ["resnet", {"weight": torch.ones(2)}])
def test_what_cannot_be_called_is_refused(model) -> None:
    with pytest.raises(ab.ModelError, match=r"expected a torch.nn.Module or a function of x, got"):
        ab.Saliency(model)
    with pytest.raises(ab.ModelError, match=r"expected a torch.nn.Module or a function of x, got"):
        ab.Saliency().of(model)


def test_nothing_is_no_classifier_but_an_attribution_without_a_model() -> None:
    with pytest.raises(ab.ModelError, match=r"expected a torch.nn.Module or a function of x, got"):
        ab.Classifier(None)
    with pytest.raises(ab.InputError, match="attribution saliency: expected one of a model, got a"):
        ab.Saliency(None)(torch.rand(1, 2))


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_memory_limit_without_memory_is_refused(limit) -> None:
    with pytest.raises(ab.InputError, match="memory_limit: expected a number of bytes above 0"):
        ab.Classifier(torch.tanh, memory_limit=limit)


@ACT
@pytest.mark.parametrize(
    ("change", "got"),
    [
        (lambda out, x: (out, x), "tuple"),
        (lambda out, x: out[:, 0], r"\(\d,\)"),
        (lambda out, x: out.sum(), r"\(\)"),
        (lambda out, x: out.unsqueeze(-1), r"\(\d, 3, 1\)"),
        (lambda out, x: torch.cat([out, out]), r"\(\d+, 3\)"),
        (lambda out, x: out.tolist(), "list"),
    ],
    ids=["tuple", "vector", "scalar", "three axes", "twice the batch", "list"],
)
def test_outputs_that_are_no_logits_are_refused(change, got, act) -> None:
    _, x = cases.tabular()
    with pytest.raises(ab.ModelError, match=rf"model output: .*\(\d, classes\), got {got};"):
        getattr(ab.Saliency(Wrapped(change)), act)(x)


@ACT
@pytest.mark.parametrize("target", [None, 0])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_logits_that_are_not_finite_are_refused(bad, target, act) -> None:
    _, x = cases.tabular()
    with pytest.raises(ab.ModelError, match="expected finite logits"):
        getattr(ab.Saliency(Wrapped(lambda out, x: out * bad)), act)(x, target)


@ACT
@pytest.mark.parametrize("target", [None, 0])
def test_logits_that_are_not_finite_further_down_the_batch_are_refused(target, act) -> None:
    x = torch.rand(5, 7).double()
    x[3] = -1.0
    model = Wrapped(lambda out, x: out + x.sum(1, keepdim=True).sqrt())
    with pytest.raises(ab.ModelError, match="expected finite logits"):
        getattr(ab.Saliency(model), act)(x, target)


@ACT
@pytest.mark.parametrize("name", ["Dropout", "BatchNorm1d", "AlphaDropout"])
def test_train_mode_is_refused_by_the_name_of_the_module(name, act) -> None:
    module = nn.BatchNorm1d(7) if name == "BatchNorm1d" else getattr(nn, name)()
    model = nn.Sequential(module, nn.Linear(7, 2)).double()
    with pytest.raises(ab.ModelError, match=f"expected eval mode, got {name} '0' in train mode"):
        getattr(ab.Saliency(model), act)(torch.rand(5, 7).double())
    getattr(ab.Saliency(model.eval()), act)(torch.rand(5, 7).double())


@pytest.mark.parametrize("act", ["__call__", "linearize", "completeness_gap"])
def test_a_refused_model_in_train_mode_keeps_its_statistics(act) -> None:
    model = nn.Sequential(nn.BatchNorm1d(7), nn.Linear(7, 2)).double()
    with pytest.raises(ab.ModelError, match="train mode"):
        getattr(ab.IntegratedGradients(model, 2), act)(torch.rand(5, 7).double())
    assert (model[0].running_mean == 0).all()


class Waking(nn.Module):
    """Its dropout wakes when it is run, which says nothing about what a user sets later."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.linear = nn.Dropout(), nn.Linear(7, 2)

    def forward(self, x):
        out = self.linear(x)
        self.drop.training = True
        return out


def waken(model):
    """Train mode of a part."""
    model[0].train()


def put_none(model):
    """A child that is none."""
    model[0]._modules["1"] = None


def put_inference(model):
    """A weight that no graph may be made of."""
    with torch.inference_mode():
        model[1].weight = nn.Parameter(model[1].weight.clone(), requires_grad=False)


@ACT
@pytest.mark.parametrize(
    ("change", "said"),
    [(waken, "in train mode"), (put_none, "modules in a Seq"), (put_inference, "inference_mode")],
)
def test_what_becomes_unready_after_it_was_probed_is_refused(change, said, act) -> None:
    inner = nn.Sequential(nn.Dropout(), nn.Identity())
    model, x = nn.Sequential(inner, nn.Linear(7, 2)).double().eval(), torch.rand(5, 7).double()
    saliency = ab.Saliency(model)
    for _ in range(2):
        getattr(saliency, act)(x)
    change(model)
    for _ in range(2):  # it does not get used to it
        with pytest.raises(ab.ModelError, match=said):
            getattr(saliency, act)(x)


def test_what_running_wakes_is_refused_too() -> None:
    saliency, x = ab.Saliency(Waking().double().eval()), torch.rand(5, 7).double()
    for _ in range(2):
        with pytest.raises(ab.ModelError, match="got Dropout 'drop' in train mode"):
            [saliency(x) for _ in range(3)]


def test_train_mode_without_randomness_is_fine() -> None:
    model, x = cases.tabular()
    ab.Saliency(model.train()).linearize(x)


@ACT
def test_randomness_is_refused(act) -> None:
    _, x = cases.tabular()
    model = Wrapped(lambda out, x: out + 0.1 * torch.rand_like(out))
    with pytest.raises(ab.ProbeError, match="expected the same output for the same input"):
        getattr(ab.Saliency(model), act)(x)


@ACT
@pytest.mark.parametrize(
    "change",
    [
        lambda out, x: out - out.mean(0),
        lambda out, x: out - out.mean(0).detach(),
        lambda out, x: torch.softmax(out - out.mean(0), 1),
        lambda out, x: out / out.norm(),
    ],
    ids=["mean", "detached mean", "probabilities", "norm"],
)
@pytest.mark.parametrize("batch", [1, 5])
def test_examples_that_see_each_other_are_refused(change, batch, act) -> None:
    _, x = cases.tabular()
    with pytest.raises(ab.ProbeError, match="expected examples that do not see each other"):
        getattr(ab.Saliency(Wrapped(change)), act)(x[:batch])


def not_of_x(x: Tensor) -> Tensor:
    """Requires a gradient, but only that of its parameters."""
    return cases.tabular()[0](x.detach())


@ACT
@pytest.mark.parametrize(
    "model",
    [Wrapped(lambda out, x: out.detach()), torch.no_grad()(Wrapped(lambda out, x: out)), not_of_x],
    ids=["detached", "no_grad", "trainable function"],
)
def test_a_detached_output_is_refused(model, act) -> None:
    _, x = cases.tabular()
    with pytest.raises(ab.ModelError, match="outputs that depend on x through autograd"):
        getattr(ab.Saliency(model), act)(x)


def half_square(h: Tensor) -> Tensor:
    """h², with the right gradient but half of its derivative."""
    return 2 * h.detach() * h - h.detach() ** 2


class WrongSecond(torch.autograd.Function):
    """tanh, its gradient right, the derivative of that three times too large."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        slope = 1 - x.tanh() ** 2
        return grad * (3 * slope - 2 * slope.detach())


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * (1 - ctx.saved_tensors[0].tanh() ** 2)


WRONG = pytest.mark.parametrize(
    "curve", [half_square, WrongSecond.apply, Once.apply, lambda h: Once.apply(h) ** 2]
)


@WRONG
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_wrong_second_derivatives_are_refused(curve, dtype) -> None:
    _, x = cases.tabular()
    first, last = nn.Linear(7, 16).to(dtype), nn.Linear(16, 3).to(dtype)
    saliency = ab.Saliency(lambda p: last(curve(first(p))))
    with pytest.raises(ab.ProbeError, match="expected derivatives that agree with finite differ"):
        saliency.linearize(x.to(dtype))
    saliency(x.to(dtype))  # the gradient itself is right


def test_wrong_second_derivatives_are_refused_beside_a_steep_linear_part() -> None:
    """In single precision; a step of 0.15 resolves them well."""
    torch.manual_seed(0)
    first, last, skip = nn.Linear(7, 16), nn.Linear(16, 3), nn.Linear(7, 3)

    def model(x: Tensor) -> Tensor:
        return last(half_square(F.softplus(first(x)))) + 100 * skip(x)

    with pytest.raises(ab.ProbeError, match="expected derivatives that agree with finite differ"):
        ab.Saliency(model).linearize(cases.tabular()[1].float())


def test_operations_without_a_second_derivative_are_refused() -> None:
    """Here fused attention that the model insists on."""

    def model(x: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(x, x, x).mean((1, 2))

    x = torch.rand(3, 1, 4, 8)
    ab.Saliency(model)(x)
    with pytest.raises(ab.ModelError, match=r"differentiated twice, got .*not implemented"):
        ab.Saliency(model).linearize(x)


def relu() -> nn.Module:
    return nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 3)).double()


def test_kinks_are_refused_only_where_a_jacobian_is_asked_for() -> None:
    model, x = relu(), cases.tabular()[1]
    saliency = ab.Saliency(model)
    torch.testing.assert_close(
        saliency(x), cases.gradient(model, x, model(x).argmax(1)).detach(), **laws.TIGHT
    )
    with pytest.raises(ab.KinkError, match=r"relu in '1' \(ReLU\).*attribound.smooth"):
        saliency.linearize(x)
    assert not saliency.kinked


@pytest.mark.parametrize("method", cases.ATTRIBUTIONS)
def test_kinks_let_through_are_flagged(method) -> None:
    _, x = cases.tabular()
    rough = cases.ATTRIBUTIONS[method](ab.Classifier(relu(), allow_kinks=True))
    rough.linearize(x).jacobian.matvec(x)
    assert rough.kinked
    smooth = cases.ATTRIBUTIONS[method](ab.Classifier(cases.tabular()[0], allow_kinks=True))
    smooth.linearize(x)
    assert not smooth.kinked


@pytest.mark.parametrize("method", ["saliency", "ig_unmultiplied", "smooth_grad"])
def test_a_linear_model_has_no_second_derivative(method) -> None:
    _, x = cases.tabular()
    linear = cases.ATTRIBUTIONS[method](nn.Linear(7, 3).double()).linearize(x)
    assert linear.value.abs().sum() > 0
    for product in (linear.jacobian.matvec, linear.jacobian.rmatvec):
        assert torch.equal(product(x), torch.zeros_like(x))


def test_input_x_gradient_of_a_linear_model_has_a_diagonal_jacobian() -> None:
    _, x = cases.tabular()
    model = nn.Linear(7, 3).double()
    linear = ab.InputXGradient(model).linearize(x, 1)
    laws.equals_dense(linear.jacobian, torch.diag(model.weight[1].detach()).expand(5, 7, 7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fused_attention_is_differentiated_twice(dtype) -> None:
    model, x = cases.sequence()
    ab.Saliency(model.to(dtype)).linearize(x.to(dtype)).jacobian.matvec(x.to(dtype))


@ACT
def test_the_model_is_probed_once_per_shape(act) -> None:
    net, x = cases.signal()
    model = Counting(nn.Sequential(*net[:-2], nn.Flatten(1), nn.AdaptiveAvgPool1d(3)).double())
    use = getattr(ab.Saliency(model), act)
    use(x)
    model.calls = 0
    use(x[1:])
    assert model.calls == 2  # labels and gradient
    use(torch.rand(2, 1, 12).double())
    assert model.calls > 2 + 2 + 3


def test_the_jacobian_is_probed_after_the_value_was() -> None:
    _, x = cases.tabular()
    saliency = ab.Saliency(relu())
    saliency(x)
    with pytest.raises(ab.KinkError):
        saliency.linearize(x)


def test_graph_bytes_are_measured_once_and_grow_with_the_network() -> None:
    def bytes_of(width: int) -> int:
        model = Counting(nn.Sequential(nn.Linear(7, width), nn.Tanh(), nn.Linear(width, 2)))
        classifier = ab.Classifier(model.double())
        measured = classifier.graph_bytes(cases.tabular()[1])
        calls = model.calls
        assert classifier.graph_bytes(cases.tabular()[1][:2]) == measured
        assert model.calls == calls
        return measured

    narrow, wide, wider = map(bytes_of, (16, 160, 1600))
    assert narrow > 16 * 8
    assert 8 < (wider - wide) / (wide - narrow) < 12
    assert wider < 1600 * 7 * 8  # activations, not weights


def test_of_keeps_a_classifier() -> None:
    classifier = ab.Classifier(cases.tabular()[0], allow_kinks=True)
    assert ab.Classifier.of(classifier) is classifier
    assert not ab.Classifier.of(classifier.model).allow_kinks


def test_second_derivative_of_a_constant_gradient_is_zero() -> None:
    x = torch.rand(2, 3)
    assert torch.equal(second_derivative(torch.ones(2, 3), x)(x), torch.zeros(2, 3))


ENDINGS = {
    "softmax": lambda z: z.softmax(1),
    "log_softmax": lambda z: F.log_softmax(z, 1),
    "sigmoid": torch.sigmoid,
    "": lambda z: z.tanh(),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_probabilities_are_told_from_logits(name: str) -> None:
    net, x = cases.tabular()
    attribution = ab.Saliency(lambda z: ENDINGS[name](net(z)))
    for method in (ab.FirstOrder(), ab.Smoothed(draws=100)):
        bound = ab.bound(attribution, x[:1], ab.L2Ball(0.01), method=method)
        assert (ab.Status.PROBABILITIES in bound.status[0]) == bool(name)
        assert ("probabilities" in str(bound.status[0])) == bool(name)
    assert attribution.classifier.ending == name


def test_only_the_end_counts() -> None:
    """Not softmax inside, as attention has it, nor what has been worked on since."""
    net, x = cases.tabular()
    assert find_ending(lambda z: net(z).softmax(1), x) == "softmax"
    assert not find_ending(lambda z: net(z).softmax(1).mul_(2), x)
    for change in (lambda z: 3 * z.softmax(1), lambda z: z):
        attribution = ab.Saliency(lambda z, change=change: change(net(z)))
        assert not ab.bound(attribution, x[:1], ab.L2Ball(0.01)).status[0]
    attribution = ab.Saliency(lambda z: net(z).softmax(1).view(-1, 3))
    assert ab.bound(attribution, x[:1], ab.L2Ball(0.01)).status[0] == ab.Status.PROBABILITIES
