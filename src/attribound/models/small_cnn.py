"""SmallCNN: the network of the paper for MNIST and Fashion-MNIST."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from torch import nn

from attribound.basics.numbers import check_count
from attribound.models.settings import SOFTPLUS, Pooling, check_pooling


class SmallCNN(nn.Sequential):
    """Logits ``(batch, classes)`` of 28x28 grey images ``(batch, 1, 28, 28)`` in [0, 1].

    Four 3x3 convolutions and three linear layers, parameters named as in the
    public TRADES code, so that its MNIST weights load unchanged.

    Args:
        activation: makes one activation module; softplus by default, because the
            bounds need second derivatives.
        pooling: ``"average"`` keeps the attribution continuous; ``"max"`` is the
            paper's and makes it jump wherever a pooling winner changes.
        classes: number of logits.
    """

    def __init__(
        self,
        activation: Callable[[], nn.Module] = SOFTPLUS,
        pooling: Pooling = "average",
        classes: int = 10,
    ) -> None:
        super().__init__()
        check_pooling(pooling)
        check_count("classes", classes, "e.g. SmallCNN(classes=10)")
        pool: Callable[[int], nn.Module] = nn.AvgPool2d if pooling == "average" else nn.MaxPool2d
        self.feature_extractor = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(1, 32, 3),
                act1=activation(),
                conv2=nn.Conv2d(32, 32, 3),
                act2=activation(),
                pool1=pool(2),
                conv3=nn.Conv2d(32, 64, 3),
                act3=activation(),
                conv4=nn.Conv2d(64, 64, 3),
                act4=activation(),
                pool2=pool(2),
            )
        )
        self.flatten = nn.Flatten()
        self.classifier = nn.Sequential(
            OrderedDict(
                fc1=nn.Linear(64 * 4 * 4, 200),
                act1=activation(),
                drop=nn.Dropout(0.5),
                fc2=nn.Linear(200, 200),
                act2=activation(),
                fc3=nn.Linear(200, classes),
            )
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
        for parameter in self.classifier[-1].parameters():
            nn.init.zeros_(parameter)
