"""ResNet-18: the network of the paper for CIFAR-10, Flowers and ImageNet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from attribound.basics.errors import InputError
from attribound.basics.numbers import check_choice, check_count
from attribound.models.settings import SOFTPLUS, Pooling, check_pooling

Stem = Literal["cifar", "imagenet"]
MakeActivation = Callable[[], nn.Module]


class ResNet18(nn.Sequential):
    """Logits ``(batch, classes)`` of images ``(batch, channels, height, width)``.

    A stem, four stages of two residual blocks (each but the first halves height and
    width and doubles the channels), the mean over positions and a linear layer.
    Parameters are named as in the usual CIFAR code (``conv1``, ``bn1``,
    ``layer1.0.conv1``, ``layer2.0.shortcut.0``, ``linear``). With softplus and average
    pooling it is smooth in eval mode; in train mode its batch norm mixes examples,
    and the bounds refuse it. Nothing is computed in place, so that it can be
    differentiated twice.

    Args:
        channels: of the images.
        classes: number of logits.
        width: channels of the first stage; the last has eight times as many.
        stem: ``"cifar"``, a 3x3 convolution, for images of about 32 pixels;
            ``"imagenet"``, 7x7 with stride 2 and a pooling of stride 2, for 128 or more.
        pooling: of the ``"imagenet"`` stem. ``"average"`` keeps the attribution
            continuous; ``"max"`` is the paper's and makes it jump.
        activation: makes one activation module; softplus by default, because the
            bounds need second derivatives.
    """

    def __init__(
        self,
        channels: int = 3,
        classes: int = 10,
        width: int = 64,
        stem: Stem = "cifar",
        pooling: Pooling = "average",
        activation: MakeActivation = SOFTPLUS,
    ) -> None:
        _check(channels, classes, width, stem, pooling)
        layers = OrderedDict[str, nn.Module](
            conv1=conv(channels, width, 3, 1) if stem == "cifar" else conv(channels, width, 7, 2),
            bn1=nn.BatchNorm2d(width),
            act1=activation(),
        )
        if stem == "imagenet":
            layers["pool1"] = stem_pooling(pooling)
        before = width
        for stage, after in enumerate((width, 2 * width, 4 * width, 8 * width)):
            layers[f"layer{stage + 1}"] = nn.Sequential(
                BasicBlock(before, after, 2 if stage else 1, activation),
                BasicBlock(after, after, 1, activation),
            )
            before = after
        layers["pool"] = nn.AdaptiveAvgPool2d(1)
        layers["flatten"] = nn.Flatten()
        layers["linear"] = nn.Linear(before, classes)
        super().__init__(layers)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut: ``act(bn(conv(act(bn(conv(x))))) + shortcut(x))``.

    The shortcut is the identity unless stride or channels change; then a 1x1 convolution.
    """

    def __init__(self, before: int, after: int, stride: int, activation: MakeActivation) -> None:
        super().__init__()
        self.conv1 = conv(before, after, 3, stride)
        self.bn1 = nn.BatchNorm2d(after)
        self.act1 = activation()
        self.conv2 = conv(after, after, 3, 1)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(conv(before, after, 1, stride), nn.BatchNorm2d(after))
        self.act2 = activation()

    def forward(self, x: Tensor) -> Tensor:
        """The next feature maps, ``(batch, after, height / stride, width / stride)``."""
        inner = self.act1(self.bn1(self.conv1(x)))
        out: Tensor = self.act2(torch.add(self.bn2(self.conv2(inner)), self.shortcut(x)))
        return out


def conv(before: int, after: int, size: int, stride: int) -> nn.Conv2d:
    """Without offsets: a batch norm follows."""
    return nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)


def stem_pooling(pooling: Pooling) -> nn.Module:
    """That of stems for large images: three by three, with stride two."""
    if pooling == "max":
        return nn.MaxPool2d(3, stride=2, padding=1)
    # Without the padding's zeros, which would darken the border.
    return nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False)


def _check(channels: int, classes: int, width: int, stem: object, pooling: object) -> None:
    for subject, value in (("channels", channels), ("classes", classes), ("width", width)):
        check_count(subject, value, "e.g. ResNet18(channels=3, classes=10, width=64)")
    check_choice(
        "stem", stem, ("cifar", "imagenet"), "use 'imagenet' for images of 128 pixels or more"
    )
    check_pooling(pooling)
    if stem == "cifar" and pooling == "max":
        raise InputError(
            "pooling",
            expected="'average' with the stem 'cifar'",
            got="'max'",
            remedy="leave it out: only the stem 'imagenet' pools",
        )
