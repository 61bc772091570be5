"""Single attacks and step rules."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import attribound as ab
import cases
import fashion
from attribound.attacks import (
    IFIA,
    PGD,
    Ascend,
    AtInput,
    BestOf,
    InBall,
    Jump,
    KinkSteps,
    LinearOptimum,
    MassCentre,
    Nearby,
    RandomPerturbation,
    Repeated,
    Targeted,
    Through,
    TopK,
    earnest,
)
from attribound.attacks.objectives import Problem
from attribound.attacks.steps import Here
from attribound.data import read_idx
from attribound.metrics import top_k_intersection
from attribound.models import SmallCNN
from attribound.values import from_spec
from shared import needed, shared


def test_lies_on_the_sphere() -> None:
    model, x = cases.tabular()
    for ball in (ab.L2Ball(0.1), ab.LinfBall(0.1), ab.LpBall(0.1, 1)):
        delta = RandomPerturbation()(ab.Saliency(model), x, ball).delta
        size = torch.linalg.vector_norm(delta, ball.p, dim=1)
        torch.testing.assert_close(size, torch.full((5,), 0.1).double())
    corner = RandomPerturbation()(ab.Saliency(model), x, ab.LinfBall(0.1)).delta.abs()
    torch.testing.assert_close(corner, torch.full_like(x, 0.1), rtol=1e-14, atol=0)


def test_keeps_to_the_range() -> None:
    model, x = cases.tabular()
    x = x / x.max()
    found = RandomPerturbation(3)(ab.Saliency(model), x, ab.LinfBall(1, low=0, high=1))
    assert (x + found.delta).min() >= 0
    assert (x + found.delta).max() <= 1


def test_it_climbs_the_copy_and_sharper_ones_and_crosses_kinks() -> None:
    attack = earnest(20)
    assert isinstance(attack, BestOf)
    through, kinks, noise = attack.attacks
    assert isinstance(through, Through)
    assert through.betas == (20.0, 50.0, 200.0)
    assert isinstance(kinks, KinkSteps)
    assert isinstance(noise, Repeated)
    assert earnest(200).attacks[0].betas == (200.0, 50.0)
    assert from_spec(ab.to_spec(attack, whole=True), ab.attacks.Attack) == attack


def test_it_moves_a_network_with_kinks_as_far_as_each_of_its_parts() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    x, ball = torch.randn(4, 6).double(), ab.L2Ball(0.3)
    saliency = ab.Saliency(net)
    found = earnest(20)(saliency, x, ball)
    for part in earnest(20).attacks:
        assert (found.deviation >= part(saliency, x, ball).deviation).all()
    assert (found.deviation > 0).any()
    assert ball.contains(found.delta, x, 1e-6).all()


def test_lowers_the_top_k_intersection_more_than_noise() -> None:
    model, x = cases.image()
    attribution, ball = ab.Saliency(model), ab.LinfBall(0.3)
    target = model(x).argmax(1)

    def intersection(delta):
        maps = [attribution(z, target).abs() for z in (x, x + delta)]
        return top_k_intersection(*maps, 20).mean()

    found = IFIA(TopK(20), steps=50)(attribution, x, ball)
    noise = RandomPerturbation()(attribution, x, ball)
    assert intersection(found.delta) < intersection(noise.delta) - 0.1
    assert found.label_kept.all()


def test_each_objective_gains_what_it_climbs() -> None:
    model, x = cases.image()
    attribution, ball = ab.Saliency(model), ab.LinfBall(0.2)
    target = model(x).argmax(1)
    clean = attribution(x, target)
    region = torch.zeros(2, 6, 6, dtype=torch.bool)
    region[:, 2:4, 2:4] = True
    for objective in (TopK(10), MassCentre(), Targeted(region)):
        found = IFIA(objective, steps=20)(attribution, x, ball)
        before = objective.score(clean, clean)
        after = objective.score(attribution(x + found.delta, target), clean)
        assert (after > before).all()


def test_from_the_input_it_is_the_same_every_time() -> None:
    model, x = cases.image()
    repeated = IFIA(TopK(10), steps=3, start=AtInput()).repeat(2)
    trials = repeated(ab.Saliency(model), x, ab.LinfBall(0.1)).trials
    assert torch.equal(trials[0].delta, trials[1].delta)


def test_has_the_settings_of_the_paper() -> None:
    assert (IFIA().steps, IFIA().objective) == (200, TopK())
    before, after = torch.rand(2, 1, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    for name in ("score", "measure"):
        usual, papers = (getattr(top, name)(after, before) for top in (TopK(), TopK(100)))
        torch.testing.assert_close(usual, papers, rtol=0, atol=0)


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


@pytest.mark.slow
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


SLOPE = torch.tensor([[3.0, -4.0], [0.0, 0.0]]).double()
ZERO = torch.zeros(2, 2).double()
AT_INPUT = Here(ZERO, ZERO, SLOPE)


def problem() -> Problem:
    attribution, x = cases.quadratic([4.0, 1.0, 0.5])
    target = torch.zeros(2, dtype=torch.long)
    return Problem(attribution, x, target, attribution(x, target))


def test_ascend_follows_the_norm_of_the_ball() -> None:
    step = Ascend(0.5)
    assert step.move(ab.L2Ball(1), AT_INPUT, 10)[0].tolist() == pytest.approx([0.3, -0.4])
    assert step.move(ab.LinfBall(1), AT_INPUT, 10)[0].tolist() == [0.5, -0.5]
    default = Ascend().move(ab.L2Ball(2), AT_INPUT, 10)[0]
    assert default.norm().item() == pytest.approx(2.5 * 2 / 10)


def test_jump_goes_to_the_sphere_and_stays_without_a_slope() -> None:
    here = Here(ZERO, torch.full((2, 2), 0.25).double(), SLOPE)
    moved = Jump().move(ab.L2Ball(2), here, 10)
    assert moved.tolist() == [pytest.approx([1.2, -1.6]), [0.25, 0.25]]


def test_starts() -> None:
    task, ball = problem(), ab.L2Ball(0.1)
    (zero,) = AtInput().begin(task, ball, 0).deltas
    assert zero.abs().max() == 0
    one, two = InBall(2).begin(task, ball, 0).deltas
    assert not torch.equal(one, two)
    (near,) = Nearby(1e-3).begin(task, ball, 0).deltas
    assert 0 < near.abs().max() < 0.01
    optimum = LinearOptimum().begin(task, ball, 0)
    plus, minus = optimum.deltas
    assert torch.equal(plus, -minus)
    torch.testing.assert_close(
        (plus @ cases.rotation(3)[:, 0]).abs(), torch.full((2,), 0.1).double(), rtol=1e-2, atol=0
    )
    assert optimum.evaluations >= 2


@pytest.mark.parametrize("size", [0, -1, math.nan])
def test_refuses_a_step_that_goes_nowhere(size) -> None:
    with pytest.raises(ab.InputError, match="step size: expected a number above 0"):
        Ascend(size)
