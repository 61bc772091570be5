"""Networks for the tests of sources, and factories as a user would write them."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import nn


def smooth_cnn() -> nn.Module:
    """Softplus, batch norm and average pooling on 2x6x6 images, in eval mode."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.Softplus(5),
        nn.AvgPool2d(2),
        nn.Conv2d(4, 5, 3),
        nn.SiLU(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(5, 4),
    )
    model[1].running_mean.normal_()
    return model.eval()


def kinked_cnn() -> nn.Module:
    """The same with every kink that smoothing replaces."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.LeakyReLU(),
        nn.Conv2d(4, 5, 2),
        nn.ReLU6(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(5, 4),
    ).eval()


def images(batch: int = 3) -> torch.Tensor:
    return torch.rand(batch, 2, 6, 6, generator=torch.Generator().manual_seed(1))


def exported(model: nn.Module, path: Path, x: torch.Tensor | None = None) -> Path:
    """``model`` saved by torch.export for any batch."""
    batch = ({0: torch.export.Dim("batch")},)
    example = (images() if x is None else x,)
    with warnings.catch_warnings():  # torch's own
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(model, example, dynamic_shapes=batch), path)
    return path


def build(width: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(4, width), nn.Softplus(), nn.Linear(width, 2))


class Builders:
    small = staticmethod(build)


def no_network() -> list[int]:
    return [1]


def broken() -> nn.Module:
    raise RuntimeError("no such width")


INSTANCE = build()
NUMBER = 3
