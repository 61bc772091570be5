"""Wrong uses in one table: each gives one line with what was expected, what came, what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import attribound as ab
from attribound.attacks import PGD, AttributionAscent, BestOf, KinkSteps, RandomPerturbation, judge

BALL = ab.L2Ball(0.05)
X = torch.rand(2, 7, generator=torch.Generator().manual_seed(0))


def net(classes: int = 3) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 8), nn.Softplus(5), nn.Linear(8, classes)).eval()


class Masked(nn.Module):
    """Wants more than the input."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * mask


class Tokens(nn.Module):
    """Of token ids."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embedding(x).mean(1))


def bound(model: object, x: Tensor = X, ball: ab.Ball = BALL, **asked: object) -> object:
    return ab.bound(ab.Saliency(model), x, ball, **asked)


def in_inference_mode() -> object:
    with torch.inference_mode():
        made = net()
    return bound(made)


def autocast(use: Callable[[], object]) -> object:
    with torch.autocast("cpu"):
        return use()


def attacked() -> ab.Attacked:
    return RandomPerturbation()(ab.Saliency(net()), X, BALL)


FLOAT = r"x: expected torch.float32, as the weights of the model, got torch.{}; use x.to"
RUNS = r"model: expected one that runs on x of shape \(2, 6\), got .*; check the shape of x"
NETWORK = "attribution: expected an attribution of a network, got the network itself, Seq.*Saliency"
AUTOCAST = "torch.autocast: expected off.*, got on; leave"
ATTACKED = "attacked: expected results of attacks, got {}; use e.g."
BASELINE = "{}: expected a number, or a tensor of .*, got {}; use e.g. {}=0.0"
DENSE = "x: expected a dense tensor with numbers in it, got {}; use"
DELTA = r"delta: expected perturbations of shape \(2, 7\), as x, got {}; perturb every example"

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "x in double": (lambda: bound(net(), X.double()), FLOAT.format("float64")),
    "x in double, called": (lambda: ab.Saliency(net())(X.double()), FLOAT.format("float64")),
    "x in double, attacked": (
        lambda: AttributionAscent()(ab.Saliency(net()), X.double(), BALL),
        FLOAT.format("float64"),
    ),
    "x in double, certified": (
        lambda: bound(net(), X.double(), claim="certified"),
        FLOAT.format("float64"),
    ),
    "x in half": (lambda: bound(net(), X.half()), FLOAT.format("float16")),
    "x in brain half": (lambda: bound(net(), X.bfloat16()), FLOAT.format("bfloat16")),
    "other features": (lambda: bound(net(), X[:, :6]), RUNS),
    "other features, called": (lambda: ab.Saliency(net())(X[:, :6]), RUNS),
    "other features, attacked": (lambda: PGD()(ab.Saliency(net()), X[:, :6], BALL), RUNS),
    "other features, certified": (lambda: bound(net(), X[:, :6], claim="certified"), RUNS),
    "sparse": (lambda: bound(net(), X.to_sparse()), DENSE.format("layout torch.sparse_coo")),
    "meta": (lambda: bound(net(), X.to("meta")), DENSE.format("one on the meta device")),
    "model of inference mode": (
        in_inference_mode,
        r"model: expected weights that autograd may use, got .*inference_mode\(\); make or load",
    ),
    "scripted": (
        lambda: bound(torch.jit.script(net())),
        "model: expected a module of Python, got a scripted one.*; pass the module",
    ),
    "autocast": (lambda: autocast(lambda: bound(net())), AUTOCAST),
    "autocast, attacked": (lambda: autocast(attacked), AUTOCAST),
    "a network, bounded": (lambda: ab.bound(net(), X, BALL), NETWORK),
    "a network, attacked": (lambda: PGD()(net(), X, BALL), NETWORK),
    "a network, attacked at random": (lambda: RandomPerturbation()(net(), X, BALL), NETWORK),
    "a network, attacked by steps": (lambda: KinkSteps()(net(), X, BALL), NETWORK),
    "a network, judged": (lambda: judge(net(), X, X), NETWORK),
    "a classifier, bounded": (
        lambda: ab.bound(ab.Classifier(net()), X, BALL),
        "attribution: expected an attribution of a network, got the network itself, Classifier",
    ),
    "a network, validated": (
        lambda: ab.validate(net(), attacked()),
        r"bound: expected a bound, got Sequential; use e.g. attribound.bound\(",
    ),
    "no baseline": (
        lambda: ab.IntegratedGradients(net(), baseline=None),
        BASELINE.format("baseline", "None", "baseline"),
    ),
    "a text as baseline": (
        lambda: ab.IntegratedGradients(net(), baseline="black"),
        BASELINE.format("baseline", "'black'", "baseline"),
    ),
    "no baselines": (
        lambda: ab.ExpectedGradients(net(), baselines=None),
        BASELINE.format("baselines", "None", "baselines"),
    ),
    "shells that are not whole": (
        lambda: ab.MeanValue(shells=1.5),
        "shells: expected a whole number, 1 or more, got 1.5; the defaults",
    ),
    "steps that are not whole": (
        lambda: AttributionAscent(steps=1.5)(ab.Saliency(net()), X, BALL),
        "steps: expected a whole number, 0 or more, got 1.5; use e.g. 20",
    ),
    "numbers as attacked": (
        lambda: bound(net(), claim="mean_value", attacked=[1]),
        ATTACKED.format("int"),
    ),
    "a list, validated": (
        lambda: ab.validate(bound(net()), [attacked()]),
        ATTACKED.format("list"),
    ),
    "starts below zero": (
        lambda: AttributionAscent(random_starts=-1),
        "random_starts: expected a whole number, 0 or more, got -1; use e.g.",
    ),
    "a truth as radius": (
        lambda: ab.L2Ball(True),
        "epsilon: expected a number, got True; one radius serves",
    ),
    "units as a text": (
        lambda: ab.L2Ball(0.1, scale="a"),
        "scale: expected a number, or a tensor with one for each feature, got 'a'; use e.g.",
    ),
    "an example that can't change": (
        lambda: bound(net(), ball=ab.L2Ball(0.1, scale=torch.tensor([[1.0], [0.0]]).expand(2, 7))),
        r"scale: expected some feature above 0 in every example, got none in examples \[1\]; leave",
    ),
    "half a reason": (
        lambda: ab.reasons(ab.Saliency(net()), X, BALL, k=1.5),
        "k: expected a whole number from 1 to 6, fewer than there are scores, got 1.5; credit",
    ),
    "a reason of one score": (
        lambda: ab.reasons(lambda x, _: x[:, :1], X, BALL, k=1, target=0),
        "k: expected maps of more than one score.*, got one score; attribound.bound says how far",
    ),
    "other features, judged": (
        lambda: judge(ab.Saliency(net()), X, X[:, :6]),
        DELTA.format(r"shape \(2, 6\)"),
    ),
    "another batch, judged": (
        lambda: judge(ab.Saliency(net()), X, torch.zeros(3, 7)),
        DELTA.format(r"shape \(3, 7\)"),
    ),
    "a number, judged": (lambda: judge(ab.Saliency(net()), X, 0.1), DELTA.format("0.1")),
    "other features, compared": (lambda: ab.fidelity(net(), net(), X[:, :6]), RUNS),
    "other classes, compared": (
        lambda: ab.fidelity(net(), net(4), X),
        "smoothed: expected 3 classes, as the original, got 4; compare a network with its own",
    ),
    "no such calibration": (
        lambda: ab.Calibration.load(Path("nowhere") / "calibration.json"),
        "calibration file nowhere.*: expected a file written by .*, got No such file.*; check",
    ),
    "a model in half": (
        lambda: bound(net().bfloat16(), X.bfloat16()),
        "model: expected float32 or float64.*, got torch.bfloat16; use model.float",
    ),
    "token ids": (
        lambda: bound(Tokens(), torch.randint(0, 10, (2, 5))),
        "x: expected floating point numbers, got torch.int64; .*token ids, explain the network of",
    ),
    "token ids as floats": (
        lambda: bound(Tokens(), torch.randint(0, 10, (2, 5)).float()),
        "model: expected one that runs on x of shape .*indices.*; check the shape of x",
    ),
    "bytes": (
        lambda: bound(net(), torch.zeros(2, 7, dtype=torch.uint8)),
        r"x: expected floating point numbers, got torch.uint8; use x.float\(\) / 255",
    ),
    "a text as beta": (
        lambda: ab.smooth(net(), "20"),
        "beta: expected a finite number above 0, got '20'; use",
    ),
    "a truth as beta": (
        lambda: ab.smooth(net(), True),
        "beta: expected a finite number above 0, got True; use",
    ),
    "a second argument": (
        lambda: bound(Masked()),
        r"model: expected a forward that wants x alone, got .*'mask'; .*lambda x: model\(x, mask\)",
    ),
}

OTHER = "{}: expected one of {}, got {}.*; use"
WRONG |= {
    "parts of their own shapes": (
        lambda: bound(net(), torch.nested.nested_tensor([X[0], X[1, :3]], layout=torch.jagged)),
        DENSE.format("a nested one"),
    ),
    "limits of another shape": (
        lambda: bound(net(), ball=ab.LinfBall(0.1, low=torch.zeros(3), high=1)),
        r"low: expected a number or shape \(7,\) or \(2, 7\), got shape \(3,\); give one limit",
    ),
    "lazy weights": (
        lambda: bound(nn.Sequential(nn.LazyLinear(3))),
        r"model: expected weights that are there, got lazy ones.*; call model\(x\) once",
    ),
    "no layer": (
        lambda: bound(nn.Sequential(nn.Linear(7, 3), None)),
        r"model: expected modules in a Sequential, got None; use nn.Identity\(\)",
    ),
    "no layer inside": (
        lambda: bound(nn.Sequential(nn.Sequential(nn.Linear(7, 3), None))),
        "model: expected modules in a Sequential, got None in '0'; use",
    ),
    "a class among attacks": (
        lambda: BestOf(PGD, AttributionAscent()),
        r"BestOf: expected attacks, got PGD; make them: BestOf\(PGD\(\)",
    ),
    "a number among attacks": (lambda: BestOf(3), "BestOf: expected attacks, got int; make"),
    "a text as repeats": (
        lambda: PGD().repeat("3"),
        "times: expected a whole number, 1 or more, got '3'; the paper repeats",
    ),
    "a text as seed": (
        lambda: AttributionAscent(seed="a"),
        "seed: expected a whole number, got 'a'; use e.g. 0",
    ),
    "a text as objective": (
        lambda: AttributionAscent("angle")(ab.Saliency(net()), X, BALL),
        OTHER.format("objective", "MapObjective", "'angle'"),
    ),
    "no attributions for a beta": (
        lambda: ab.choose_beta(net(), X, []),
        "attributions: expected at least one, got none; use",
    ),
    "a text as attributions for a beta": (
        lambda: ab.choose_beta(net(), X, "ig"),
        OTHER.format("attributions", "Attribution", "'i'"),
    ),
    "arrays, compared": (
        lambda: ab.metrics.compare(X.numpy(), X.numpy()),
        OTHER.format("attributions", "Tensor", "array"),
    ),
    "a text as limit of a certificate": (
        lambda: ab.Certified(memory_limit="4GB"),
        "Certified: expected memory_limit > 0.*, got memory_limit='4GB'.*; use e.g.",
    ),
    "a number as solver": (
        lambda: ab.FirstOrder(solver=3),
        OTHER.format("solver", "SpectralSolver", "3"),
    ),
    "a text as norm": (
        lambda: ab.FirstOrder(norm="inf"),
        OTHER.format("norm", "NormSolver", "'inf'"),
    ),
    "a text as limit of a network": (
        lambda: ab.Classifier(net(), memory_limit="1GB"),
        "memory_limit: expected a number of bytes above 0, got '1GB'; use",
    ),
    "steps without end": (
        lambda: ab.IntegratedGradients(net(), steps=10**12),
        "steps: expected at most 1,048,576 of the quadrature riemann_right, got 1,000,000,000,000;",
    ),
    "nodes without end": (
        lambda: ab.IntegratedGradients(net(), steps=10**5, quadrature="gauss_legendre"),
        "steps: expected at most 2,048 of the quadrature gauss_legendre, got 100,000; 800",
    ),
    "draws without end": (
        lambda: ab.SmoothGrad(net(), samples=10**11),
        "samples: expected at most 1,048,576, got 100,000,000,000; use e.g. samples=16",
    ),
    "draws of baselines without end": (
        lambda: ab.ExpectedGradients(net(), samples=2**20 + 1),
        "samples: expected at most 1,048,576, got 1,048,577; use e.g. samples=20",
    ),
    "an attack called as a function": (
        lambda: ab.attacks.PGD(ab.Saliency(net()), X, BALL),
        "loss: expected one of cross_entropy, kl, margin, got .*; cross_entropy is the usual",
    ),
    "steps of an attack below none": (
        lambda: ab.attacks.AttributionAscent(steps=-1),
        "steps: expected a whole number, 0 or more, got -1; use e.g. 20",
    ),
    "a seed of an attack that is a text": (
        lambda: ab.attacks.IFIA(seed="1"),
        "seed: expected a whole number, got '1'; use e.g. 0",
    ),
    "half a feature of an attack": (
        lambda: ab.attacks.TopK(1.5),
        "k: expected a whole number, 1 or more, got 1.5; use about an eighth",
    ),
    "an engine's name": (
        lambda: ab.audit(net(), X, engine="local"),
        r"engine: expected an engine, got 'local'; use attribound.LocalEngine\(workers=2\)",
    ),
    "a number as folder": (
        lambda: ab.audit(net(), X, out=3),
        "out: expected one of PathLike, got 3; name a folder",
    ),
    "a file as folder": (
        lambda: ab.audit(net(), X, out=__file__, attributions="saliency", balls=BALL),
        "test_wrong_use.py: expected the name of a folder.*, got File exists; choose another",
    ),
    "a name that no folder has": (
        lambda: ab.audit(net(), X, out="a\0b", attributions="saliency", balls=BALL),
        "expected the name of a folder.*, got .*null.*; choose another",
    ),
    "a device that is none": (
        lambda: ab.audit(net(), X, device="gpu", attributions="saliency", balls=BALL),
        "device: expected one that this machine has, .*, got 'gpu', .*; leave it out for cpu",
    ),
    "a text as workers": (
        lambda: ab.LocalEngine(workers="2"),
        "workers: expected a whole number, 1 or more, got '2'; give more",
    ),
    "a value of many brackets": (
        lambda: ab.from_spec("absolute:base=(" * 40 + "ig" + ")" * 40, ab.Attribution),
        r"absolute:base.*\.\.\.: expected brackets within brackets at most 32 deep, got 40; no",
    ),
}


@pytest.mark.parametrize("use", WRONG)
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # of torch.jit
def test_one_line_with_a_remedy(use: str) -> None:
    make, said = WRONG[use]
    with pytest.raises(ab.AttriboundError, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_calibration_is_not_written_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    torch.manual_seed(0)
    made = ab.calibrate(ab.Saliency(net()), torch.rand(20, 7), BALL)
    with pytest.raises(ab.InputError, match=r"calibration file .*: expected a folder.*; make the"):
        made.save(tmp_path / "nowhere" / "calibration.json")


@pytest.mark.parametrize("beta", [np.float32(20), np.float64(20), np.int64(20)], ids=repr)
def test_numbers_of_numpy_are_numbers(beta: object) -> None:
    copy = ab.smooth(nn.Sequential(nn.Linear(7, 3), nn.ReLU()), beta)
    assert copy[1].beta == 20


def test_tensors_of_inference_mode_are_tensors() -> None:
    with torch.inference_mode():
        x = X.clone()
    torch.testing.assert_close(bound(net(), x).euclidean, bound(net()).euclidean)


def test_errors_of_a_model_keep_what_it_said() -> None:
    def broken(x: Tensor) -> Tensor:
        raise RuntimeError(f"first of {len(x)}\nsecond")

    with pytest.raises(ab.ModelError, match="got first of 2; check") as caught:
        bound(broken)
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(torch.OutOfMemoryError):
        bound(out_of_memory)
    with pytest.raises(TypeError, match="unsupported"):
        bound(lambda x: x + "text")


def out_of_memory(x: Tensor) -> Tensor:
    raise torch.OutOfMemoryError
