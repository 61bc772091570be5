from __future__ import annotations

from typing import Any

import captum.attr
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import attribound as ab
import cases
import laws
from attribound.attributions.captum import _TRANSLATIONS
from attribound.attributions.captum_names import REFUSED, VALUES
from attribound.attributions.captum_values import CaptumValues

NETWORK = pytest.mark.parametrize("network", cases.NETWORKS)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def single(network: str) -> tuple[nn.Module, Tensor, Tensor]:
    model, x = cases.NETWORKS[network]()
    model, x = model.float(), x.float().requires_grad_()
    return model, x, torch.arange(len(x)) % 2


@NETWORK
def test_saliency(network) -> None:
    model, x, target = single(network)
    theirs = captum.attr.Saliency(model)
    for sign in (True, False):
        expected = theirs.attribute(x, target, abs=sign)
        own = ab.Absolute(ab.Saliency(model)) if sign else ab.Saliency(model)
        for ours in (own, ab.from_captum(theirs, abs=sign)):
            torch.testing.assert_close(ours(x, target), expected, **CLOSE)
    torch.testing.assert_close(
        ab.from_captum(theirs)(x, target), theirs.attribute(x, target), **CLOSE
    )


@NETWORK
def test_input_x_gradient(network) -> None:
    model, x, target = single(network)
    theirs = captum.attr.InputXGradient(model)
    expected = theirs.attribute(x, target).detach()
    for ours in (ab.InputXGradient(model), ab.from_captum(theirs)):
        torch.testing.assert_close(ours(x, target), expected, **CLOSE)


@NETWORK
@pytest.mark.parametrize(
    ("method", "quadrature"),
    [
        ("gausslegendre", "gauss_legendre"),
        ("riemann_right", "riemann_right"),
        ("riemann_middle", "midpoint"),
    ],
)
@pytest.mark.parametrize("baseline", [0, 0.3, "one", "each"])
def test_integrated_gradients(network, method, quadrature, baseline) -> None:
    model, x, target = single(network)
    if baseline in ("one", "each"):
        draw = torch.rand(x.shape, generator=torch.Generator().manual_seed(2))
        baseline = draw if baseline == "each" else draw[:1]
    theirs = captum.attr.IntegratedGradients(model)
    settings: dict[str, Any] = {"baselines": baseline, "n_steps": 6, "method": method}
    expected = theirs.attribute(x, target=target, **settings).detach()
    ours = ab.IntegratedGradients(model, 6, baseline, quadrature)
    for attribution in (ours, ab.from_captum(theirs, **settings)):
        torch.testing.assert_close(attribution(x, target), expected, **CLOSE)


@NETWORK
@pytest.mark.parametrize("multiply", [True, False])
def test_integrated_gradients_with_captums_defaults(network, multiply) -> None:
    model, x, target = single(network)
    theirs = captum.attr.IntegratedGradients(model, multiply_by_inputs=multiply)
    ours = ab.from_captum(theirs, internal_batch_size=16)
    assert (ours.steps, ours.quadrature, ours.baseline) == (50, "gauss_legendre", 0.0)
    expected = theirs.attribute(x, target=target).detach()
    torch.testing.assert_close(ours(x, target), expected, **CLOSE)


def test_the_model_is_taken_over_as_it_is() -> None:
    model, x = cases.tabular()
    assert ab.from_captum(captum.attr.Saliency(model)).classifier.model is model
    relu = captum.attr.Saliency(nn.Sequential(nn.Linear(7, 3), nn.ReLU()).double())
    with pytest.raises(ab.KinkError, match="relu"):
        ab.from_captum(relu).linearize(x)


