"""Every public class of ``captum.attr``: evaluated as it is, or what to use instead.

Those that are translated are in ``captum.py``. A test compares both with Captum's own list.
"""

from __future__ import annotations

_FUNCTION = "or write it as a function and use attribound.FunctionAttribution(fn)"
_NEURON = (
    "it explains a neuron, not a class; make the neuron an output of a network of your own and use "
)
_PART = "it is no attribution method; pass a method of one model, e.g. captum.attr.Saliency(model)"
_TEXT = (
    "it explains text that is generated; explain one logit on embeddings with "
    "attribound.IntegratedGradients, and tokens with attribound.Grouped"
)
_DRAWN = "it draws anew on each call; use captum.attr."

#: Deterministic, of one model and at most one layer, with a target: evaluated as they are.
VALUES = frozenset(
    [
        "DeepLift",
        "DeepLiftShap",
        "GuidedBackprop",
        "Deconvolution",
        "GuidedGradCam",
        "FeatureAblation",
        "Occlusion",
        "ShapleyValues",
        "LRP",
        "LayerConductance",
        "LayerGradientXActivation",
        "LayerFeatureAblation",
        "LayerDeepLift",
        "LayerDeepLiftShap",
        "LayerIntegratedGradients",
        "LayerLRP",
        "InternalInfluence",
    ]
)

#: Refused, with what to do instead.
REFUSED = {
    "FeaturePermutation": "it mixes the examples of a batch; use captum.attr.FeatureAblation, "
    + _FUNCTION,
    "LayerFeaturePermutation": "it mixes the examples of a batch; use "
    "captum.attr.LayerFeatureAblation, " + _FUNCTION,
    "ShapleyValueSampling": f"{_DRAWN}ShapleyValues for few features or FeatureAblation, "
    + _FUNCTION,
    "Lime": f"{_DRAWN}FeatureAblation, " + _FUNCTION,
    "LimeBase": f"{_DRAWN}FeatureAblation, " + _FUNCTION,
    "KernelShap": f"{_DRAWN}ShapleyValues for few features or FeatureAblation, " + _FUNCTION,
    "LayerGradientShap": "it draws anew on each call; use attribound.ExpectedGradients of the "
    "part of the network that follows the layer, " + _FUNCTION,
    "LayerActivation": "it has no target, and is no attribution of a class; "
    + _FUNCTION.removeprefix("or "),
    "NeuronGradient": _NEURON + "attribound.Saliency",
    "NeuronIntegratedGradients": _NEURON + "attribound.IntegratedGradients",
    "NeuronGradientShap": _NEURON + "attribound.ExpectedGradients",
    "NeuronConductance": _NEURON + "captum.attr.LayerConductance",
    "NeuronFeatureAblation": _NEURON + "captum.attr.FeatureAblation",
    "NeuronDeepLift": _NEURON + "captum.attr.DeepLift",
    "NeuronDeepLiftShap": _NEURON + "captum.attr.DeepLiftShap",
    "NeuronDeconvolution": _NEURON + "captum.attr.Deconvolution",
    "NeuronGuidedBackprop": _NEURON + "captum.attr.GuidedBackprop",
    "DataLoaderAttribution": "it explains a whole data loader at once; pass the method inside it, "
    "and audit the data with attribound.audit",
    **dict.fromkeys(
        [
            "LLMAttribution",
            "LLMGradientAttribution",
            "RemoteLLMAttribution",
            "LLMAttributionResult",
            "RemoteLLMProvider",
            "VLLMProvider",
        ],
        _TEXT,
    ),
    **dict.fromkeys(
        [
            "Attribution",
            "GradientAttribution",
            "PerturbationAttribution",
            "NeuronAttribution",
            "LayerAttribution",
            "InterpretableInput",
            "ImageMaskInput",
            "TextTemplateInput",
            "TextTokenInput",
            "InterpretableEmbeddingBase",
            "TokenReferenceBase",
            "ProductBaselines",
            "Summarizer",
            "SummarizerSingleTensor",
            "ClassSummarizer",
            "CommonStats",
            "Mean",
            "StdDev",
            "MSE",
            "Var",
            "Min",
            "Max",
            "Sum",
            "Count",
            "StatValue",
        ],
        _PART,
    ),
}
