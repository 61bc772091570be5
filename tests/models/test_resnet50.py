from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attribound as ab
from attribound.auditing import load_model
from attribound.data import arrays, load
from attribound.models import Activation, ResNet50
from attribound.models import load as load_network
from attribound.networks.kinks import find_kinks
from reproduction.paper.networks import KERAS_RESNET50
from shared import shared

#: Measured by whoever provided the weights, see the README of the shared data.
RIGHT, AMONG_FIVE = 71, 88


def narrow(**settings: object) -> ResNet50:
    """A float64 network of width 2 whose batch norms have seen data."""
    torch.manual_seed(0)
    net = ResNet50(**{"width": 2, "classes": 4, **settings}).double()
    with torch.no_grad():
        for _ in range(20):
            net(torch.rand(16, 3, 32, 32).double())
    return net.eval()


def by_hand(
    weights: dict[str, Tensor], x: Tensor, strided: str = "3x3", epsilon: float = 1e-5
) -> Tensor:
    """ResNet-50 with softplus and average pooling, written out from the weights."""

    def conv_bn(x: Tensor, conv: str, bn: str, stride: int) -> Tensor:
        kernel = weights[f"{conv}.weight"]
        x = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        mean, var, scale, offset = (
            weights[f"{bn}.{part}"].view(-1, 1, 1)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + epsilon).sqrt() * scale + offset

    x = F.softplus(conv_bn(x, "conv1", "bn1", 2), beta=20)
    x = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            at = f"layer{stage + 1}.{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            first, second = (stride, 1) if strided == "1x1" else (1, stride)
            inner = F.softplus(conv_bn(x, f"{at}.conv1", f"{at}.bn1", first), beta=20)
            inner = F.softplus(conv_bn(inner, f"{at}.conv2", f"{at}.bn2", second), beta=20)
            inner = conv_bn(inner, f"{at}.conv3", f"{at}.bn3", 1)
            if block == 0:
                x = conv_bn(x, f"{at}.downsample.0", f"{at}.downsample.1", stride)
            x = F.softplus(inner + x, beta=20)
    return x.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"]


@pytest.mark.parametrize("settings", [{}, {"strided": "1x1", "norm_epsilon": 1e-3}])
def test_computes_what_its_weights_say(settings) -> None:
    net, x = narrow(**settings), torch.rand(3, 3, 32, 32).double()
    how = {"strided": settings.get("strided", "3x3"), "epsilon": settings.get("norm_epsilon", 1e-5)}
    torch.testing.assert_close(net(x), by_hand(net.state_dict(), x, **how))
    other = {"strided": "1x1" if how["strided"] == "3x3" else "3x3"}
    assert not torch.allclose(net(x), by_hand(net.state_dict(), x, **{**how, **other}), rtol=1e-3)
    assert not torch.allclose(net(x), by_hand(net.state_dict(), x, **{**how, "epsilon": 0.1}))


def test_has_the_parameters_of_the_usual_one() -> None:
    with torch.device("meta"):
        net = ResNet50()
    assert sum(p.numel() for p in net.parameters()) == 25_557_032  # torchvision's
    assert net.layer4[2].conv3.out_channels == 2048


def test_is_smooth_unless_told_otherwise() -> None:
    x = torch.rand(1, 3, 32, 32)
    assert find_kinks(ResNet50(width=2).eval(), x) == ()
    kinks = find_kinks(ResNet50(width=2, pooling="max", activation=nn.ReLU).eval(), x)
    assert sorted({kink.operator for kink in kinks}) == ["max_pool2d_with_indices", "relu"]
    assert len(kinks) == 50


def test_bounds_hold_for_differences() -> None:
    """The linearisation at a point is what small steps find, and no more than its bound."""
    net, x = narrow(activation=Activation(2.0)), torch.rand(1, 3, 32, 32).double()
    saliency, h = ab.Saliency(net), 1e-5
    bound = ab.bound(saliency, x, ab.L2Ball(h))
    found = ab.attacks.AttributionAscent(steps=5)(saliency, x, ab.L2Ball(h))
    assert 0.9 * bound.euclidean < found.deviation < 1.01 * bound.euclidean


@pytest.mark.parametrize("name", ["channels", "classes", "width"])
def test_refuses_what_is_no_count(name) -> None:
    with pytest.raises(ab.InputError, match=f"{name}: expected a whole number, 1 or more"):
        ResNet50(**{name: 0})


def test_refuses_other_settings() -> None:
    with pytest.raises(ab.InputError, match="strided: expected '1x1' or '3x3', got 2"):
        ResNet50(strided=2)
    with pytest.raises(ab.InputError, match="norm_epsilon: expected a finite number above 0"):
        ResNet50(norm_epsilon=0.0)
    with pytest.raises(ab.InputError, match="pooling: expected 'average' or 'max', got 'mean'"):
        ResNet50(pooling="mean")


@pytest.fixture(scope="module")
def published() -> nn.Module:
    file = shared("checkpoints", "imagenet-resnet50-standard.safetensors")
    return load_network(file, KERAS_RESNET50, dtype=torch.float32)


@torch.no_grad()
def counts(net: nn.Module, images: Tensor, labels: Tensor) -> tuple[int, int]:
    """How many of the labels are the first, and among the first five."""
    net = net.to(memory_format=torch.channels_last)
    best = torch.cat([net(part).topk(5).indices for part in images.split(10)])
    hits = best == labels.unsqueeze(1)
    return int(hits[:, 0].sum()), int(hits.any(1).sum())


def test_published_weights_classify_imagenet(published) -> None:
    folder = shared("imagenet")
    images, labels = arrays(load("imagenet", "test", root=folder.parent))
    assert counts(published, images, labels) == (RIGHT, AMONG_FIVE)
    few = images[:10], labels[:10]
    assert counts(published.network, *few)[0] < 2  # without what it is given, it guesses


def test_an_audit_finds_the_same_network(published) -> None:
    file = shared("checkpoints", "imagenet-resnet50-standard.safetensors")
    found = load_model("reproduction.paper.networks:imagenet_resnet50", str(file))
    assert "weights in float16 were converted to float32" in found.details["notes"]
    other = published.state_dict()
    for name, value in found.model.state_dict().items():
        assert torch.equal(value, other[name]), name