@pytest.mark.parametrize("kind", ["IntegratedGradients", "InputXGradient"])
def test_captums_gradients_are_wrong_where_ours_are_right(kind) -> None:
    """They cut the graph at the gradient; see the list of errata, number 23."""
    model, x = cases.sequence()
    target = model(x).argmax(1)
    explainer = getattr(captum.attr, kind)(model)
    nodes = ([1.0], [1.0])
    if kind == "IntegratedGradients":
        nodes = ([0.5 - 0.15**0.5, 0.5, 0.5 + 0.15**0.5], [5 / 18, 8 / 18, 5 / 18])
    settings = {"n_steps": 3} if kind == "IntegratedGradients" else {}

    with sdpa_kernel(SDPBackend.MATH):
        truth = cases.dense_jacobian(
            lambda p: cases.integrated_gradients(model, p, target, *nodes), x
        )
    laws.equals_dense(ab.from_captum(explainer, **settings).linearize(x).jacobian, truth)

    points = x.clone().requires_grad_()
    scores = explainer.attribute(points, target=target, **settings)
    u = torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).double()
    (claimed,) = torch.autograd.grad(scores, points, u)
    pulled = torch.einsum("bij,bi->bj", truth, u.flatten(1))
    assert torch.cosine_similarity(claimed.flatten(1), pulled).mean() < 0.5


def explainers() -> dict[str, object]:
    model, _ = cases.image()
    return {
        "captum.attr._core.deep_lift.DeepLift": captum.attr.DeepLift(model, False),
        "captum.attr._core.layer.grad_cam.LayerGradCam": captum.attr.LayerGradCam(
            model, nn.Linear(2, 2)
        ),
        "captum.attr._core.kernel_shap.KernelShap": captum.attr.KernelShap(model),
        "torch.nn.modules.container.Sequential": model,
        "attribound.attributions.saliency.Saliency": ab.Saliency(model),
        "builtins.str": "IntegratedGradients",
        "builtins.NoneType": None,
    }


@pytest.mark.parametrize("name", explainers())
def test_objects_without_a_counterpart_are_refused(name) -> None:
    with pytest.raises(ab.ModelError, match=f"{name}; .*use attribound.FunctionAttribution"):
        ab.from_captum(explainers()[name])


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("Saliency", {"n_steps": 3}, "settings n_steps; not translated for Saliency"),
        ("InputXGradient", {"abs": False}, "settings abs; not translated for InputXGradient"),
        ("IntegratedGradients", {"method": "riemann_trapezoid"}, "got method='riemann_trapezoid'"),
        ("IntegratedGradients", {"method": "riemann_left"}, "got method='riemann_left'"),
        ("IntegratedGradients", {"baselines": (0.0, 0.0)}, "a tuple or a function as baselines"),
        ("GradientShap", {"stdevs": (0.1,)}, "a tuple of stdevs"),
        ("GradientShap", {"baselines": torch.zeros_like}, "a tuple or a function as baselines"),
        ("IntegratedGradients", {"target": 1, "abs": False}, "settings abs, target; not trans"),
    ],
)
def test_settings_without_a_counterpart_are_refused(kind, settings, message) -> None:
    explainer = getattr(captum.attr, kind)(cases.tabular()[0])
    with pytest.raises(ab.ModelError, match=message):
        ab.from_captum(explainer, **settings)


def relu_images() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)
    ).eval()
    return network, torch.rand(2, 1, 4, 4)


