from __future__ import annotations

import warnings

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import attribound as ab
import fashion
from attribound.attacks import PGD
from attribound.data import read_idx
from attribound.models import SmallCNN
from shared import needed, shared

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # foolbox uses an old name of SciPy's
    import foolbox


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def attacked(model: nn.Module, x: Tensor, y: Tensor, ball: ab.LpBall, attack: PGD) -> float:
    """Accuracy under attack, in batches of 250."""
    attribution = ab.Saliency(ab.Classifier(model, memory_limit=2**33))
    deltas = [
        attack(attribution, a, ball, target=b).delta
        for a, b in zip(x.split(250), y.split(250), strict=True)
    ]
    return accuracy(model, x + torch.cat(deltas), y)


def test_trades_mnist_network_keeps_95_percent_under_pgd_40() -> None:
    """An independent run gave 95.4 %."""
    model = SmallCNN(activation=nn.ReLU, pooling="max").eval()
    model.load_state_dict(load_file(shared("checkpoints", "mnist-smallcnn-trades.safetensors")))
    x = read_idx(shared("mnist", "t10k-images-idx3-ubyte.gz"))[:1000].unsqueeze(1).float() / 255
    y = read_idx(shared("mnist", "t10k-labels-idx1-ubyte.gz"))[:1000].long()
    ball = ab.LinfBall(0.3, low=0, high=1)
    assert attacked(model, x, y, ball, PGD(steps=40, step_size=0.01)) == pytest.approx(
        0.95, abs=0.01
    )


@pytest.mark.parametrize(
    ("ball", "theirs"),
    [
        (ab.LinfBall(0.1, low=0, high=1), foolbox.attacks.LinfPGD),
        (ab.L2Ball(1.0, low=0, high=1), foolbox.attacks.L2PGD),
    ],
    ids=["linf", "l2"],
)
def test_agrees_with_foolbox(ball, theirs) -> None:
    """The same attack on the same network, within one percent of 500 images."""
    needed(fashion.FASHION, "install Debian's dataset-fashion-mnist")
    model = fashion.network("at").requires_grad_(False)
    x, y = (tensor[:500] for tensor in fashion.images("t10k"))
    ours = attacked(model, x, y, ball, PGD(steps=10, step_size=ball.epsilon / 4))
    wrapped = foolbox.PyTorchModel(model, bounds=(0, 1))
    attack = theirs(steps=10, abs_stepsize=ball.epsilon / 4, random_start=True)
    _, clipped, _ = attack(wrapped, x, y, epsilons=ball.epsilon)
    assert abs(ours - accuracy(model, clipped, y)) <= 0.01
    assert ours < accuracy(model, x, y) - 0.03
