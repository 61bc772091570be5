from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn

import attribound as ab
import cases
import laws
from attribound.bounding.certified.sums import stretch_above

LABELS = torch.tensor([0, 2, 0, -1, 1, 2, 2])


def summing(labels: Tensor) -> Tensor:
    """The matrix that sums, entry by entry."""
    matrix = torch.zeros(int(labels.max()) + 1, labels.numel(), dtype=torch.float64)
    for place, label in enumerate(labels.flatten().tolist()):
        if label >= 0:
            matrix[label, place] = 1.0
    return matrix


@pytest.mark.parametrize("name", cases.ATTRIBUTIONS)
def test_sums_and_their_jacobian_are_those_of_dense_matrices(name) -> None:
    model, x = cases.tabular()
    base = cases.ATTRIBUTIONS[name](model)
    grouped = ab.Grouped(base, LABELS)
    plain, found = base.linearize(x), grouped.linearize(x)
    matrix = summing(LABELS)
    torch.testing.assert_close(found.value, plain.value @ matrix.T)
    torch.testing.assert_close(grouped(x), found.value)
    eye = torch.eye(7, dtype=torch.float64)
    columns = [plain.jacobian.matvec(e.expand(len(x), 7)) for e in eye]
    truth = matrix @ torch.stack(columns, 2)
    laws.equals_dense(found.jacobian, truth)
    laws.shaped(found.jacobian)
    laws.adjoint(found.jacobian)
    laws.equals_dense(found.jacobian.select(torch.tensor([3, 1])), truth[[3, 1]])


def test_channels_of_images() -> None:
    model, x = cases.image()
    grouped = ab.Grouped(ab.Saliency(model), "channels")
    torch.testing.assert_close(grouped(x), ab.Saliency(model)(x).sum(1))
    found = grouped.linearize(x)
    laws.adjoint(found.jacobian)
    laws.shaped(found.jacobian)
    labels = torch.arange(36).view(1, 6, 6).expand(2, 6, 6)
    same = ab.Grouped(ab.Saliency(model), labels)
    torch.testing.assert_close(same(x), grouped(x).flatten(1))
    balls = ab.L2Ball(0.1)
    one, other = ab.bound(same, x, balls), ab.bound(grouped, x, balls)
    torch.testing.assert_close(one.euclidean, other.euclidean, rtol=1e-3, atol=0)
    assert grouped.stretch(ab.Saliency(model)(x)) == same.stretch(x) == math.sqrt(2)


def test_a_group_of_one_feature_is_the_feature() -> None:
    model, x = cases.tabular()
    base = ab.Saliency(model)
    single = ab.Grouped(base, torch.arange(7))
    torch.testing.assert_close(single(x), base(x), rtol=0, atol=0)
    ball = ab.L2Ball(0.1)
    for claim, rtol in {"first_order": 0.01, "mean_value": 0.01, "certified": 1e-12}.items():
        one, other = (ab.bound(each, x, ball, claim=claim) for each in (single, base))
        torch.testing.assert_close(one.euclidean, other.euclidean, rtol=rtol, atol=0)


def test_on_a_quadratic_the_bound_is_attained() -> None:
    """Sums of linear maps are linear: S A delta is largest at the top singular value of S A."""
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 2.0])
    labels = torch.tensor([0, 1, 0, 1])
    grouped = ab.Grouped(attribution, labels)
    matrix = summing(labels) @ attribution.classifier.model.matrices[0]
    truth = 0.1 * torch.linalg.matrix_norm(matrix, 2)
    ball = ab.L2Ball(0.1)
    made = ab.bound(grouped, x, ball)
    torch.testing.assert_close(made.euclidean, truth.expand(len(x)), rtol=1e-3, atol=0)
    found = ab.attacks.AttributionAscent()(grouped, x, ball)
    torch.testing.assert_close(found.deviation, truth.expand(len(x)), rtol=1e-3, atol=0)


