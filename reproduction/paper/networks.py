"""The full networks of the paper, for weights that others trained with ReLU."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from attribound.models import (
    Activation,
    Normalisation,
    ResNet18Config,
    ResNet50Config,
    build,
)

_IMAGENET = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
#: What the original ResNets take: bytes minus the mean picture's colour.
_BYTES = Normalisation(tuple(m / 255 for m in (123.68, 116.779, 103.939)), (1 / 255,) * 3)
#: He et al.'s ResNet-50 (v1) as Keras ships its weights, for RGB pixels in [0, 1].
KERAS_RESNET50 = ResNet50Config(
    strided="1x1",
    norm_epsilon=1e-3,
    pooling="max",
    activation=Activation.relu(),
    normalisation=_BYTES,
)


def cifar10_resnet18(width: int = 64) -> nn.Module:
    """ResNet-18 for 32 x 32 pixels in [0, 1] and ten classes."""
    return build(ResNet18Config(width=width, activation=Activation.relu()))


def imagenet_resnet50(width: int = 64) -> nn.Module:
    """The original ResNet-50 for 224 x 224 pixels in [0, 1] and a thousand classes.

    The pooling of its stem is the usual maximum: ``smooth`` replaces it.
    """
    return build(replace(KERAS_RESNET50, width=width))


def robust_resnet50(width: int = 64) -> nn.Module:
    """ResNet-50 as torchvision has it (v1.5): what is published as adversarially trained."""
    config = ResNet50Config(
        width=width, pooling="max", activation=Activation.relu(), normalisation=_IMAGENET
    )
    return build(config)
