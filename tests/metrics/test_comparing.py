from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics.pairwise import paired_cosine_distances, paired_euclidean_distances

from attribound.basics.errors import InputError
from attribound.metrics import (
    compare,
    cosine,
    degrees,
    euclidean,
    kendall,
    maps,
    pearson,
    spearman,
    top_k_intersection,
)

CORRELATIONS = [pearson, spearman, kendall]
METRICS = [euclidean, cosine, degrees, *CORRELATIONS]
LOWER_AND_UPPER = {
    euclidean: (0, math.inf),
    cosine: (0, 2),
    degrees: (0, 180),
    pearson: (-1, 1),
    spearman: (-1, 1),
    kendall: (-1, 1),
}


def first_two(a, b):
    return top_k_intersection(a, b, 2)


def row(*numbers) -> torch.Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


def noise(*shape, ties=False, seed=0, dtype=torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """Two correlated attributions, rounded to few values if there shall be ties."""
    generator = torch.Generator().manual_seed(seed)
    a, e = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    pair = (a, 0.5 * a + e)
    return tuple((2 * g).round().to(dtype) if ties else g.to(dtype) for g in pair)


@st.composite
def pairs(draw, size=7) -> tuple[torch.Tensor, torch.Tensor]:
    """Small whole numbers: ties, zeros and constants are common, and arithmetic is exact."""
    numbers = st.lists(st.integers(-6, 6), min_size=size, max_size=size)
    return row(*draw(numbers)), row(*draw(numbers))


# Outside libraries and slow re-implementations


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(pearson, stats.pearsonr), (spearman, stats.spearmanr), (kendall, stats.kendalltau)],
)
def test_correlations_are_those_of_scipy(ours, theirs, ties, dtype) -> None:
    a, b = noise(5, 3, 4, 4, ties=ties, dtype=dtype)
    rows = zip(a.flatten(1).double().numpy(), b.flatten(1).double().numpy(), strict=True)
    expected = torch.tensor([theirs(x, y).statistic for x, y in rows], dtype=dtype)
    torch.testing.assert_close(ours(a, b), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distances_are_those_of_scikit_learn(dtype) -> None:
    a, b = noise(5, 48, dtype=dtype)
    for ours, theirs in [
        (euclidean, paired_euclidean_distances),
        (cosine, paired_cosine_distances),
    ]:
        expected = torch.from_numpy(np.asarray(theirs(a.numpy(), b.numpy())))
        torch.testing.assert_close(ours(a, b), expected.to(dtype), rtol=1e-5, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(pairs())
def test_kendall_counts_pairs(pair) -> None:
    """By its definition: concordant less discordant, over the pairs that are not tied."""
    x, y = ((g.T - g).sign() for g in pair)
    untied = math.sqrt((x**2).sum() * (y**2).sum())
    expected = (x * y).sum().item() / untied if untied else 0.0
    assert kendall(*pair).item() == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(pairs(), st.integers(1, 7))
def test_top_k_counts_common_entries(pair, k) -> None:
    a, b = (
        set(sorted(range(7), key=lambda i, g=g: (-g[0, i].item(), i))[:k])  # first of equals wins
        for g in pair
    )
    assert top_k_intersection(*pair, k).item() == len(a & b) / k


# Closed forms


def test_euclidean_distance_of_a_right_triangle() -> None:
    assert euclidean(row(3, 0), row(0, 4)).item() == 5
    assert euclidean(row(3, 1), row(3, 1)).item() == 0


@pytest.mark.parametrize("angle", [1e-12, 1e-9, 1e-4, 0.5, math.pi / 2, 3.0])
@pytest.mark.parametrize("length", [1e-200, 3.0, 1e200])
def test_angle_and_cosine_distance_keep_their_digits(angle, length) -> None:
    """Also where 1 - cos is 0 in floating point, and where squares would over- or underflow."""
    a, b = row(2, 0), length * row(math.cos(angle), math.sin(angle))
    assert degrees(a, b).item() == pytest.approx(math.degrees(angle), rel=1e-9, abs=0)
    assert cosine(a, b).item() == pytest.approx(2 * math.sin(angle / 2) ** 2, rel=1e-9, abs=0)


@pytest.mark.parametrize("size", [1e-323, 1e-200, 1e200, 1e307])
def test_extreme_sizes_neither_overflow_nor_vanish(size) -> None:
    a, b = row(1, 2, 3, 5), row(2, 1, 3, 5)
    assert euclidean(size * a, size * b).item() == pytest.approx(size * math.sqrt(2), rel=0.5)
    for metric in [cosine, degrees, *CORRELATIONS]:
        torch.testing.assert_close(metric(size * a, size * b), metric(a, b))


def test_pearson_survives_a_large_offset() -> None:
    """Steps of the last digit of the offset: the mean, 1.75 steps, is not even representable."""
    step = 2.0**-23
    a, b = row(0, 1, 2, 4), row(1, 0, 2, 3)
    torch.testing.assert_close(pearson(1e9 + step * a, b), pearson(a, b), rtol=1e-12, atol=0)
    assert pearson(row(0, 1, 2), row(0, 1, 0.5)).item() == pytest.approx(0.5)


@pytest.mark.parametrize("metric", CORRELATIONS)
def test_correlation_with_oneself_and_ones_opposite(metric) -> None:
    a, _ = noise(4, 30, ties=True)
    torch.testing.assert_close(metric(a, a), torch.ones(4).double())
    torch.testing.assert_close(metric(a, -a), -torch.ones(4).double())


def test_rank_correlations_by_hand() -> None:
    """One swap of neighbours among four: 1 - 6 * 2 / 60, and five pairs against one."""
    a, b = row(1, 2, 3, 4), row(1, 20, 10, 400)
    assert spearman(a, b).item() == pytest.approx(0.8)
    assert kendall(a, b).item() == pytest.approx(4 / 6)


def test_top_k_by_hand() -> None:
    a, b = row(9, 8, 7, -9), row(9, 0, 8, -9)
    assert [top_k_intersection(a, b, k).item() for k in (1, 2, 3, 4)] == [1, 0.5, 1, 1]
    assert top_k_intersection(row(0, 0, 0), row(0, 0, 1), 1).item() == 0, "the first of equals"
    assert top_k_intersection(a, b, np.int64(2)).item() == 0.5


@settings(max_examples=40, deadline=None)
@given(pairs(), st.integers(1, 7))
def test_top_k_of_equals_is_one(pair, k) -> None:
    assert top_k_intersection(pair[0], pair[0].clone(), k).item() == 1


# Laws


@settings(max_examples=60, deadline=None)
@given(pairs())
def test_metrics_are_symmetric_and_in_range(pair) -> None:
    a, b = pair
    for metric, (lower, upper) in LOWER_AND_UPPER.items():
        value = metric(a, b)
        torch.testing.assert_close(value, metric(b, a))
        assert lower <= value.item() <= upper
    assert first_two(a, b).item() == first_two(b, a).item() in (0, 0.5, 1)


@settings(max_examples=60, deadline=None)
@given(pairs(), st.permutations(range(7)))
def test_metrics_do_not_depend_on_the_order_of_features(pair, order) -> None:
    a, b = pair
    for metric in METRICS:
        torch.testing.assert_close(metric(a[:, order], b[:, order]), metric(a, b))
    a, b = (g + 0.1 * torch.arange(7) for g in pair)  # no ties, which are broken by the order
    assert first_two(a[:, order], b[:, order]).item() == first_two(a, b).item()


@settings(max_examples=60, deadline=None)
@given(pairs(), st.sampled_from([torch.exp, torch.atan, lambda g: g**3 + 2 * g]))
def test_ranks_do_not_change_under_monotone_maps(pair, monotone) -> None:
    a, b = pair
    for metric in [spearman, kendall, first_two]:
        assert torch.equal(metric(monotone(a), b), metric(a, b))
        assert torch.equal(metric(monotone(a), monotone(b)), metric(a, b))


@settings(max_examples=60, deadline=None)
@given(pairs(), st.floats(1e-6, 1e6), st.floats(-10, 10))
def test_scale_and_offset_do_not_change_what_they_should_not(pair, scale, offset) -> None:
    a, b = pair
    for metric in [cosine, degrees, *CORRELATIONS]:
        torch.testing.assert_close(metric(scale * a, b), metric(a, b), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(pearson(a + offset, b), pearson(a, b), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(euclidean(scale * a, scale * b), scale * euclidean(a, b))
    torch.testing.assert_close(euclidean(a + offset, b + offset), euclidean(a, b))


@settings(max_examples=60, deadline=None)
@given(pairs())
def test_opposites_mirror(pair) -> None:
    a, b = pair
    for metric in CORRELATIONS:
        torch.testing.assert_close(metric(-a, b), -metric(a, b))
    if a.any() and b.any():
        torch.testing.assert_close(degrees(-a, b), 180 - degrees(a, b), rtol=0, atol=1e-6)
        torch.testing.assert_close(cosine(-a, b), 2 - cosine(a, b), rtol=0, atol=1e-12)


# Constants: a defined value, and (warnings being errors here) no warning


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("constant", [0.0, 0.1, -1e30])
@pytest.mark.parametrize("metric", CORRELATIONS)
def test_correlation_with_a_constant_is_zero(metric, constant, dtype) -> None:
    a, _ = noise(3, 7, dtype=dtype)
    flat = torch.full_like(a, constant)
    for pair in [(a, flat), (flat, a), (flat, flat)]:
        assert metric(*pair).tolist() == [0, 0, 0]


def test_a_constant_does_not_touch_its_neighbours() -> None:
    a, b = noise(3, 9)
    b[1] = 0
    for metric in CORRELATIONS:
        assert metric(a, b)[1] == 0
        torch.testing.assert_close(metric(a, b)[::2], metric(a[::2], b[::2]))


def test_zero_has_the_opposite_direction() -> None:
    a, zero = row(1, -2, 3), row(0, 0, 0)
    for pair in [(a, zero), (zero, a), (zero, zero)]:
        assert cosine(*pair).item() == 2
        assert degrees(*pair).item() == 180


def test_one_feature_has_no_correlation() -> None:
    assert [metric(row(2), row(3)).item() for metric in CORRELATIONS] == [0, 0, 0]
    assert top_k_intersection(row(2), row(3), 1).item() == 1


# Shapes and kinds of tensors


@pytest.mark.parametrize("metric", [*METRICS, first_two])
def test_a_batch_is_its_examples(metric) -> None:
    a, b = noise(4, 2, 3, 5, ties=True)
    singles = [metric(a[i : i + 1], b[i : i + 1]) for i in range(4)]
    torch.testing.assert_close(metric(a, b), torch.cat(singles))
    torch.testing.assert_close(metric(a, b), metric(a.flatten(1), b.flatten(1)))
    assert metric(a[:0], b[:0]).shape == (0,)


@pytest.mark.parametrize("metric", [*METRICS, first_two])
def test_the_answer_has_the_dtype_of_the_inputs_and_no_graph(metric) -> None:
    a, b = noise(2, 6)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        value = metric(a.to(dtype).requires_grad_(), b.to(dtype))
        assert (value.shape, value.dtype, value.requires_grad) == ((2,), dtype, False)
    assert metric(a.float(), b).dtype == metric(a, b.float()).dtype == torch.float64


@pytest.mark.parametrize("metric", [*METRICS, first_two])
def test_inputs_are_left_alone(metric) -> None:
    a, b = noise(2, 6)
    copies = a.clone(), b.clone()
    metric(a, b)
    assert torch.equal(a, copies[0])
    assert torch.equal(b, copies[1])


def test_imagenet_size_takes_seconds() -> None:
    a, b = noise(1, 3, 224, 224)
    start = time.perf_counter()
    values = compare(a, b, k=1000, absolute=False)
    assert time.perf_counter() - start < 10
    # Of a normal pair whose correlation is known: 0.5 / sqrt(1.25).
    r = 0.5 / math.sqrt(1.25)
    assert values["pearson"].item() == pytest.approx(r, abs=0.01)
    assert values["spearman"].item() == pytest.approx(6 / math.pi * math.asin(r / 2), abs=0.01)
    assert values["kendall"].item() == pytest.approx(2 / math.pi * math.asin(r), abs=0.01)


# Maps and all at once


def test_maps_take_the_absolute_value_then_the_sum() -> None:
    g = row(1, -1, 2, -3).reshape(1, 2, 1, 2)
    assert maps(g) is g
    assert maps(g, absolute=True).flatten().tolist() == [1, 1, 2, 3]
    assert maps(g, channel_dim=1).tolist() == [[[3, -4]]]
    assert maps(g, absolute=True, channel_dim=1).tolist() == [[[3, 4]]]
    torch.testing.assert_close(maps(g, channel_dim=-1), g.sum(3))


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("channel_dim", [None, 1])
def test_compare_gives_every_metric_of_the_maps(absolute, channel_dim) -> None:
    a, b = noise(3, 2, 4, 4)
    values = compare(a, b, absolute=absolute, channel_dim=channel_dim)
    u, v = (maps(g, absolute, channel_dim) for g in (a, b))
    assert list(values) == [metric.__name__ for metric in METRICS]
    for metric in METRICS:
        torch.testing.assert_close(values[metric.__name__], metric(u, v))
    top = compare(a, b, k=5, absolute=absolute, channel_dim=channel_dim)
    assert set(top) - set(values) == {"top_k_intersection"}
    torch.testing.assert_close(top["top_k_intersection"], top_k_intersection(u, v, 5))


def test_compare_looks_at_absolute_values_unless_told() -> None:
    a, _ = noise(2, 6)
    assert compare(a, -a)["euclidean"].tolist() == [0, 0]
    torch.testing.assert_close(
        compare(a, -a, absolute=False)["pearson"], torch.full((2,), -1.0).double()
    )


# What is refused


@pytest.mark.parametrize("metric", [*METRICS, first_two, compare])
def test_unusable_attributions_are_refused(metric) -> None:
    a = torch.ones(2, 3)
    with pytest.raises(InputError, match=r"the same shape, got \(2, 3\) and \(2, 4\); compare"):
        metric(a, torch.ones(2, 4))
    for empty in (torch.ones(()), torch.ones(3), torch.ones(2, 0)):
        with pytest.raises(InputError, match=r"shape \(batch, \*features\).*batch dimension"):
            metric(empty, empty)
    for pair in [(a, a.long()), (a.bool(), a), (a.to(torch.complex64), a)]:
        with pytest.raises(InputError, match=r"expected floating-point numbers, got torch\."):
            metric(*pair)
    for value in (math.nan, math.inf, -math.inf):
        bad = a.clone()
        bad[1, 2] = value
        for pair in [(a, bad), (bad, a)]:
            with pytest.raises(InputError, match=r"finite numbers, got NaN or inf.* 1 of 2 exam"):
                metric(*pair)


@pytest.mark.parametrize("k", [0, -1, 4, 2.0, "all"])
def test_k_must_be_a_number_of_features(k) -> None:
    a = torch.ones(2, 3)
    with pytest.raises(InputError, match=rf"k: expected an integer from 1 to 3.*, got '?{k}'?;"):
        top_k_intersection(a, a, k)
    with pytest.raises(InputError, match="k: expected an integer from 1 to 3"):
        compare(a, a, k=k)


def test_k_counts_the_entries_of_the_maps() -> None:
    a = torch.ones(2, 3, 4)
    with pytest.raises(InputError, match="k: expected an integer from 1 to 4"):
        compare(a, a, k=5, channel_dim=1)


@pytest.mark.parametrize("channel_dim", [0, -3, 3, -4])
def test_channels_are_a_feature_dimension(channel_dim) -> None:
    with pytest.raises(InputError, match=rf"channel_dim: .* got {channel_dim} for shape \(2, 3, 4"):
        maps(torch.ones(2, 3, 4), channel_dim=channel_dim)


def test_channels_are_not_the_only_dimension() -> None:
    with pytest.raises(InputError, match=r"not its only one, got 1 for shape \(2, 3\)"):
        maps(torch.ones(2, 3), channel_dim=1)


def test_compare_checks_shapes_before_it_sums_over_channels() -> None:
    with pytest.raises(InputError, match="two of the same shape"):
        compare(torch.ones(2, 3, 4), torch.ones(2, 1, 4), channel_dim=1)
