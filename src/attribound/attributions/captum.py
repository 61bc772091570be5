"""Translate Captum's attributions into ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from attribound.attributions.base import ModelAttribution
from attribound.attributions.captum_values import CaptumValues
from attribound.attributions.input_x_gradient import InputXGradient
from attribound.attributions.integrated_gradients import IntegratedGradients
from attribound.attributions.saliency import Saliency
from attribound.basics.errors import ModelError
from attribound.networks.classifier import Classifier

_QUADRATURES = {
    "riemann_right": "riemann_right",
    "riemann_middle": "midpoint",
    "gausslegendre": "gauss_legendre",
}


def from_captum(explainer: object, **settings: Any) -> ModelAttribution:
    """Our attribution with the values of a Captum object.

    ``Saliency``, ``InputXGradient`` and ``IntegratedGradients`` get a right Jacobian: Captum's own
    results must not be differentiated, their gradients are silently wrong. Every other one is
    evaluated as it is, for claims that need values alone (``ab.Smoothed()``).

    Args:
        explainer: an object of Captum, with one model and at most one layer.
        settings: what you pass to its ``attribute``: ``n_steps`` (Captum's default 50),
            ``method`` (default ``gausslegendre``) and ``baselines`` (default 0) for
            integrated gradients; ``abs=False`` for saliency, which is translated with
            its sign (the bound holds for absolute values, too: they are no further
            apart than the signed ones). For others all that ``attribute`` takes.

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


def _values(explainer: Any, name: str, settings: dict[str, Any]) -> ModelAttribution:
    """By its values alone, of the model and the layer that it has."""
    model = getattr(explainer, "model", None) or getattr(explainer, "forward_func", None)
    layer = getattr(getattr(explainer, "grad_cam", explainer), "layer", None)
    known = model.named_modules() if isinstance(model, nn.Module) else ()
    where = next((path for path, module in known if module is layer), None)
    made = None
    wraps = hasattr(explainer, "attribution_method")  # another one, as a noise tunnel does
    if not wraps and model is not None and (layer is None or where is not None):
        made = CaptumValues(model, method=name, layer=where, options=settings)
    # What it was made with beside these would be lost: two of them must look the same.
    if made is None or _plain(made.explainer()) != _plain(explainer):
        raise _refusal(
            f"{type(explainer).__module__}.{name}",
            "it is more than a method of one model and one of its layers; write it as a function "
            "and use attribound.FunctionAttribution(fn)",
        )
    return made


def _plain(explainer: object) -> dict[str, object]:
    """The plain settings of an object of Captum."""
    kinds = (bool, int, float, str)
    return {key: value for key, value in vars(explainer).items() if isinstance(value, kinds)}


def _saliency(explainer: Any, settings: dict[str, Any]) -> ModelAttribution:
    if settings.pop("abs", False):
        raise _refusal(
            "abs=True",
            "an absolute value has kinks; use abs=False, whose bound holds for absolute "
            "values, too",
        )
    return Saliency(_model(explainer))


def _input_x_gradient(explainer: Any, _settings: dict[str, Any]) -> ModelAttribution:
    return InputXGradient(_model(explainer))


def _integrated_gradients(explainer: Any, settings: dict[str, Any]) -> ModelAttribution:
    method = settings.pop("method", "gausslegendre")
    if method not in _QUADRATURES:
        raise _refusal(
            f"method={method!r}", f"not one of ours; use {', '.join(sorted(_QUADRATURES))}"
        )
    settings.pop("internal_batch_size", None)  # how it is computed, not what
    baselines = settings.pop("baselines", None)
    if isinstance(baselines, tuple):
        raise _refusal("a tuple of baselines", "several inputs are not supported; pass a tensor")
    return IntegratedGradients(
        _model(explainer),
        steps=settings.pop("n_steps", 50),
        baseline=0.0 if baselines is None else baselines,
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


_TRANSLATIONS: dict[str, Callable[[Any, dict[str, Any]], ModelAttribution]] = {
    "Saliency": _saliency,
    "InputXGradient": _input_x_gradient,
    "IntegratedGradients": _integrated_gradients,
}
