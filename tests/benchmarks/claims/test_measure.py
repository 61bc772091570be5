from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
from attribound.models import MLP
from cases import dense_jacobian
from claims import measure as m
from claims.plan import Part, Settings
from claims.store import SCHEMA

IMAGES = 5


@pytest.fixture(autouse=True)
def tiny(monkeypatch) -> MLP:
    """A tiny network and images instead of Fashion-MNIST."""
    torch.manual_seed(0)
    net = MLP(6, (5,), 3, activation=lambda: torch.nn.Softplus(5.0)).eval().requires_grad_(False)
    x = torch.rand(2 * IMAGES, 6)
    monkeypatch.setattr(m, "network", lambda name: net)
    monkeypatch.setattr(
        m, "choice", lambda name, seed: (100 + torch.arange(len(x)), x, net(x).argmax(1))
    )
    return net


def test_rows_have_columns_of_the_schema_and_the_images_of_their_role() -> None:
    settings = Settings(certified=2)
    part = Part("mlp-at-b5", "saliency", ab.L2Ball(0.05), "test", 0, range(3))
    rows = m.measure(part, settings)
    assert all(set(row) <= set(SCHEMA.names) for row in rows)
    assert [row["sample"] for row in rows] == [100, 102, 104]
    assert [row.get("certified") is not None for row in rows] == [True, True, False]
    assert all(row["mean_value"] >= row["first_order"] for row in rows)
    assert all(row["attack"] <= row["certified"] for row in rows[:2])
    other = m.measure(
        Part("nat", "saliency", ab.L2Ball(0.05), "calibration", 0, range(3)), settings
    )
    assert [row["sample"] for row in other] == [101, 103, 105]
    assert all(row["mean_value"] >= row["first_order"] for row in other)  # the base of one
    assert all(row.get("certified") is None for row in other)


def test_numbers_are_those_of_the_library(tiny) -> None:
    ball = ab.LinfBall(0.05)
    part = Part("nat", "ig-3", ball, "test", 0, range(2))
    rows = m.measure(part, Settings())
    _, x, labels = m.choice("nat", 0)
    attribution = ab.IntegratedGradients(tiny, steps=3, quadrature="gauss_legendre")
    bound = ab.bound(attribution, x[[0, 2]], ball, labels[[0, 2]], m.FIRST_ORDER)
    assert [row["first_order"] for row in rows] == pytest.approx(bound.euclidean.tolist())
    assert [row["adjusted"] for row in rows] == pytest.approx(bound.adjusted.tolist())
    assert [row["p"] for row in rows] == [math.inf] * 2


def test_the_attack_is_the_best_of_its_trials(tiny) -> None:
    _, x, labels = m.choice("nat", 0)
    attribution, ball = ab.Saliency(tiny), ab.L2Ball(0.1)
    rows = m.attacked_rows(attribution, x, ball, labels)
    every = [attack(attribution, x, ball, labels).deviation for attack in m.ATTACKS.values()]
    assert [row["attack"] for row in rows] == torch.stack(every).amax(0).tolist()


def test_the_attack_is_not_the_one_that_mean_value_knows() -> None:
    """Else its bounds could not be broken, whatever they are."""
    assert ab.MeanValue().attack not in m.ATTACKS.values()


def test_the_linear_problem_is_bracketed_by_brute_force(tiny) -> None:
    _, x, labels = m.choice("nat", 0)
    attribution = ab.Saliency(tiny)
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 6)

    def gradient(points):
        top = tiny(points).gather(1, labels.unsqueeze(1)).sum()
        return torch.autograd.grad(top, points, create_graph=True)[0]

    matrices = dense_jacobian(gradient, x)
    for row, matrix in zip(m.linear_rows(attribution, x, labels), matrices, strict=True):
        truth = (signs @ matrix.T).norm(dim=1).max().item()
        assert row["norm_lower"] <= truth * (1 + 1e-5)
        assert truth <= row["norm_upper"] * (1 + 1e-5)
        assert truth <= row["theorem2"] * (1 + 1e-5)
        assert row["theorem2"] == pytest.approx((matrix.T @ matrix).abs().sum().sqrt().item())
        assert row["theorem2_products"] == 6


def test_parts_depend_on_weights_and_claims(tiny) -> None:
    part = Part("mlp-at-b5", "saliency", ab.L2Ball(0.05), "test", 0, range(3))
    m.fingerprint.cache_clear()
    before = m.described(part, Settings())
    assert m.described(part, Settings()) == before
    assert m.described(part, Settings(certified=1)) != before
    m.fingerprint.cache_clear()
    tiny[1].weight.mul_(2)
    assert m.described(part, Settings()) != before
    m.fingerprint.cache_clear()
