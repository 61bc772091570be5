"""Networks to bound and to train; built from configs, stored with them."""

from attribound.models.config import (
    Config,
    MLPConfig,
    ResNet18Config,
    ResNet50Config,
    SmallCNNConfig,
    build,
    config_from_json,
)
from attribound.models.files import load, save
from attribound.models.mlp import MLP
from attribound.models.normalisation import Normalisation
from attribound.models.resnet import ResNet18
from attribound.models.resnet50 import ResNet50
from attribound.models.settings import Activation
from attribound.models.small_cnn import SmallCNN

__all__ = [
    "MLP",
    "Activation",
    "Config",
    "MLPConfig",
    "Normalisation",
    "ResNet18",
    "ResNet18Config",
    "ResNet50",
    "ResNet50Config",
    "SmallCNN",
    "SmallCNNConfig",
    "build",
    "config_from_json",
    "load",
    "save",
]
