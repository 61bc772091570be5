"""Expected gradients, Grad-CAM and absolute values, against plain autograd and through bounds."""

from __future__ import annotations

import pytest
import torch
from captum.attr._core.gradient_shap import InputBaselineXGradient
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import attribound as ab
import cases
import laws
from attribound.auditing import cells

BASELINES = torch.rand(4, 7, generator=torch.Generator().manual_seed(3)).double() - 0.5


class TestExpectedGradients:
    def made(self, model: nn.Module, **settings: object) -> ab.ExpectedGradients:
        given = {"baselines": BASELINES, "samples": 5, "sigma": 0.1, "seed": 2, **settings}
        return ab.ExpectedGradients(model, **given)

    def slow(self, made: ab.ExpectedGradients, model, x: Tensor, target: Tensor) -> Tensor:
        """A plain loop over the same draws, with its graph."""
        total = torch.zeros_like(x)
        for base, noise, alpha in zip(*made.draws(x.detach()), strict=True):
            end = x + made.sigma * noise
            total = total + (end - base) * cases.gradient(
                model, base + alpha * (end - base), target
            )
        return total / made.samples

    def test_value_and_jacobian_equal_a_loop_over_the_same_draws(self) -> None:
        model, x = cases.tabular()
        target = torch.arange(len(x)) % 3
        made = self.made(model)
        linear = made.linearize(x, target)
        value = self.slow(made, model, x, target).detach()
        torch.testing.assert_close(made(x, target), value, **laws.TIGHT)
        dense = cases.dense_jacobian(lambda p: self.slow(made, model, p, target), x)
        laws.equals_dense(linear.jacobian, dense)

    @pytest.mark.parametrize("multiply", [True, False])
    def test_with_the_same_draws_captum_says_the_same(self, multiply, monkeypatch) -> None:
        model, x = cases.tabular()
        made = self.made(model, sigma=0.0, multiply_by_inputs=multiply)
        baselines, _, between = made.draws(x)
        theirs = InputBaselineXGradient(model, multiply_by_inputs=multiply)
        total = torch.zeros_like(x)
        for base, alpha in zip(baselines, between.flatten().tolist(), strict=True):
            monkeypatch.setattr("numpy.random.uniform", lambda *_, at=alpha: [at] * len(x))
            total += theirs.attribute(x, base.expand_as(x), target=0).detach()
        # Captum rounds where it is between to float32.
        torch.testing.assert_close(made(x, 0), total / 5, rtol=1e-5, atol=1e-6)

    def test_baselines_and_points_are_drawn_evenly(self) -> None:
        _, x = cases.tabular()
        baselines, _, between = self.made(cases.tabular()[0], samples=20).draws(x)
        counts = [(baselines == base).all(1).sum().item() for base in BASELINES]
        assert counts == [5, 5, 5, 5]
        assert (between.flatten() * 20).floor().tolist() == list(range(20))

    def test_it_adds_up_to_the_change_of_the_logit(self) -> None:
        model, x = cases.tabular()
        with torch.no_grad():
            rise = model(x)[:, 1] - model(BASELINES)[:, 1].mean()
        few, many = (
            (self.made(model, samples=n, sigma=0.0)(x, 1).sum(1) - rise).abs().max()
            for n in (4, 4000)
        )
        assert many < 0.02 * rise.abs().max() < few

    def test_from_one_baseline_it_comes_to_integrated_gradients(self) -> None:
        model, x = cases.tabular()
        many = ab.ExpectedGradients(model, baselines=0.3, samples=2000)(x, 1)
        ig = ab.IntegratedGradients(model, 50, 0.3, "gauss_legendre")(x, 1)
        assert (many - ig).norm() < 1e-3 * ig.norm()

    def test_it_goes_through_settings(self) -> None:
        model, x = cases.tabular()
        again = ab.from_spec(ab.to_spec(self.made(model)), ab.Attribution).of(model)
        assert torch.equal(again(x), self.made(model)(x))
        assert ab.ExpectedGradients(samples=7).name == "expected_gradients:samples=7"

    @pytest.mark.parametrize("settings", [{"samples": 0}, {"samples": 1.5}, {"sigma": -1.0}])
    def test_bad_settings_are_refused(self, settings) -> None:
        with pytest.raises(ab.InputError, match=r"^(samples|sigma): expected a .*, got .*; use"):
            ab.ExpectedGradients(**settings)

    @pytest.mark.parametrize(
        ("baselines", "message"),
        [
            (torch.zeros(3, 6), r"\('n', 7\), got shape \(3, 6\)"),
            (torch.zeros(0, 7), r"got shape \(0, 7\)"),
            (float("nan"), "got NaN or infinity"),
        ],
    )
    def test_bad_baselines_are_refused(self, baselines, message) -> None:
        model, x = cases.tabular()
        with pytest.raises(ab.InputError, match=message):
            ab.ExpectedGradients(model, baselines)(x)


