"""The full networks of the paper, for weights that others trained with ReLU."""

from __future__ import annotations

from torch import nn

from attribound.models import Activation, Normalisation, ResNet18Config, build

_IMAGENET = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def cifar10_resnet18(width: int = 64) -> nn.Module:
    """ResNet-18 for 32 x 32 pixels in [0, 1] and ten classes."""
    return build(ResNet18Config(width=width, activation=Activation.relu()))


def imagenet_resnet18(width: int = 64) -> nn.Module:
    """ResNet-18 for 224 x 224 pixels in [0, 1], normalised as usual, and a thousand classes.

    The pooling of its stem is the usual maximum: ``smooth`` replaces it.
    """
    config = ResNet18Config(
        classes=1000,
        width=width,
        stem="imagenet",
        pooling="max",
        activation=Activation.relu(),
        normalisation=_IMAGENET,
    )
    return build(config)
