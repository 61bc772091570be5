"""Translate Captum's attributions into ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from attribound.attributions.absolute import Absolute
from attribound.attributions.base import Attribution
from attribound.attributions.captum_names import REFUSED
from attribound.attributions.captum_values import CaptumValues
from attribound.attributions.expected_gradients import ExpectedGradients
from attribound.attributions.grad_cam import GradCAM
from attribound.attributions.input_x_gradient import InputXGradient
from attribound.attributions.integrated_gradients import IntegratedGradients
from attribound.attributions.saliency import Saliency
from attribound.attributions.smooth_grad import SmoothGrad
from attribound.basics.errors import ModelError
from attribound.networks.classifier import Classifier

_QUADRATURES = {
    "riemann_right": "riemann_right",
    "riemann_middle": "midpoint",
    "gausslegendre": "gauss_legendre",
}


def from_captum(explainer: object, **settings: Any) -> Attribution:
    """Our attribution with the values of a Captum object.

    ``Saliency``, ``InputXGradient``, ``IntegratedGradients``, ``GradientShap``, ``LayerGradCam``
    and ``NoiseTunnel`` of a saliency get a right Jacobian: Captum's own results must not be
    differentiated, their gradients are silently wrong. What Captum draws anew on each call is
    here drawn once: the same on average, and a function of the input. Others are evaluated as
    they are, for claims that need values alone (``ab.Smoothed()``), or refused with what to do.

    Args:
        explainer: an object of Captum, with one model and at most one layer.
        settings: what you pass to its ``attribute``, with Captum's defaults: ``n_steps=50``,
            ``method="gausslegendre"`` and ``baselines=0`` of integrated gradients; ``abs=True``
            of saliency, which makes it :class:`Absolute`; ``nt_samples``, ``stdevs`` of a noise
            tunnel; ``baselines``, ``n_samples``, ``stdevs`` of ``GradientShap``.

    Raises:
        ModelError: it is no object of Captum, or a setting has no counterpart, with the reason.
    """
    kind = type(explainer)
    name = kind.__name__ if kind.__module__.split(".")[0] == "captum" else None
    if name is None:
        raise _refusal(
            f"{kind.__module__}.{kind.__name__}",
            "write it as a function and use attribound.FunctionAttribution(fn)",
        )
    if name in REFUSED:
        raise _refusal(f"{kind.__module__}.{name}", REFUSED[name])
    translate = _TRANSLATIONS.get(name)
    if translate is None:
        return _values(explainer, name, settings)
    attribution = translate(explainer, settings)
    if settings:
        raise _refusal(
            f"settings {', '.join(sorted(settings))}",
            f"not translated for {name}; leave them out or use attribound.FunctionAttribution",
        )
    return attribution


def _model(explainer: Any) -> Classifier | Callable[[Tensor], Tensor]:
    model: Callable[[Tensor], Tensor] = explainer.forward_func
    return model


def _layer_name(model: object, layer: object) -> str | None:
    known = model.named_modules() if isinstance(model, nn.Module) else ()
    return next((path for path, module in known if module is layer), None)


def _values(explainer: Any, name: str, settings: dict[str, Any]) -> Attribution:
    """By its values alone, of the model and the layer that it has."""
    model = getattr(explainer, "model", None) or getattr(explainer, "forward_func", None)
    layer = getattr(getattr(explainer, "grad_cam", explainer), "layer", None)
    where = _layer_name(model, layer)
    made = None
    if model is not None and (layer is None or where is not None):
        made = CaptumValues(model, method=name, layer=where, options=settings)
    # What it was made with beside these would be lost: two of them must look the same.
    if made is None or _plain(made.explainer()) != _plain(explainer):
        raise _beyond(explainer)
    return made


def _beyond(explainer: object) -> ModelError:
    return _refusal(
        f"{type(explainer).__module__}.{type(explainer).__name__}",
        "it is more than a method of one model and one of its layers; write it as a function "
        "and use attribound.FunctionAttribution(fn)",
    )


def _plain(explainer: object) -> dict[str, object]:
    """The plain settings of an object of Captum."""
    kinds = (bool, int, float, str)
    return {key: value for key, value in vars(explainer).items() if isinstance(value, kinds)}


def _saliency(explainer: Any, settings: dict[str, Any]) -> Attribution:
    signed = Saliency(_model(explainer))
    return Absolute(signed) if settings.pop("abs", True) else signed


def _noise_tunnel(explainer: Any, settings: dict[str, Any]) -> Attribution:
    inner = explainer.attribution_method
    if type(inner).__name__ != "Saliency":
        raise _refusal(
            f"NoiseTunnel of {type(inner).__name__}",
            "only that of Saliency is SmoothGrad; use attribound.Smoothed(), the average over "
            "noise of any attribution, or attribound.FunctionAttribution(fn) with fixed noise",
        )
    if settings.pop("abs", True):
        raise _refusal(
            "NoiseTunnel of absolute values",
            "their mean has no right slope at zero; pass abs=False for attribound.SmoothGrad",
        )
    kind = settings.pop("nt_type", "smoothgrad")
    if kind != "smoothgrad":
        raise _refusal(
            f"nt_type={kind!r}",
            "only smoothgrad is translated; write it as a function with fixed noise and use "
            "attribound.FunctionAttribution(fn)",
        )
    settings.pop("nt_samples_batch_size", None)  # how it is computed, not what
    samples = settings.pop("nt_samples", 5)
    return SmoothGrad(_model(inner), samples=samples, sigma=_deviation(settings, 1.0))


def _gradient_shap(explainer: Any, settings: dict[str, Any]) -> Attribution:
    return ExpectedGradients(
        _model(explainer),
        baselines=_baselines(settings),
        samples=settings.pop("n_samples", 5),
        sigma=_deviation(settings, 0.0),
        multiply_by_inputs=explainer.multiplies_by_inputs,
    )


def _grad_cam(explainer: Any, settings: dict[str, Any]) -> Attribution:
    if settings.pop("relu_attributions", False):
        raise _refusal(
            "relu_attributions=True",
            "a map that is cut off at zero has kinks; leave it out: the Euclidean bound of the "
            "signed map holds for the one cut off, too",
        )
    model = _model(explainer)
    where = _layer_name(model, explainer.layer)
    if where is None:
        raise _beyond(explainer)
    return GradCAM(model, layer=where)


def _deviation(settings: dict[str, Any], default: float) -> float:
    value = settings.pop("stdevs", default)
    if not isinstance(value, (int, float)):
        raise _refusal("a tuple of stdevs", "several inputs are not supported; pass a number")
    return float(value)


def _baselines(settings: dict[str, Any]) -> float | Tensor:
    given = settings.pop("baselines", None)
    if isinstance(given, tuple) or callable(given):
        raise _refusal("a tuple or a function as baselines", "pass one tensor, for one input")
    return 0.0 if given is None else given


def _input_x_gradient(explainer: Any, _settings: dict[str, Any]) -> Attribution:
    return InputXGradient(_model(explainer))


def _integrated_gradients(explainer: Any, settings: dict[str, Any]) -> Attribution:
    method = settings.pop("method", "gausslegendre")
    if method not in _QUADRATURES:
        raise _refusal(
            f"method={method!r}", f"not one of ours; use {', '.join(sorted(_QUADRATURES))}"
        )
    settings.pop("internal_batch_size", None)  # how it is computed, not what
    return IntegratedGradients(
        _model(explainer),
        steps=settings.pop("n_steps", 50),
        baseline=_baselines(settings),
        quadrature=_QUADRATURES[method],
        multiply_by_inputs=explainer.multiplies_by_inputs,
    )


def _refusal(got: str, reason: str) -> ModelError:
    return ModelError(
        "Captum object",
        expected="an object of Captum with settings we know",
        got=got,
        remedy=reason,
    )


_TRANSLATIONS: dict[str, Callable[[Any, dict[str, Any]], Attribution]] = {
    "Saliency": _saliency,
    "NoiseTunnel": _noise_tunnel,
    "GradientShap": _gradient_shap,
    "LayerGradCam": _grad_cam,
    "InputXGradient": _input_x_gradient,
    "IntegratedGradients": _integrated_gradients,
}
