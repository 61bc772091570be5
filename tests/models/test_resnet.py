from __future__ import annotations

import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attribound as ab
import cases
import laws
from attribound.models import Activation, ResNet18, ResNet18Config, load
from attribound.networks.kinks import find_kinks
from shared import shared

CHECKPOINT = ResNet18Config(activation=Activation.relu())
#: Measured by whoever provided the weights, see the README of the shared data.
CLEAN = 0.9422


def narrow(**settings: object) -> ResNet18:
    """A float64 network of width 2 whose batch norms have seen data."""
    torch.manual_seed(0)
    net = ResNet18(**{"width": 2, "classes": 4, **settings}).double()
    with torch.no_grad():
        for _ in range(20):
            net(torch.rand(16, net.conv1.in_channels, 32, 32).double())
    return net.eval()


def by_hand(weights: dict[str, Tensor], x: Tensor, *, shortcuts: bool = True) -> Tensor:
    """ResNet-18 with the CIFAR stem and softplus, written out from the weights."""

    def conv_bn(x: Tensor, conv: str, bn: str, stride: int) -> Tensor:
        kernel = weights[f"{conv}.weight"]
        x = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        mean, var, scale, offset = (
            weights[f"{bn}.{part}"].view(-1, 1, 1)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + 1e-5).sqrt() * scale + offset

    x = F.softplus(conv_bn(x, "conv1", "bn1", 1), beta=20)
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            at = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            inner = F.softplus(conv_bn(x, f"{at}.conv1", f"{at}.bn1", stride), beta=20)
            inner = conv_bn(inner, f"{at}.conv2", f"{at}.bn2", 1)
            if stride == 2:
                x = conv_bn(x, f"{at}.shortcut.0", f"{at}.shortcut.1", 2)
            x = F.softplus(inner + x if shortcuts else inner, beta=20)
    return x.mean((2, 3)) @ weights["linear.weight"].T + weights["linear.bias"]


def test_computes_what_its_weights_say() -> None:
    net, x = narrow(), torch.rand(3, 3, 32, 32).double()
    torch.testing.assert_close(net(x), by_hand(net.state_dict(), x))
    assert not torch.allclose(net(x), by_hand(net.state_dict(), x, shortcuts=False), rtol=1e-2)


@pytest.mark.parametrize(
    ("stem", "pixels", "sides"), [("cifar", 32, [32, 16, 8, 4]), ("imagenet", 128, [32, 16, 8, 4])]
)
def test_stages_halve_the_sides_and_double_the_channels(stem, pixels, sides) -> None:
    net = ResNet18(channels=1, classes=7, width=3, stem=stem).eval()
    seen = []
    for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
        stage.register_forward_hook(lambda _, __, out: seen.append(tuple(out.shape[1:])))
    assert net(torch.rand(2, 1, pixels, pixels)).shape == (2, 7)
    assert seen == [(3 * 2**i, side, side) for i, side in enumerate(sides)]


@pytest.mark.parametrize(("pooling", "corner"), [("average", 2.5), ("max", 4.0)])
def test_the_large_stem_pools_what_is_in_the_image(pooling, corner) -> None:
    """The window at the corner has four pixels and five of padding, which do not count."""
    pool = ResNet18(width=1, stem="imagenet", pooling=pooling).pool1
    image = torch.zeros(1, 1, 6, 6)
    image[0, 0, :2, :2] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    out = pool(image)
    assert out.shape == (1, 1, 3, 3)
    assert out[0, 0, 0, 0] == corner
    assert nn.AvgPool2d(3, 2, 1)(image)[0, 0, 0, 0] not in (2.5, 4.0)


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
def test_is_smooth_unless_told_otherwise(stem) -> None:
    x = torch.rand(1, 3, 32, 32)
    assert find_kinks(ResNet18(width=2, stem=stem).eval(), x) == ()
    relu = find_kinks(ResNet18(width=2, stem=stem, activation=nn.ReLU).eval(), x)
    assert {kink.operator for kink in relu} == {"relu"}
    assert len(relu) == 17


def test_max_pooling_is_a_kink() -> None:
    net = ResNet18(width=2, stem="imagenet", pooling="max").eval()
    (kink,) = find_kinks(net, torch.rand(1, 3, 32, 32))
    assert str(kink) == "max_pool2d_with_indices in 'pool1' (MaxPool2d)"


def test_the_smooth_copy_of_relu_is_the_softplus_network() -> None:
    relu, softplus = narrow(activation=nn.ReLU), narrow()
    softplus.load_state_dict(relu.state_dict())
    x = torch.rand(2, 3, 16, 16).double()
    torch.testing.assert_close(ab.smooth(relu, beta=20)(x), softplus(x))
    assert not torch.allclose(relu(x), softplus(x))


