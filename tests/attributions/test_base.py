"""What every attribution does, on every kind of network."""

from __future__ import annotations

import pytest
import torch

import attribound as ab
import cases
import laws

EVERY = pytest.mark.parametrize(
    ("network", "method"),
    [(network, method) for network in cases.NETWORKS for method in cases.ATTRIBUTIONS],
)


@EVERY
def test_the_jacobian_obeys_the_laws(network, method) -> None:
    model, x = cases.NETWORKS[network]()
    jacobian = cases.ATTRIBUTIONS[method](model).linearize(x).jacobian
    assert jacobian.domain.shape == x.shape
    assert jacobian.points == {"ig_riemann": 4, "ig_gauss": 5}.get(method, jacobian.points)
    for law in laws.OPERATOR_LAWS:
        law(jacobian)


@EVERY
def test_the_jacobian_is_the_slope_of_the_value(network, method) -> None:
    """Central differences, which know nothing of how the Jacobian is computed."""
    model, x = cases.NETWORKS[network]()
    attribution = cases.ATTRIBUTIONS[method](model)
    target = attribution.targets(x)
    v = torch.randn(x.shape, generator=torch.Generator().manual_seed(4)).double()
    ahead, behind = attribution(x + 1e-5 * v, target), attribution(x - 1e-5 * v, target)
    product = attribution.linearize(x).jacobian.matvec(v)
    torch.testing.assert_close(product, (ahead - behind) / 2e-5, rtol=1e-5, atol=1e-7)


@EVERY
def test_linearize_gives_the_value_of_the_call(network, method) -> None:
    model, x = cases.NETWORKS[network]()
    attribution = cases.ATTRIBUTIONS[method](model)
    linear = attribution.linearize(x)
    torch.testing.assert_close(linear.value, attribution(x), rtol=0, atol=1e-12)
    assert torch.equal(linear.target, model(x).argmax(1))


@EVERY
def test_a_batch_equals_its_examples_one_by_one(network, method) -> None:
    model, x = cases.NETWORKS[network]()
    attribution = cases.ATTRIBUTIONS[method](model)
    together, alone = attribution.linearize(x), [attribution.linearize(one[None]) for one in x]
    v = torch.randn(x.shape, generator=torch.Generator().manual_seed(4)).double()
    for batched, singles in [
        (together.value, [one.value for one in alone]),
        (
            together.jacobian.matvec(v),
            [one.jacobian.matvec(w[None]) for one, w in zip(alone, v, strict=True)],
        ),
        (
            together.jacobian.rmatvec(v),
            [one.jacobian.rmatvec(w[None]) for one, w in zip(alone, v, strict=True)],
        ),
    ]:
        torch.testing.assert_close(batched, torch.cat(singles), rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", cases.ATTRIBUTIONS)
def test_nothing_that_leaves_has_a_graph(method) -> None:
    model, x = cases.tabular()
    x.requires_grad_()
    attribution = cases.ATTRIBUTIONS[method](model)
    linear = attribution.linearize(x)
    products = linear.jacobian.matvec(x.detach()), linear.jacobian.rmatvec(x.detach())
    for out in (attribution(x), linear.value, linear.jacobian.domain, *products):
        assert not out.requires_grad
    assert x.grad is None


@pytest.mark.parametrize("method", cases.ATTRIBUTIONS)
def test_single_precision_stays_single_and_close(method) -> None:
    model, x = cases.tabular()
    exact = cases.ATTRIBUTIONS[method](model).linearize(x, 0)
    product = exact.jacobian.matvec(x)
    rough = cases.ATTRIBUTIONS[method](model.float()).linearize(x.float(), 0)
    torch.testing.assert_close(rough.value, exact.value.float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        rough.jacobian.matvec(x.float()), product.float(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("method", cases.ATTRIBUTIONS)
@pytest.mark.parametrize("act", ["__call__", "linearize"])
def test_inputs_and_labels_are_checked(method, act) -> None:
    model, x = cases.tabular()
    use = getattr(cases.ATTRIBUTIONS[method](model), act)
    with pytest.raises(ab.InputError, match="x: expected finite numbers"):
        use(x * torch.nan)
    with pytest.raises(ab.InputError, match="target: expected labels from 0 to 2"):
        use(x, 3)


@pytest.mark.parametrize("method", cases.ATTRIBUTIONS)
def test_examples_at_once_fit_into_the_memory_limit(method) -> None:
    model, x = cases.tabular()
    few, many = (
        cases.ATTRIBUTIONS[method](ab.Classifier(model, memory_limit=limit)).examples_at_once(x)
        for limit in (100_000, 1_000_000)
    )
    assert 1 <= few <= many // 9
    tiny = cases.ATTRIBUTIONS[method](ab.Classifier(model, memory_limit=1))
    assert tiny.examples_at_once(x) == 1


@pytest.mark.parametrize("method", ["saliency", "ig_riemann", "ig_gauss"])
def test_examples_at_once_counts_the_points_of_each(method) -> None:
    model, x = cases.tabular()
    classifier = ab.Classifier(model, memory_limit=1_000_000)
    attribution = cases.ATTRIBUTIONS[method](classifier)
    each = attribution.points * classifier.graph_bytes(x)
    count = attribution.examples_at_once(x)
    assert count * each <= 1_000_000 < (count + 1) * each


def test_rows_of_an_attribution_without_settings_per_row() -> None:
    model, x = cases.tabular()
    saliency = ab.Saliency(model)
    assert saliency.rows(x, slice(1, 2)) is saliency


def test_attributions_of_one_classifier_share_its_probes() -> None:
    classifier = ab.Classifier(cases.tabular()[0])
    assert ab.Saliency(classifier).classifier is ab.InputXGradient(classifier).classifier
    assert ab.Saliency(classifier).name == "saliency"
