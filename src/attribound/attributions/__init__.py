"""Attribution methods, each with its Jacobian in closed form."""

from attribound.attributions.absolute import Absolute
from attribound.attributions.autograd import AutogradAttribution
from attribound.attributions.base import Attribution, Linearization, ModelAttribution
from attribound.attributions.beta import ChosenBeta, choose_beta
from attribound.attributions.captum import from_captum
from attribound.attributions.expected_gradients import ExpectedGradients
from attribound.attributions.fidelity import fidelity
from attribound.attributions.function import FunctionAttribution
from attribound.attributions.grad_cam import GradCAM
from attribound.attributions.grouped import Grouped
from attribound.attributions.input_x_gradient import InputXGradient
from attribound.attributions.integrated_gradients import IntegratedGradients
from attribound.attributions.saliency import Saliency
from attribound.attributions.smooth_grad import SmoothGrad
from attribound.networks.classifier import Classifier

__all__ = [
    "Absolute",
    "Attribution",
    "AutogradAttribution",
    "ChosenBeta",
    "Classifier",
    "ExpectedGradients",
    "FunctionAttribution",
    "GradCAM",
    "Grouped",
    "InputXGradient",
    "IntegratedGradients",
    "Linearization",
    "ModelAttribution",
    "Saliency",
    "SmoothGrad",
    "choose_beta",
    "fidelity",
    "from_captum",
]