def relu() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).double().eval()
    return model, torch.rand(3, 4, dtype=torch.float64)


@pytest.mark.parametrize("make", [cases.tabular, relu])
def test_certificates_of_sums_hold(make) -> None:
    model, x = make()
    labels = torch.arange(x.shape[1]) // 2
    grouped = ab.Grouped(ab.InputXGradient(model), labels)
    ball = ab.L2Ball(0.2)
    target = grouped.targets(x)
    made = ab.bound(grouped, x, ball, target, claim="certified")
    clean = grouped(x, target)
    torch.testing.assert_close(made.attribution_norm, clean.norm(dim=1))
    for seed in range(200):
        delta = ball.project(ball.sample_sphere(x, seed), x)
        moved = (grouped(x + delta, target) - clean).norm(dim=1)
        assert (moved <= made.euclidean).all()


def test_a_certificate_without_the_root_of_the_size_is_exceeded() -> None:
    """All scores of a group move alike: the sum moves by the root of their number."""
    size, ball = 9, ab.L2Ball(0.1)
    model = nn.Sequential(nn.Linear(size, 1), nn.Tanh(), nn.Linear(1, 2)).double()
    with torch.no_grad():
        model[0].weight.fill_(0.5)
        model[0].bias.zero_()
    x = torch.full((1, size), 0.1, dtype=torch.float64)
    base = ab.Saliency(model.eval())
    grouped = ab.Grouped(base, torch.zeros(size, dtype=torch.long))
    target = torch.zeros(1, dtype=torch.long)
    found = ab.attacks.AttributionAscent()(grouped, x, ball, target).deviation
    plain = ab.bound(base, x, ball, target, claim="certified").euclidean
    made = ab.bound(grouped, x, ball, target, claim="certified").euclidean
    assert plain < found <= made
    torch.testing.assert_close(made, 3 * plain)