def cam(model: nn.Module, layer: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    """Straight from the paper, by running the network in two parts."""
    parts = list(model)
    at = parts.index(layer) + 1
    features = nn.Sequential(*parts[:at])(x)
    score = nn.Sequential(*parts[at:])(features)[torch.arange(len(x)), target].sum()
    (slope,) = torch.autograd.grad(score, features, create_graph=True)
    return (slope.mean((2, 3), keepdim=True) * features).sum(1, keepdim=True)


class InPlace(nn.Module):
    """Works in place on what its layer made."""

    def __init__(self, model: nn.Sequential) -> None:
        super().__init__()
        self.first, self.rest = model[0], model[1:]

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.first(x).mul_(2.0))


class TestGradCAM:
    @pytest.mark.parametrize("layer", [0, 2, 3])
    def test_value_and_jacobian_equal_the_network_in_two_parts(self, layer) -> None:
        model, x = cases.image()
        target = torch.arange(len(x)) % 4
        made = ab.GradCAM(model, layer)
        linear = made.linearize(x, target)
        value = cam(model, model[layer], x, target).detach()
        assert value.shape == (3, 1, 6, 6) if layer < 3 else (3, 1, 3, 3)
        torch.testing.assert_close(made(x, target), value, **laws.TIGHT)
        dense = cases.dense_jacobian(lambda p: cam(model, model[layer], p, target), x)
        laws.equals_dense(linear.jacobian, dense)

    def test_what_follows_may_work_in_place(self) -> None:
        model, x = cases.image()
        doubled = InPlace(model)
        whole = nn.Sequential(model[0], cases.Functional(lambda h: 2.0 * h), *model[1:])
        want = cam(whole, whole[0], x, torch.zeros(3, dtype=torch.long)).detach()
        torch.testing.assert_close(ab.GradCAM(doubled, "first")(x, 0), want)

    def test_of_a_sequence_the_positions_are_the_channels(self) -> None:
        model, x = cases.sequence()
        with sdpa_kernel(SDPBackend.MATH):
            assert ab.GradCAM(model, "layer")(x).shape == (3, 1, 4)

    def test_of_a_layer_without_places_each_channel_has_its_slope(self) -> None:
        model, x = cases.tabular()
        hidden = model[:2](x)
        (slope,) = torch.autograd.grad(model[2:](hidden)[:, 1].sum(), hidden)
        want = (slope * hidden).sum(1, keepdim=True).detach()
        torch.testing.assert_close(ab.GradCAM(model, 1)(x, 1), want)

    def test_it_is_bounded_attacked_and_leaves_no_hook(self) -> None:
        model, x = cases.image()
        made, ball = ab.GradCAM(model, 2), ab.L2Ball(0.05)
        proved = ab.bounds(made, x, ball, claims=["first_order", "mean_value"])
        found = ab.attacks.AttributionAscent(steps=20)(made, x, ball)
        assert (found.deviation > 0).all()
        assert (found.deviation <= proved["mean_value"].euclidean * 1.001).all()
        assert not any(module._forward_hooks for module in model.modules())

    def test_of_a_relu_network_it_is_that_of_the_smooth_copy(self) -> None:
        model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)).eval()
        x = torch.rand(2, 1, 6, 6)
        bound = ab.bound(ab.GradCAM(ab.smooth(model, 50), 1), x, ab.L2Ball(0.01))
        assert "smooth copy" in str(bound)
        assert torch.isfinite(bound.euclidean).all()

    @pytest.mark.parametrize("layer", ["", "deep", 12])
    def test_a_layer_that_is_not_there_is_refused_with_those_that_are(self, layer) -> None:
        model, x = cases.image()
        with pytest.raises(ab.InputError, match=r"name of a layer.*its last are 1, 2, 3, 4, 5"):
            ab.GradCAM(model, layer)(x)

    def test_a_function_has_no_layers(self) -> None:
        model, x = cases.image()
        with pytest.raises(ab.InputError, match="none: it is a function"):
            ab.GradCAM(model.forward, 2)(x)

    def test_layers_that_make_no_map_are_refused(self) -> None:
        model, x = cases.image()
        twice = nn.Sequential(*model[:3], model[2], *model[3:])
        with pytest.raises(ab.InputError, match=r"layer 2: expected one that is used once.*2 uses"):
            ab.GradCAM(twice, 2)(x)
        pair = nn.Sequential(cases.Functional(lambda p: (p, p)), cases.Functional(lambda p: p[0]))
        with pytest.raises(ab.InputError, match="got tuple"):
            ab.GradCAM(nn.Sequential(*pair, *model), 0)(x)


