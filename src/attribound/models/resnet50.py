"""ResNet-50: the network that most published weights for ImageNet belong to."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

import torch
from torch import Tensor, nn

from attribound.basics.numbers import check_choice, check_count, check_positive
from attribound.models.resnet import MakeActivation, conv, stem_pooling
from attribound.models.settings import SOFTPLUS, Pooling, check_pooling

Strided = Literal["1x1", "3x3"]
#: Blocks of each stage, and how many times wider a block ends than its middle is.
_STAGES = (3, 4, 6, 3)
_EXPANSION = 4


class ResNet50(nn.Sequential):
    """Logits ``(batch, classes)`` of images ``(batch, channels, height, width)``.

    A stem (7x7 with stride 2 and a pooling of stride 2), four stages of 3, 4, 6 and 3
    bottleneck blocks, the mean over positions and a linear layer. Parameters are named as in
    torchvision (``conv1``, ``bn1``, ``layer1.0.conv1``, ``layer1.0.downsample.0``, ``fc``).
    What is said of :class:`ResNet18` holds here, too: with softplus and average pooling it is
    smooth in eval mode, in train mode the bounds refuse it, nothing is computed in place.

    Args:
        channels: of the images.
        classes: number of logits.
        width: channels of the stem; the last stage ends with 32 times as many.
        strided: the convolution of a block that halves the sides, where one does: ``"3x3"`` in
            torchvision (ResNet-50 v1.5), the first ``"1x1"`` in the original (v1).
        norm_epsilon: added to the variances by batch norm.
        pooling: of the stem. ``"average"`` keeps the attribution continuous; published
            weights were trained with ``"max"``, which makes it jump.
        activation: makes one activation module.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - settings with defaults, as configs keep them
        self,
        channels: int = 3,
        classes: int = 1000,
        width: int = 64,
        strided: Strided = "3x3",
        norm_epsilon: float = 1e-5,
        pooling: Pooling = "average",
        activation: MakeActivation = SOFTPLUS,
    ) -> None:
        _check(channels, classes, width, strided, norm_epsilon)
        check_pooling(pooling)
        layers = OrderedDict[str, nn.Module](
            conv1=conv(channels, width, 7, 2),
            bn1=nn.BatchNorm2d(width),
            act1=activation(),
            pool1=stem_pooling(pooling),
        )
        before = width
        for stage, blocks in enumerate(_STAGES):
            middle = width * 2**stage
            made = []
            for i in range(blocks):
                halves = stage > 0 and i == 0
                strides = (1, 1) if not halves else (2, 1) if strided == "1x1" else (1, 2)
                made.append(Bottleneck(before, middle, strides, activation))
                before = _EXPANSION * middle
            layers[f"layer{stage + 1}"] = nn.Sequential(*made)
        layers["pool"] = nn.AdaptiveAvgPool2d(1)
        layers["flatten"] = nn.Flatten()
        layers["fc"] = nn.Linear(before, classes)
        super().__init__(layers)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
            elif isinstance(module, nn.BatchNorm2d):
                module.eps = norm_epsilon


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions, each with batch norm, around a shortcut.

    ``act(bn(conv(act(bn(conv(act(bn(conv(x)))))))) + shortcut(x))``; the shortcut is the
    identity unless stride or channels change; then a 1x1 convolution.

    Args:
        before: channels that come.
        middle: those of the 3x3 convolution; four times as many leave.
        strides: of the first 1x1 and of the 3x3 convolution.
        activation: makes one activation module.
    """

    def __init__(
        self, before: int, middle: int, strides: tuple[int, int], activation: MakeActivation
    ) -> None:
        super().__init__()
        after, stride = _EXPANSION * middle, max(strides)
        self.conv1 = conv(before, middle, 1, strides[0])
        self.bn1 = nn.BatchNorm2d(middle)
        self.act1 = activation()
        self.conv2 = conv(middle, middle, 3, strides[1])
        self.bn2 = nn.BatchNorm2d(middle)
        self.act2 = activation()
        self.conv3 = conv(middle, after, 1, 1)
        self.bn3 = nn.BatchNorm2d(after)
        self.downsample = nn.Sequential()
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(conv(before, after, 1, stride), nn.BatchNorm2d(after))
        self.act3 = activation()

    def forward(self, x: Tensor) -> Tensor:
        """The next feature maps, ``(batch, 4 middle, height / stride, width / stride)``."""
        inner = self.act1(self.bn1(self.conv1(x)))
        inner = self.act2(self.bn2(self.conv2(inner)))
        out: Tensor = self.act3(torch.add(self.bn3(self.conv3(inner)), self.downsample(x)))
        return out


def _check(
    channels: object, classes: object, width: object, strided: object, norm_epsilon: float
) -> None:
    for subject, value in (("channels", channels), ("classes", classes), ("width", width)):
        check_count(subject, value, "e.g. ResNet50(channels=3, classes=1000, width=64)")
    check_choice(
        "strided", strided, ("1x1", "3x3"), "use '3x3' for torchvision's, '1x1' for the original"
    )
    check_positive("norm_epsilon", norm_epsilon, "use 1e-5, PyTorch's, or 1e-3, that of Keras")
