"""What runs once for all points of a path, against all points one by one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import attribound as ab
from attribound.networks.path import Path
from attribound.networks.structured import stem_of, trace
from attribound.networks.structured.linear import LinearPiece


class Skipping(nn.Module):
    """Its first layer is taken again behind its second."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.last = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        first = self.one(x)
        return self.last(nn.functional.softplus(self.two(first)) + first)


def convolutional(channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.Softplus(5.0),
        nn.Conv2d(4, 3, 3, stride=2),
        nn.Softplus(5.0),
        nn.Flatten(),
        nn.Linear(27, 3),
    )


#: Networks with the shape of an input and the number of pieces that come first.
NETWORKS = {
    "layers": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), (6,), 1),
    "two at once": (
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(6, 5), nn.Linear(5, 4), nn.GELU(), nn.Linear(4, 3)
        ),
        (2, 3),
        3,
    ),
    "grey": (lambda: convolutional(1), (1, 8, 8), 1),
    "colours": (lambda: convolutional(3), (3, 8, 8), 1),
    "one channel": (
        lambda: nn.Sequential(nn.Conv2d(2, 1, 3), nn.Softplus(), nn.Flatten(), nn.Linear(36, 3)),
        (2, 8, 8),
        1,
    ),
    "a line": (
        lambda: nn.Sequential(nn.Conv1d(2, 3, 3), nn.SiLU(), nn.Flatten(), nn.Linear(12, 3)),
        (2, 6),
        1,
    ),
    "skipping": (Skipping, (6,), 1),
    "residual": (lambda: ab.models.ResNet18(width=2, activation=nn.Softplus), (3, 32, 32), 1),
}


def a_path(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Path:
    generator = torch.Generator().manual_seed(3)
    base, away = (torch.randn(3, *shape, generator=generator, dtype=dtype) for _ in range(2))
    nodes, weights = torch.tensor([[0.1, 0.5, 0.7, 1.2], [0.5, 0.1, 0.7, -0.2]], dtype=dtype)
    return Path(base, away, nodes, weights, torch.tensor([0, 2, 1]))


def made(name: str) -> tuple[nn.Module, Path, int]:
    torch.manual_seed(0)
    build, shape, pieces = NETWORKS[name]
    return build().double().eval(), a_path(shape), pieces


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_and_products_are_those_of_all_points(name) -> None:
    model, path, pieces = made(name)
    network = trace(model)
    stem = stem_of(network)
    assert len(stem.head) == pieces
    assert all(isinstance(step.piece, LinearPiece) for step in stem.head)
    plain = ab.Classifier(model, structured=False)
    points, labels = path.points()
    logits, each = plain.logits_and_gradient(points.requires_grad_(), labels)
    for found in (
        stem.gradient(path),
        (stem.linearise(path).logits, stem.linearise(path).gradient),
    ):
        torch.testing.assert_close(found[0], logits, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(
            found[1], path.average(each, path.weights), rtol=1e-9, atol=1e-10
        )
        assert found[1].is_contiguous()
    generator = torch.Generator().manual_seed(4)
    v = torch.randn(path.base.shape, generator=generator, dtype=torch.float64)
    product = plain.linearise(points.detach(), labels)[1]
    expected = path.average(
        product(v.repeat_interleave(len(path.nodes), dim=0)), path.weights * path.nodes
    )
    torch.testing.assert_close(stem.linearise(path).product(v), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["layers", "grey", "colours"])
def test_one_example_takes_many_vectors(name) -> None:
    model, path, _ = made(name)
    along = stem_of(trace(model)).linearise(path[:1])
    generator = torch.Generator().manual_seed(5)
    many = torch.randn(7, *path.base.shape[1:], generator=generator, dtype=torch.float64)
    found = along.product(many)
    torch.testing.assert_close(found, torch.cat([along.product(v[None]) for v in many]))


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Tanh(), nn.Linear(6, 3)),
        nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)),
        nn.Sequential(nn.Linear(6, 3)),
    ],
    ids=["bent at once", "straight", "one layer"],
)
def test_without_a_piece_before_a_function_there_are_no_two_parts(model) -> None:
    assert stem_of(trace(model.double().eval())) is None
    path = a_path((6,))
    assert ab.Classifier(model).mean_gradient(path) is None
    assert ab.Classifier(model).linearise_along(path) is None


def test_what_skips_the_end_of_the_first_pieces_takes_it_to_the_rest() -> None:
    """Two layers in a row are linear, but the sum takes the first, too."""

    class Twice(Skipping):
        def forward(self, x):
            first = self.one(x)
            return self.last(nn.functional.softplus(self.two(first) + first))

    torch.manual_seed(0)
    model, path = Twice().double().eval(), a_path((6,))
    stem = stem_of(trace(model))
    assert len(stem.head) == 1
    points, labels = path.points()
    each = ab.Classifier(model, structured=False).gradient(points.requires_grad_(), labels)
    torch.testing.assert_close(stem.gradient(path)[1], path.average(each, path.weights))


def test_it_is_used_where_the_first_pieces_narrow() -> None:
    wide, path, _ = made("colours")
    assert not stem_of(trace(wide)).narrows(path.base)
    assert ab.Classifier(wide).mean_gradient(path) is None
    narrow, path, _ = made("layers")
    assert stem_of(trace(narrow)).narrows(path.base)
    assert ab.Classifier(narrow).mean_gradient(path) is not None


def test_only_paths_of_several_points_are_taken_apart() -> None:
    model, path, _ = made("layers")
    classifier = ab.Classifier(model)
    assert classifier.mean_gradient(path) is not None
    assert classifier.mean_gradient(path.at(slice(0, 1))) is None
    assert ab.Classifier(model, structured=False).mean_gradient(path) is None


def test_weights_that_change_are_seen() -> None:
    model, path, _ = made("layers")
    classifier = ab.Classifier(model)
    along = classifier.linearise_along(path)
    before = classifier.mean_gradient(path)[1]
    with torch.no_grad():
        model[0].weight.mul_(2.0)
    after = classifier.mean_gradient(path)[1]
    assert not torch.allclose(before, after)
    with pytest.raises(ab.ModelError, match="modified by an in-place operation"):
        along.product(path.base)


def test_logits_that_are_no_numbers_are_refused() -> None:
    model, path, _ = made("layers")
    classifier = ab.Classifier(model)
    assert classifier.mean_gradient(path) is not None
    with torch.no_grad():
        model[2].bias.fill_(torch.nan)
    for ask in (classifier.mean_gradient, classifier.linearise_along):
        with pytest.raises(ab.ModelError, match="NaN"):
            ask(path)


@pytest.mark.parametrize("quadrature", ["riemann_right", "midpoint"])
def test_integrated_gradients_are_those_of_autograd(quadrature) -> None:
    torch.manual_seed(1)
    layers = nn.Flatten(), nn.Linear(192, 20), nn.Softplus(5.0), nn.Linear(20, 3)
    model = nn.Sequential(*layers).eval()
    x = torch.rand(5, 3, 8, 8)
    ours, plain = (
        ab.IntegratedGradients(each, steps=21, quadrature=quadrature)
        for each in (model, ab.Classifier(model, structured=False))
    )
    torch.testing.assert_close(ours(x), plain(x), rtol=1e-4, atol=1e-6)
    one, other = ours.linearize(x).jacobian, plain.linearize(x).jacobian
    torch.testing.assert_close(one.matvec(x), other.matvec(x), rtol=1e-3, atol=1e-5)