@pytest.mark.parametrize(
    ("stem", "smoothed"), [("cifar", False), ("cifar", True), ("imagenet", False)]
)
def test_bounds_agree_with_the_dense_jacobian(stem, smoothed) -> None:
    # Sharper ones reach the threshold where PyTorch's softplus becomes the identity (a
    # jump of 2e-9), which the products of the library do without.
    net = narrow(stem=stem, activation=nn.ReLU if smoothed else Activation(2.0))
    net = ab.smooth(net, beta=2.0) if smoothed else net
    x = torch.rand(1, 3, 16, 16).double()
    target = net(x).argmax(1)
    # One row a copy of the image: examples do not see each other in eval mode.
    size = x.numel()
    copies = x.repeat(size, 1, 1, 1).requires_grad_()
    gradients = cases.gradient(net, copies, target.repeat(size)).flatten(1)
    (rows,) = torch.autograd.grad(gradients.diagonal().sum(), copies)
    dense = rows.flatten(1).unsqueeze(0)

    saliency = ab.Saliency(net)
    operator = saliency.linearize(x).jacobian
    for law in laws.OPERATOR_LAWS:
        law(operator)
    laws.equals_dense(operator, dense)
    with pytest.raises(AssertionError):
        laws.equals_dense(operator, dense.abs())

    bound = ab.bound(saliency, x, ab.L2Ball(0.1))
    xi = torch.linalg.matrix_norm(dense, ord=2)
    laws.never_below(bound.euclidean, 0.1 * xi)
    torch.testing.assert_close(bound.euclidean, 0.1 * xi, rtol=0.02, atol=0)


def test_the_jacobian_is_the_limit_of_differences() -> None:
    net, x = narrow(activation=Activation(5.0)), torch.rand(2, 3, 16, 16).double()
    saliency, v, h = ab.Saliency(net), torch.rand(2, 3, 16, 16).double(), 1e-5
    target = net(x).argmax(1)
    slope = (saliency(x + h * v, target) - saliency(x - h * v, target)) / (2 * h)
    product = saliency.linearize(x, target).jacobian.matvec(v)
    torch.testing.assert_close(product, slope, rtol=1e-5, atol=1e-7)
    assert product.abs().max() > 1e-4


def test_in_train_mode_the_bounds_refuse_it() -> None:
    with pytest.raises(ab.ModelError, match="eval"):
        ab.bound(ab.Saliency(narrow().train()), torch.rand(2, 3, 16, 16).double(), ab.L2Ball(0.1))


@pytest.mark.parametrize("name", ["channels", "classes", "width"])
@pytest.mark.parametrize("value", [0, 1.5, "3"])
def test_refuses_what_is_no_count(name, value) -> None:
    with pytest.raises(ab.InputError, match=f"{name}: expected a whole number, 1 or more"):
        ResNet18(**{name: value})


def test_refuses_unknown_stems_and_poolings() -> None:
    with pytest.raises(ab.InputError, match="stem: expected 'cifar' or 'imagenet', got 'mnist'"):
        ResNet18(stem="mnist")
    with pytest.raises(ab.InputError, match="pooling: expected 'average' or 'max', got 'mean'"):
        ResNet18(pooling="mean")
    with pytest.raises(ab.InputError, match="pooling: expected 'average' with the stem 'cifar'"):
        ResNet18(pooling="max")


def cifar_test(count: int) -> tuple[Tensor, Tensor]:
    """The first test images in [0, 1] and their labels."""
    path = shared("cifar10", "cifar-10-batches-py", "test_batch")
    batch = pickle.loads(path.read_bytes(), encoding="bytes")
    images = torch.tensor(batch[b"data"][:count]).view(-1, 3, 32, 32) / 255
    return images, torch.tensor(batch[b"labels"][:count])


@torch.no_grad()
def accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    net = net.to(memory_format=torch.channels_last)
    parts = zip(images.split(100), labels.split(100), strict=True)
    right = sum(int((net(x).argmax(1) == y).sum()) for x, y in parts)
    return right / len(images)


@pytest.fixture
def published() -> nn.Module:
    return load(shared("checkpoints", "cifar10-resnet18-standard.safetensors"), CHECKPOINT)


def test_published_weights_classify_cifar10(published) -> None:
    """A thousand of the ten: within three standard errors of the figure of all of them."""
    images, labels = cifar_test(1000)
    error = math.sqrt(CLEAN * (1 - CLEAN) / len(images))
    assert abs(accuracy(published, images, labels) - CLEAN) <= 3 * error
    for stage in (published.layer2, published.layer3):  # the check sees a mistake of wiring
        stage[1].shortcut = nn.MaxPool2d(3, 1, 1)
    assert accuracy(published, images[:100], labels[:100]) < CLEAN - 3 * error * math.sqrt(10)


@pytest.mark.slow
def test_published_weights_have_their_accuracy(published) -> None:
    assert abs(accuracy(published, *cifar_test(10_000)) - CLEAN) <= 0.0002