def test_certificates_of_sums_are_those_of_the_map_times_the_root() -> None:
    """Every value of them; what stopped is said, what is open of the map is asked anew of sums."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 3))
    x, base = torch.rand(3, 6), ab.Saliency(net.eval())
    method, stopped = ab.Certified(nodes=1), False
    for groups, stretch in (([0, 0, 1, 1, 1, 1], 2.0), ([0, 1, 2, 3, 4, 5], 1.0)):
        grouped = ab.Grouped(base, torch.tensor(groups))
        for ball in (ab.L2Ball(0.02), ab.L2Ball(0.3)):
            plain, made = (ab.bound(each, x, ball, method=method) for each in (base, grouped))
            assert made.values.keys() == plain.values.keys()
            for name, each in plain.values.items():
                torch.testing.assert_close(made.values[name], each * stretch, rtol=1e-6, atol=0)
            open_ = ab.Status.ANGLE_UNBOUNDED | ab.Status.VACUOUS
            for row, status in enumerate(made.status):
                assert status & ~open_ == plain.status[row] & ~open_
                wide = made.degrees[row].item() == 180
                assert (status & open_ == open_) == wide
                assert bool(status & open_) == wide
            stopped |= any(ab.Status.STOPPED in each for each in made.status)
    assert stopped


def test_certificates_of_sums_say_what_they_leave_open() -> None:
    """Whether an angle is bounded, whether the sums are zero: of the sums, not of the map."""
    model, x = relu()
    grouped = ab.Grouped(ab.InputXGradient(model), torch.arange(4) // 2)
    wide = ab.bound(grouped, x, ab.L2Ball(5.0), claim="certified")
    near = ab.bound(grouped, x, ab.L2Ball(1e-6), claim="certified")
    for made, open_ in ((wide, True), (near, False)):
        assert ((made.degrees == 180) == open_).all()
        for status in made.status:
            assert (ab.Status.ANGLE_UNBOUNDED in status) == open_
            assert (ab.Status.VACUOUS in status) == open_
            assert ab.Status.ZERO_ATTRIBUTION not in status
    nothing = ab.bound(grouped, 0 * x, ab.L2Ball(1e-6), claim="certified")
    assert all(ab.Status.ZERO_ATTRIBUTION in status for status in nothing.status)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_root_of_a_group_is_rounded_up_and_still_after_a_product(dtype) -> None:
    for size in (2, 3, 5, 7):
        grouped = ab.Grouped(ab.Saliency(relu()[0]), torch.zeros(size, dtype=torch.long))
        values = 1 + torch.rand(200, generator=torch.Generator().manual_seed(0)).to(dtype)
        made = values * stretch_above(grouped, values.new_ones(1, size))
        assert all(
            Fraction(a) ** 2 >= size * Fraction(b) ** 2
            for a, b in zip(made.tolist(), values.tolist(), strict=True)
        )
        limit = math.sqrt(size) * (1 + 8 * torch.finfo(dtype).eps + 1e-8)
        assert stretch_above(grouped, values.new_ones(1, size)) <= limit
    alone = ab.Grouped(ab.Saliency(relu()[0]), torch.arange(3))
    assert stretch_above(alone, torch.ones(1, 3)) == 1


def test_settings_are_stored_and_names_short() -> None:
    grouped = ab.Grouped(ab.Saliency(), LABELS)
    again = ab.from_spec(ab.to_spec(grouped), ab.Attribution)
    assert again == grouped
    assert grouped.name == "saliency in 3 groups"
    assert ab.from_spec(ab.Grouped().name, ab.Attribution) == ab.Grouped()
    assert ab.from_spec("grouped", ab.Attribution) == ab.Grouped()
    model, x = cases.tabular()
    torch.testing.assert_close(grouped.of(model)(x), ab.Grouped(ab.Saliency(model), LABELS)(x))
    assert grouped.of(model).recipe() == grouped
    assert grouped.of(model).subject == ab.Saliency(model).subject


def test_attacks_through_a_smooth_copy_climb_sums() -> None:
    model, x = relu()
    grouped = ab.Grouped(ab.Saliency(model), torch.tensor([0, 0, 1, 1]))
    found = ab.attacks.earnest(10.0)(grouped, x, ab.L2Ball(0.5))
    assert (found.deviation > 0).any()


def test_steps_are_those_of_the_base() -> None:
    model, x = cases.tabular()
    base = ab.IntegratedGradients(model, steps=2)
    made = ab.bound(ab.Grouped(base, LABELS), x, ab.L2Ball(0.1))
    torch.testing.assert_close(
        made.steps_needed, ab.bound(base, x, ab.L2Ball(0.1)).steps_needed, rtol=0, atol=0
    )


@pytest.mark.parametrize(
    "groups",
    [
        torch.tensor([0, 2]),
        torch.tensor([-2, 0]),
        torch.tensor([-1, -1]),
        torch.tensor([0.0, 1.0]),
        torch.zeros(0, dtype=torch.long),
        "colours",
    ],
)
def test_labels_that_make_no_groups_are_refused(groups) -> None:
    with pytest.raises(ab.InputError, match="groups: expected integer labels from 0"):
        ab.Grouped(ab.Saliency(), groups)


def test_labels_of_another_shape_are_refused() -> None:
    model, x = cases.tabular()
    with pytest.raises(ab.InputError, match=r"shape of one map, \(7,\), got shape \(2,\)"):
        ab.Grouped(ab.Saliency(model), torch.tensor([0, 1]))(x)
    with pytest.raises(ab.InputError, match="to sum channels of, got maps of shape"):
        ab.Grouped(ab.Saliency(model), "channels")(x)


@pytest.mark.parametrize("made_of", [ab.Grouped, ab.Absolute])
def test_it_needs_a_copy_where_its_base_does(made_of) -> None:
    relu = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).eval()
    exact = ab.IntegratedGradients(relu, quadrature="exact")
    assert made_of(exact).crosses_kinks
    assert not made_of(ab.Saliency()).crosses_kinks
