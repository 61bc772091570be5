from __future__ import annotations

import torch

import attribound as ab
import cases
from attribound.bounding.first_order.label_constraint import label_constraint


def test_normal_and_margin_are_those_of_the_logits() -> None:
    model, x = cases.tabular()
    classifier = ab.Classifier(model)
    target = classifier.targets(x)
    found = label_constraint(classifier, x, target, 0 * x)
    logits = model(x).detach()
    order = logits.argsort(1, descending=True)
    assert torch.equal(found.runner_up, order[:, 1])
    torch.testing.assert_close(
        found.margin, logits.gather(1, order[:, :1])[:, 0] - logits.gather(1, order[:, 1:2])[:, 0]
    )
    expected = cases.gradient(model, x, order[:, 1]) - cases.gradient(model, x, target)
    torch.testing.assert_close(found.normal, expected.detach())
    assert found.attained.all()
    assert not found.misclassified.any()


def test_normal_is_the_papers_by_completeness() -> None:
    """M = (J_y'ᵀ - J_yᵀ) 1 of integrated gradients, when the quadrature is exact enough."""
    model, x = cases.tabular()
    attribution = ab.IntegratedGradients(model, steps=30, quadrature="gauss_legendre")
    bound = ab.bound(attribution, x, ab.L2Ball(0.1))
    ones = torch.ones_like(x)
    columns = [
        attribution.linearize(x, labels).jacobian.rmatvec(ones)
        for labels in (bound.label.runner_up, bound.target)
    ]
    torch.testing.assert_close(bound.label.normal, columns[0] - columns[1], rtol=1e-6, atol=1e-9)


def test_feasibility_of_both_ends() -> None:
    """f0 - f1 = 1 - 2 x_0: the label turns at x_0 = 0.5."""
    slopes = torch.tensor([[-2.0, 0.0], [0.0, 0.0]]).double()
    model = torch.nn.Linear(2, 2).double()
    model.weight.data, model.bias.data = slopes, torch.tensor([1.0, 0.0]).double()
    x, up = torch.zeros(1, 2).double(), torch.tensor([[1.0, 0.0]]).double()
    target = torch.zeros(1, dtype=torch.long)
    short, far = (label_constraint(ab.Classifier(model), x, target, r * up) for r in (0.4, 0.6))
    assert (short.plus_feasible.item(), short.minus_feasible.item()) == (True, True)
    assert (far.plus_feasible.item(), far.minus_feasible.item()) == (False, True)
    assert far.attained.item()


def test_misclassified_examples_are_flagged() -> None:
    model, x = cases.tabular()
    wrong = (model(x).argmax(1) + torch.tensor([1, 0, 0, 2, 0])) % 3
    bound = ab.bound(ab.Saliency(model), x, ab.L2Ball(0.1), target=wrong)
    assert bound.label.misclassified.tolist() == [True, False, False, True, False]
    assert [ab.Status.MISCLASSIFIED in status for status in bound.status] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert (bound.label.margin < 0).tolist() == [True, False, False, True, False]


def test_a_single_logit_has_no_rival() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    bound = ab.bound(ab.Saliency(model.double()), torch.rand(2, 3).double(), ab.L2Ball(0.1))
    assert not bound.label.misclassified.any()
    assert bound.label.normal.abs().max() == 0