@pytest.mark.filterwarnings("ignore:Setting backward hooks")
class TestValuesAlone:
    """Every other object of Captum is evaluated as it is, and never differentiated."""

    def explainer(self, name: str, network: nn.Module) -> object:
        several = {"LayerIntegratedGradients", "GuidedGradCam"}
        made = getattr(captum.attr, name)
        return made(network, network[0]) if name in several else made(network)

    @pytest.mark.parametrize(
        "name", ["GuidedBackprop", "Deconvolution", "LayerIntegratedGradients", "GuidedGradCam"]
    )
    def test_they_are_those_of_captum(self, name: str) -> None:
        network, x = relu_images()
        target = torch.tensor([0, 2])
        explainer = self.explainer(name, network)
        ours = ab.from_captum(explainer)(x, target)
        torch.testing.assert_close(
            ours, explainer.attribute(x.requires_grad_(), target=target).detach()
        )

    def test_the_object_itself_is_bounded(self) -> None:
        network, x = relu_images()
        ball, averaged = ab.L2Ball(0.05), ab.Smoothed(draws=100)
        for explainer in (captum.attr.GuidedBackprop(network), captum.attr.Saliency(network)):
            found = ab.bound(explainer, x, ball, method=averaged)
            want = ab.bound(ab.from_captum(explainer), x, ball, method=averaged)
            torch.testing.assert_close(found.degrees, want.degrees, rtol=0, atol=0)
        found = ab.reasons(explainer, x, ball, 2, method=averaged, attack=False)
        assert found.subject == want.subject
        assert (ab.max_epsilon(explainer, x, method=averaged, degrees=89).epsilon >= 0).all()
        with pytest.raises(ab.ModelError, match="Lime"):
            ab.bound(captum.attr.Lime(network), x, ball, method=averaged)

    def test_settings_of_attribute_are_passed(self) -> None:
        network, x = relu_images()
        made = ab.from_captum(captum.attr.FeatureAblation(network), baselines=0.5)
        want = captum.attr.FeatureAblation(network).attribute(x, target=0, baselines=0.5)
        torch.testing.assert_close(made(x, 0), want)
        assert made.name == "FeatureAblation"

    def test_it_is_described_by_its_settings(self) -> None:
        network, x = relu_images()
        made = ab.from_captum(captum.attr.LayerConductance(network, network[0]), n_steps=4)
        assert made.name == "LayerConductance 0"
        again = ab.from_spec(ab.to_spec(made), ab.Attribution).of(network)
        torch.testing.assert_close(again(x), made(x))

    def test_it_has_no_jacobian(self) -> None:
        network, x = relu_images()
        made = ab.from_captum(captum.attr.GuidedBackprop(network))
        with pytest.raises(ab.ModelError, match=r"must not be differentiated; use attribound\.Smo"):
            made.linearize(x)
        with pytest.raises(ab.ModelError, match="must not be differentiated"):
            made.relinearize(x, torch.zeros(2, dtype=torch.long))

    def test_what_is_random_is_refused(self) -> None:
        network, x = relu_images()
        made = CaptumValues(
            network, method="GradientShap", options={"baselines": torch.zeros(3, 1, 4, 4)}
        )
        with pytest.raises(ab.ModelError, match="same output for the same input"):
            made(x)

    def test_mistakes(self) -> None:
        network, x = relu_images()
        with pytest.raises(ab.InputError, match=r"the name of one in captum\.attr"):
            CaptumValues(network, method="Nothing")(x)
        with pytest.raises(ab.InputError, match="the name of a layer of the model"):
            CaptumValues(network, method="LayerGradCam", layer="deep")(x)
        whole = ab.from_captum(
            captum.attr.LayerConductance(network, network[0]),
            return_convergence_delta=True,
        )
        with pytest.raises(ab.ModelError, match="some for each example, got tuple"):
            whole(x)


class TestEveryClass:
    """None of Captum's classes is forgotten: translated, evaluated, or refused with what to do."""

    def classes(self) -> set[str]:
        return {
            name for name in captum.attr.__all__ if isinstance(getattr(captum.attr, name), type)
        }

    def test_each_is_in_one_list(self) -> None:
        lists = [{*_TRANSLATIONS}, VALUES, {*REFUSED}]
        assert self.classes() <= set.union(*map(set, lists))
        assert sum(map(len, lists)) == len(set.union(*map(set, lists)))

    @pytest.mark.parametrize("name", sorted(REFUSED))
    def test_what_is_refused_says_what_to_do(self, name: str) -> None:
        kind = type(name, (), {"__module__": "captum.attr"})
        with pytest.raises(ab.ModelError, match=rf"captum\.attr\.{name}; .*(use|pass|explain) "):
            ab.from_captum(kind())

    @pytest.mark.filterwarnings("ignore:Setting (forward|backward)")
    @pytest.mark.parametrize("name", sorted(VALUES))
    def test_what_is_evaluated_gives_captums_values(self, name: str) -> None:
        network, x = relu_images()
        if "LRP" in name:  # it has no rule for nn.Flatten
            network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
            x = x[:, 0, 0]
        made = getattr(captum.attr, name)
        layered = name.startswith(("Layer", "Internal")) or name == "GuidedGradCam"
        explainer = made(network, network[0]) if layered else made(network)
        settings: dict[str, Any] = {}
        if name.endswith("DeepLiftShap"):
            settings["baselines"] = torch.zeros(2, 1, 4, 4)
        if name == "Occlusion":
            settings["sliding_window_shapes"] = (1, 2, 2)
        if name == "ShapleyValues":
            settings["feature_mask"] = torch.arange(16).view(1, 1, 4, 4) // 4
        ours = ab.from_captum(explainer, **settings)(x, 1)
        want = explainer.attribute(x.requires_grad_(), target=1, **settings).detach()
        torch.testing.assert_close(ours, want)