class TestAbsolute:
    def test_value_and_jacobian(self) -> None:
        model, x = cases.tabular()
        target = torch.arange(len(x)) % 3
        linear = ab.Absolute(ab.Saliency(model)).linearize(x, target)
        value = cases.gradient(model, x, target).abs().detach()
        torch.testing.assert_close(linear.value, value, **laws.TIGHT)
        dense = cases.dense_jacobian(lambda p: cases.gradient(model, p, target).abs(), x)
        laws.equals_dense(linear.jacobian, dense)

    def test_bounds_are_those_of_the_signed_map(self) -> None:
        model, x = cases.tabular()
        signed, ball = ab.Saliency(model), ab.L2Ball(0.05)
        # To first order the norm is estimated from above, for symmetric operators more closely.
        for claim, close in (("first_order", 1e-2), ("certified", 1e-12)):
            own = ab.bound(ab.Absolute(signed), x, ball, claim=claim)
            base = ab.bound(signed, x, ball, claim=claim)
            torch.testing.assert_close(own.euclidean, base.euclidean, rtol=close, atol=0)
            torch.testing.assert_close(own.degrees, base.degrees, rtol=close, atol=0)

    def test_of_a_relu_network_the_certificate_holds_against_attacks(self) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
        x, ball = torch.rand(3, 6), ab.L2Ball(0.2)
        proved = ab.bound(ab.Absolute(ab.Saliency(net)), x, ball, claim="certified")
        assert (proved.euclidean > 0).any()
        assert proved.gap is None
        attack = ab.attacks.RandomPerturbation().repeat(20)
        found = attack(ab.Absolute(ab.Saliency(net)), x, ball)
        assert (found.deviation <= proved.euclidean).all()

    def test_it_passes_on_what_is_asked_of_it(self) -> None:
        model, x = cases.tabular()
        baselines = torch.rand(len(x), 7, generator=torch.Generator().manual_seed(1)).double()
        ig = ab.IntegratedGradients(model, 4, baselines)
        made = ab.Absolute(ig)
        assert made.points == 4
        assert made.rows(x, slice(0, 2)).base.baseline.shape == (2, 7)
        assert ab.Absolute(ab.Saliency(model)).rows(x, slice(0, 2)).base.name == "saliency"
        assert made.recipe().base.model is None
        assert made.climbed().base == ig
        target = made.targets(x)
        assert torch.equal(made.steps_needed(x, target, made(x)), ig.steps_needed(x, target, ig(x)))
        assert ab.Absolute(ab.IntegratedGradients(steps=4)).name == "absolute:base=(ig:steps=4)"


def test_they_go_through_an_audit(tmp_path) -> None:
    """Maps of their own shapes, on the command's way: settings, rows, table."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Softplus(5), nn.Flatten(), nn.Linear(32, 3)).eval()
    pair = (torch.rand(2, 1, 6, 6), torch.arange(2))
    names = ["grad_cam:layer=1", "expected_gradients:samples=3", "absolute"]
    run = ab.audit(
        net,
        pair,
        out=tmp_path / "run",
        attributions=names,
        balls=["l2:epsilon=0.05"],
        claims=["first_order"],
        attacks={"ascent": ab.attacks.AttributionAscent(steps=3)},
    )
    made = {cell.attribution: cell for cell in cells(run.rows())}
    assert set(made) == set(names)
    assert made["grad_cam:layer=1"].numbers("scores").tolist() == [16, 16]
    for cell in made.values():
        assert not any(cell.errors)
        assert (cell.bound("first_order") > 0).all()
