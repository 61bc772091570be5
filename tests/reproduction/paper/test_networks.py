"""The full networks, and the l2 bound at 224 x 224, which the paper calls heavy."""

from __future__ import annotations

import pytest
import torch

from attribound.auditing import load_model
from attribound.values import from_spec
from paper_made import bound_of
from reproduction.paper.items import RunSpec
from reproduction.paper.networks import cifar10_resnet18, imagenet_resnet50, robust_resnet50
from reproduction.paper.plan import Plan
from reproduction.paper.runs import Runs
from reproduction.paper.tables import grid
from shared import shared


@pytest.mark.parametrize(
    ("network", "shape", "classes"),
    [
        (cifar10_resnet18, (3, 32, 32), 10),
        (imagenet_resnet50, (3, 64, 64), 1000),
        (robust_resnet50, (3, 64, 64), 1000),
    ],
)
def test_they_take_pixels_and_give_logits(network, shape, classes) -> None:
    assert network(width=2).eval()(torch.rand(2, *shape)).shape == (2, classes)


def test_published_weights_fit(monkeypatch) -> None:
    """The standard ResNet-18 for CIFAR-10 that lies beside the project."""
    file = shared("checkpoints", "cifar10-resnet18-standard.safetensors")
    monkeypatch.setenv("ATTRIBOUND_DATA", str(file.parents[1]))
    settings = Plan.read().settings(RunSpec("cifar10", "ce-full", "paper"), "l2")
    assert settings.smooth == 20
    assert load_model(settings.model, settings.weights).model is not None


def test_the_l2_bound_of_an_imagenet_picture_takes_tens_of_products(tmp_path) -> None:
    document = {
        "common": {"batch": 1, "maps": "none", "claims": ["first_order"]},
        "kinds": {
            "paper": {
                "settings": {
                    "attributions": ["ig:steps=2,quadrature=midpoint"],
                    "attacks": {"pgd": {"kind": "pgd", "steps": 1}},
                }
            }
        },
        "data": {
            "imagenet": {
                "title": "ImageNet",
                "name": str(shared("imagenet")),
                "samples": {"paper": 1},
                "balls": {"l2": [0.1]},
                "models": {
                    "ce": {
                        "model": 'reproduction.paper.networks:imagenet_resnet50?{"width": 1}',
                        "smooth": 20.0,
                    }
                },
            }
        },
    }
    runs = Runs(from_spec(document, Plan), tmp_path)
    spec = RunSpec("imagenet", "ce", "paper")
    runs.complete([spec])
    (row,) = runs.table(spec).to_pylist()
    assert row["error"] is None
    assert row["features"] == 3 * 224 * 224
    bound = bound_of(row, "first_order")
    assert bound["xi_upper"] <= 1.02 * bound["xi_lower"]
    assert 10 <= bound["products"] <= 99
    (shown,) = [r for r in grid("table10", runs, "paper").blocks[0].rows if r.title == "CE"]
    assert shown.ours[0]["bound"] == bound["euclidean"]