class TestDrawnOnce:
    """What Captum draws anew is the same on average."""

    def test_a_noise_tunnel_is_smooth_grad(self) -> None:
        model, x = cases.tabular()
        tunnel = captum.attr.NoiseTunnel(captum.attr.Saliency(model))
        ours = ab.from_captum(tunnel, nt_samples=4000, stdevs=0.5, abs=False)
        assert ab.to_spec(ours) == {"kind": "smooth_grad", "samples": 4000, "sigma": 0.5}
        torch.manual_seed(0)
        theirs = tunnel.attribute(x[:1], target=1, nt_samples=4000, stdevs=0.5, abs=False)
        scale = ab.Saliency(model)(x[:1], 1).norm()
        assert (ours(x[:1], 1) - theirs).norm() < 0.03 * scale
        assert (ab.Saliency(model)(x[:1], 1) - theirs).norm() > 0.06 * scale

    def test_gradient_shap_is_expected_gradients(self) -> None:
        model, x = cases.tabular()
        baselines = torch.rand(3, 7, generator=torch.Generator().manual_seed(1)).double() - 1
        shap = captum.attr.GradientShap(model)
        ours = ab.from_captum(shap, baselines=baselines, n_samples=4000, stdevs=0.1)
        assert isinstance(ours, ab.ExpectedGradients)
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 - Captum draws from it
        theirs = shap.attribute(x[:1], baselines, n_samples=4000, stdevs=0.1, target=1)
        own = ours(x[:1], 1)
        assert (own - theirs).norm() < 0.05 * theirs.norm()

    def test_other_tunnels_are_refused(self) -> None:
        model, _ = cases.tabular()
        tunnel = captum.attr.NoiseTunnel(captum.attr.Saliency(model))
        with pytest.raises(ab.ModelError, match=r"NoiseTunnel of absolute values; .*abs=False"):
            ab.from_captum(tunnel)
        with pytest.raises(ab.ModelError, match="nt_type='vargrad'; only smoothgrad"):
            ab.from_captum(tunnel, nt_type="vargrad", abs=False)
        other = captum.attr.NoiseTunnel(captum.attr.InputXGradient(model))
        with pytest.raises(
            ab.ModelError, match=r"NoiseTunnel of InputXGradient; .*attribound.Smoothed"
        ):
            ab.from_captum(other)


class TestGradCam:
    def test_it_is_captums(self) -> None:
        model, x = cases.image()
        theirs = captum.attr.LayerGradCam(model, model[2])
        ours = ab.from_captum(theirs)
        assert ab.to_spec(ours) == {"kind": "grad_cam", "layer": 2}
        want = theirs.attribute(x, target=1).detach()
        torch.testing.assert_close(ours(x, 1), want)

    def test_cut_off_it_is_refused(self) -> None:
        model, _ = cases.image()
        cam = captum.attr.LayerGradCam(model, model[2])
        with pytest.raises(ab.ModelError, match="relu_attributions=True; a map that is cut off"):
            ab.from_captum(cam, relu_attributions=True)
