from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

import attribound as ab
from attribound.attacks import IFIA, AtInput, RandomPerturbation, TopK
from attribound.metrics import Mean, Similarity, attribution_similarity
from attribound.metrics import similarity as module
from cases import tabular

BALL = ab.L2Ball(0.5)
ATTACK = IFIA(TopK(3), steps=10)


@pytest.fixture
def case():
    model, _ = tabular()
    x = torch.rand(12, 7, generator=torch.Generator().manual_seed(5)).double()
    with torch.no_grad():
        y = model(x).argmax(1)
    y[[2, 7, 8]] = (y[[2, 7, 8]] + 1) % 3
    return model, x, y


def slowly(attribution, x, y, ball, attack, k) -> dict[str, float]:
    """One example at a time, with SciPy and NumPy."""
    rows: dict[str, list[float]] = {"top_k": [], "kendall": [], "pearson": [], "cosine": []}
    for one, label in zip(x.split(1), y, strict=True):
        if attribution.classifier.predict(one).item() != label:
            continue
        a = attribution(one, int(label))[0]
        b = attribution(one + attack(attribution, one, ball, int(label)).delta, int(label))[0]
        p, q = a.abs().numpy(), b.abs().numpy()
        rows["top_k"].append(len({*(-p).argsort()[:k]} & {*(-q).argsort()[:k]}) / k)
        rows["kendall"].append(stats.kendalltau(p, q).statistic)
        rows["pearson"].append(stats.pearsonr(p, q).statistic)
        rows["cosine"].append(torch.nn.functional.cosine_similarity(a, b, dim=0).item())
    return {name: math.fsum(values) / len(values) for name, values in rows.items()}


def numbers(similarity: Similarity) -> dict[str, float]:
    return {
        name: getattr(similarity, name).value for name in ("top_k", "kendall", "pearson", "cosine")
    }


@pytest.mark.parametrize("make", [ab.Saliency, lambda m: ab.IntegratedGradients(m, steps=4)])
@pytest.mark.parametrize("attack", [ATTACK, RandomPerturbation()])
def test_agrees_with_one_example_at_a_time(case, make, attack) -> None:
    model, x, y = case
    attribution = make(model)
    found = attribution_similarity(attribution, x, y, BALL, attack, 3)
    expected = slowly(attribution, x, y, BALL, attack, 3)
    assert numbers(found) == pytest.approx(expected, abs=1e-9)
    assert (found.n, found.misclassified, found.k) == (9, 3, 3)
    assert all(value < 1 for value in expected.values())  # the attack matters


def test_misclassified_examples_are_left_out(case) -> None:
    """Had they been attacked, the means would differ."""
    model, x, y = case
    attribution = ab.Saliency(model)
    found = attribution_similarity(attribution, x, y, BALL, ATTACK, 3)
    everyone = attribution_similarity(attribution, x, attribution.targets(x), BALL, ATTACK, 3)
    assert everyone.n == 12
    assert numbers(found) != pytest.approx(numbers(everyone), abs=1e-6)


def test_an_attack_that_finds_nothing_leaves_everything_alike(case) -> None:
    model, x, y = case
    still = IFIA(TopK(3), steps=0, start=AtInput())
    found = attribution_similarity(ab.Saliency(model), x, y, BALL, still, 3)
    assert numbers(found) == pytest.approx(dict.fromkeys(numbers(found), 1.0))
    assert found.kendall == Mean(1.0, 0.0, 9)


def test_batches_change_nothing(case, monkeypatch) -> None:
    model, x, y = case
    whole = attribution_similarity(ab.Saliency(model), x, y, BALL, ATTACK, 3)
    monkeypatch.setattr(module, "_BATCH", 4)
    parts = attribution_similarity(ab.Saliency(model), x, y, BALL, ATTACK, 3)
    assert numbers(parts) == pytest.approx(numbers(whole))
    assert parts.n == whole.n


def test_a_model_in_train_mode_is_scored_in_eval_mode(case) -> None:
    model, x, y = case
    model = torch.nn.Sequential(model, torch.nn.Dropout(0.9))
    expected = attribution_similarity(ab.Saliency(model.eval()), x, y, BALL, ATTACK, 3)
    assert attribution_similarity(ab.Saliency(model.train()), x, y, BALL, ATTACK, 3) == expected
    assert model.training


def test_nothing_right_is_nothing_to_compare(case) -> None:
    model, x, _ = case
    wrong = (ab.Saliency(model).targets(x) + 1) % 3
    assert attribution_similarity(ab.Saliency(model), x, wrong, BALL, ATTACK, 3) is None


def test_a_bad_k_is_refused_before_the_attack(case) -> None:
    model, x, y = case
    with pytest.raises(ab.InputError, match="k: expected an integer from 1 to 7"):
        attribution_similarity(ab.Saliency(model), x, y, BALL, ATTACK, 8)


def test_needs_to_know_the_predictions(case) -> None:
    _, x, y = case
    attribution = ab.FunctionAttribution(lambda x: x**3)
    with pytest.raises(ab.InputError, match="expected one that knows its classifier, to leave"):
        attribution_similarity(attribution, x, y, BALL, ATTACK, 3)
