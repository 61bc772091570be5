from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import attribound as ab
import cases
import laws
from attribound.attacks import (
    IFIA,
    PGD,
    Angle,
    Ascend,
    AtInput,
    AttributionAscent,
    Distance,
    KinkSteps,
    MassCentre,
    Nearby,
    RandomPerturbation,
    TopK,
)
from attribound.attacks.engine import Search
from attribound.attacks.objectives import Evaluation, Objective, Problem
from attribound.attacks.remembered import climbs_kept
from attribound.attacks.steps import Beginning, Here, LinearOptimum, Start, StepRule

ATTACKS = [
    PGD(steps=3),
    PGD("kl", steps=3, start=Nearby()),
    PGD("margin", steps=3, keep="best"),
    IFIA(TopK(3), steps=3),
    IFIA(MassCentre(), steps=3, start=AtInput()),
    AttributionAscent(steps=2),
    AttributionAscent(Angle(), steps=2, step=Ascend(), random_starts=1),
    AttributionAscent(steps=2, keep="best_label_kept"),
    RandomPerturbation(),
]
ORDERS = [1.0, 1.5, 2.0, 3.0, float("inf")]


@settings(max_examples=30, deadline=None)
@given(
    attack=st.sampled_from(ATTACKS),
    p=st.sampled_from(ORDERS),
    epsilon=st.floats(1e-3, 2.0),
    limited=st.booleans(),
    seed=st.integers(0, 100),
)
def test_never_outside_ball_or_range_and_honest_about_the_label(
    attack, p, epsilon, limited, seed
) -> None:
    model, x = cases.tabular()
    x = x / x.max()
    attribution = ab.Saliency(model)
    ball = ab.LpBall(epsilon, p, low=0 if limited else None, high=1 if limited else None)
    found = attack.seeded(seed)(attribution, x, ball)
    laws.inside(found.delta, ball)
    if limited:
        assert (x + found.delta).min() >= -1e-6
        assert (x + found.delta).max() <= 1 + 1e-6
    truth = model(x + found.delta).argmax(1) == model(x).argmax(1)
    assert torch.equal(found.label_kept, truth)
    if getattr(attack, "keep", "") == "best_label_kept" or isinstance(attack, IFIA):
        assert found.label_kept.all()
    again = attack.seeded(seed)(attribution, x, ball)
    assert torch.equal(again.delta, found.delta)
    alone = attack.seeded(seed)(attribution, x[3:4], ball)
    torch.testing.assert_close(alone.delta[0], found.delta[3], rtol=1e-5, atol=1e-7)


@settings(max_examples=25, deadline=None)
@given(
    attack=st.sampled_from([*ATTACKS, KinkSteps(), AttributionAscent(steps=1).through(20)]),
    p=st.sampled_from(ORDERS),
    epsilon=st.sampled_from([1e-7, 1e-6, 1e-4, 0.1]),
    limited=st.booleans(),
    scale=st.sampled_from([None, 0.3, torch.tensor([0.3, 0.0, 7.0, 1e-3, 1.0, 0.1, 2.0])]),
)
def test_in_float32_nothing_is_outside_after_rounding(attack, p, epsilon, limited, scale) -> None:
    model, x = cases.tabular()
    model, x = model.float(), (x / x.max()).float()
    limits = (0, 1) if limited else (None, None)
    ball = ab.LpBall(epsilon, p, *limits, scale=scale)
    found = attack(ab.Saliency(model), x, ball)
    laws.inside_exactly(found.delta, x, ball)


@pytest.mark.parametrize(
    "attack",
    [
        RandomPerturbation(),
        AttributionAscent(steps=2),
        AttributionAscent(steps=2, keep="best_label_kept"),
        IFIA(TopK(3), steps=3),
    ],
    ids=lambda attack: type(attack).__name__,
)
def test_the_label_that_is_kept_is_the_prediction_not_the_target(attack) -> None:
    """In a ball so small that no prediction changes, of a class that nobody predicts."""
    model, x = cases.tabular()
    prediction = model(x).argmax(1)
    target = (prediction + 1) % 3
    found = attack(ab.Saliency(model), x, ab.L2Ball(1e-4), target)
    assert torch.equal(model(x + found.delta).argmax(1), prediction)
    assert found.label_kept.all()
    assert found.misclassified.all()
    assert (found.delta.abs().amax(1) > 0).all()  # or it found no iterate with the label
    own = attack(ab.Saliency(model), x, ab.L2Ball(1e-4), prediction)
    assert own.label_kept.all()
    assert not own.misclassified.any()


@dataclass(frozen=True)
class Tied(Objective):
    """As good everywhere by its measure; its score prefers the second feature."""

    def cost(self, problem: Problem) -> int:
        return 0

    def examples_at_once(self, problem: Problem) -> int:
        return 100

    def evaluate(self, problem: Problem, points: Tensor, *, slope: bool) -> Evaluation:
        rises = torch.zeros_like(points)
        rises[:, 1] = 1.0
        score = points[:, 1]
        return Evaluation(score, rises if slope else None, torch.zeros_like(score))


@dataclass(frozen=True)
class Away(StepRule):
    """First up by a half, then down, below the start."""

    def move(self, ball, here: Here, steps: int) -> Tensor:
        up = here.delta[:, 1:2] <= 0
        return torch.where(up, here.delta + 0.5 * here.slope, here.delta - 0.75 * here.slope)


def test_of_iterates_that_are_as_good_the_one_with_the_larger_score_is_kept() -> None:
    """Neither the first nor the last: and of two starts the one whose best has the larger."""
    model, x = cases.tabular()
    problem = Problem(ab.Saliency(model), x, model(x).argmax(1), x)
    ball = ab.L2Ball(2.0)
    both = (AtInput(), At(0.2))
    for starts, best in (((AtInput(),), 0.5), ((At(-0.2),), 0.3), (both, 0.5), (both[::-1], 0.5)):
        search = Search(Tied(), Away(), starts, "best", 3)
        found = search.run(problem, ball, 0, progress=False).delta
        torch.testing.assert_close(found[:, 1], torch.full_like(x[:, 1], best))


@dataclass(frozen=True)
class At(Start):
    """One point."""

    place: float

    def begin(self, problem: Problem, ball, seed: int) -> Beginning:
        start = torch.zeros_like(problem.x)
        start[:, 1] = self.place
        return Beginning([start])


def test_the_clean_input_is_returned_where_nothing_else_keeps_the_label() -> None:
    """Logits -|x|^2 and 0: at the origin class 0 wins the tie, everywhere else class 1."""
    down = -2 * torch.eye(3).double()
    attribution = ab.Saliency(cases.Quadratic(torch.stack([down, 0 * down])))
    x, ball = torch.zeros(2, 3).double(), ab.L2Ball(0.5)
    kept = AttributionAscent(keep="best_label_kept")(attribution, x, ball)
    assert kept.delta.abs().max() == 0
    assert kept.label_kept.all()
    free = AttributionAscent()(attribution, x, ball)
    assert (free.deviation > 0.9).all()
    assert not free.label_kept.any()


def test_ties_of_the_measure_are_broken_by_the_score() -> None:
    """Top-k counts are coarse: of equal counts the iterate that took most weight is kept."""
    model, x = cases.tabular()
    attribution, ball = ab.Saliency(model), ab.L2Ball(0.5)
    short, long = (IFIA(TopK(3), steps=n, step_size=0.05)(attribution, x, ball) for n in (2, 10))
    target = model(x).argmax(1)
    clean = attribution(x, target)
    measures, scores = (
        [getattr(TopK(3), name)(attribution(x + f.delta, target), clean) for f in (short, long)]
        for name in ("measure", "score")
    )
    better = measures[1] > measures[0]
    tie = (measures[1] == measures[0]) & (scores[1] >= scores[0])
    assert (better | tie).all()


def test_groups_that_fit_the_memory_give_the_same() -> None:
    model, x = cases.image()
    baseline = 0.1 * torch.rand_like(x)
    attack, ball = AttributionAscent(steps=2), ab.LinfBall(0.1)
    whole = attack(ab.IntegratedGradients(model, 3, baseline), x, ball)
    small = ab.Classifier(model, memory_limit=1)
    grouped = attack(ab.IntegratedGradients(small, 3, baseline), x, ball)
    torch.testing.assert_close(grouped.delta, whole.delta)
    assert grouped.evaluations <= whole.evaluations


def test_inputs_outside_the_range_are_refused() -> None:
    model, x = cases.tabular()
    with pytest.raises(ab.InputError, match="values from 0 to 1, the range of the ball"):
        PGD()(ab.Saliency(model), x + 1, ab.L2Ball(0.1, low=0, high=1))


def test_searching_networks_with_kinks_needs_no_jacobian_for_predictions_only() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    x = torch.rand(2, 3)
    PGD(steps=2)(ab.Saliency(model), x, ab.L2Ball(0.1))
    with pytest.raises(ab.KinkError, match="relu in '1'"):
        AttributionAscent()(ab.Saliency(model), x, ab.L2Ball(0.1))


def test_refuses_senseless_searches() -> None:
    with pytest.raises(ab.InputError, match="steps: expected a whole number, 0 or more"):
        PGD(steps=-1)(*cases.quadratic([1.0]), ab.L2Ball(1))
    with pytest.raises(ab.InputError, match="keep: expected 'last', 'best' or 'best_label_kept'"):
        Search(Angle(), Ascend(), (AtInput(),), "first", 3)


def test_progress_is_shown_when_asked(capsys) -> None:
    model, x = cases.tabular()
    PGD(steps=2)(ab.Saliency(model), x, ab.L2Ball(0.1))
    assert capsys.readouterr().out == ""
    PGD(steps=2, progress=True)(ab.Saliency(model), x, ab.L2Ball(0.1))
    assert "attacking" in capsys.readouterr().out


@pytest.mark.parametrize("attack", [a for a in ATTACKS if hasattr(a, "search")])
def test_repeats_in_one_batch_find_what_they_find_one_by_one(attack) -> None:
    model, x = cases.tabular()
    baseline = 0.1 * torch.rand_like(x)
    attribution, ball = ab.IntegratedGradients(model, 3, baseline), ab.L2Ball(0.5)
    together = attack.repeat(4)(attribution, x, ball)
    singles = [attack.seeded(i)(attribution, x, ball) for i in range(4)]
    assert len(together.trials) == 4
    for trial, single in zip(together.trials, singles, strict=True):
        torch.testing.assert_close(trial.delta, single.delta, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(
        together.deviation, torch.stack([single.deviation for single in singles]).amax(0)
    )


def test_starts_that_are_not_random_are_paid_for_once() -> None:
    model, x = cases.tabular()
    attribution, ball = ab.Saliency(model), ab.L2Ball(0.5)
    once = AttributionAscent(steps=2)(attribution, x, ball)
    assert AttributionAscent(steps=2).repeat(5)(attribution, x, ball).evaluations == (
        once.evaluations
    )
    random = AttributionAscent(steps=2, random_starts=1)
    more = random(attribution, x, ball).evaluations - once.evaluations
    assert more > 0
    assert random.repeat(5)(attribution, x, ball).evaluations == once.evaluations + 5 * more


def test_rows_are_evaluated_as_many_at_a_time_as_fit_the_memory() -> None:
    model, x = cases.tabular()
    sizes = []

    class Logged(ab.Saliency):
        def relinearize(self, x, target):
            sizes.append(len(x))
            return super().relinearize(x, target)

        def examples_at_once(self, x):
            return 3

    attack, ball = AttributionAscent(steps=2, random_starts=2), ab.L2Ball(0.5)
    few = attack(Logged(model), x, ball)
    assert max(sizes) == 3
    torch.testing.assert_close(few.delta, attack(ab.Saliency(model), x, ball).delta)


def test_climbs_at_rest_go_no_further_and_find_what_they_found() -> None:
    """On a quadratic the first jump is the best there is, and the second goes nowhere."""
    attribution, x = cases.quadratic([2.0, 1.0])
    spent = [
        AttributionAscent(steps=n)(attribution, x, ab.L2Ball(1)).evaluations for n in (3, 9, 30)
    ]
    assert spent[1] == spent[2]
    sizes = []

    class Logged(ab.Saliency):
        def relinearize(self, x, target):
            sizes.append(len(x))
            return super().relinearize(x, target)

    logged = Logged(attribution.classifier)
    found = AttributionAscent(steps=30)(logged, x, ab.L2Ball(1))
    assert min(sizes) > 0  # once all are at rest nothing is evaluated
    torch.testing.assert_close(found.deviation, torch.full_like(found.deviation, 2.0))
    gradual = [
        AttributionAscent(steps=n, step=Ascend())(attribution, x, ab.L2Ball(1)).evaluations
        for n in (9, 30)
    ]
    assert gradual[1] > 3 * gradual[0]  # small steps may pause and go on


@dataclass(frozen=True)
class Stay(StepRule):
    """Nowhere."""

    comes_to_rest = True

    def move(self, ball, here: Here, steps: int) -> Tensor:
        return here.delta


@pytest.mark.parametrize("place", [0.0, 0.3])
def test_a_climb_that_does_not_move_is_at_rest_also_at_the_clean_input(place) -> None:
    model, x = cases.tabular()
    problem = Problem(ab.Saliency(model), x, model(x).argmax(1), x)
    for steps in (1, 9):
        objective = Counted()
        search = Search(objective, Stay(), (At(place),), "best", steps)
        search.run(problem, ab.L2Ball(2.0), 0, progress=False)
        assert objective.seen[True] == len(x)


@dataclass(frozen=True)
class Shrink(StepRule):
    """Towards the clean input, by a share of the way."""

    share: float
    comes_to_rest = True

    def move(self, ball, here: Here, steps: int) -> Tensor:
        return (1 - self.share) * here.delta


@pytest.mark.parametrize("place", [1e-6, 1.0, 1e6])
def test_rest_is_a_share_of_the_way_whatever_the_units(place) -> None:
    """Half of it is none, a thousandth is."""
    model, x = cases.tabular()
    problem = Problem(ab.Saliency(model), x, model(x).argmax(1), x)
    for share, turns in ((0.5, 6), (1.1e-3, 6), (0.9e-3, 1)):
        objective = Counted()
        search = Search(objective, Shrink(share), (At(place),), "best", 6)
        search.run(problem, ab.L2Ball(2e6), 0, progress=False)
        assert objective.seen[True] == turns * len(x)


@dataclass(frozen=True)
class Interrupting(Start):
    """Stopped before there is anything."""

    def begin(self, problem: Problem, ball, seed: int) -> Beginning:
        raise KeyboardInterrupt


def test_an_interrupt_before_the_first_step_has_cost_nothing() -> None:
    model, x = cases.tabular()
    problem = Problem(ab.Saliency(model), x, model(x).argmax(1), x)
    search = Search(Distance(), Ascend(), (Interrupting(),), "best", 3)
    found = search.run_all(problem, ab.L2Ball(1), [0, 1], progress=False)
    assert [(each.evaluations, each.interrupted) for each in found] == [(0, True)] * 2
    assert all(each.delta.abs().max() == 0 for each in found)


def test_of_what_is_as_good_in_everything_the_first_is_kept() -> None:
    """Of turns and of starts: neither measure nor score tells them apart."""
    model, x = cases.tabular()
    problem = Problem(ab.Saliency(model), x, model(x).argmax(1), x)
    for starts, first in (((At(0.2),), 0.2), ((At(-0.3), At(0.2)), -0.3)):
        search = Search(Same(), Away(), starts, "best", 3)
        found = search.run(problem, ab.L2Ball(2.0), 0, progress=False).delta
        torch.testing.assert_close(found[:, 1], torch.full_like(x[:, 1], first))


@dataclass(frozen=True)
class Same(Tied):
    """As good everywhere by measure and score."""

    def evaluate(self, problem: Problem, points: Tensor, *, slope: bool) -> Evaluation:
        found = super().evaluate(problem, points, slope=slope)
        return Evaluation(torch.ones_like(found.score), found.slope, found.measure)


def test_where_the_last_step_led_counts_if_the_best_is_kept() -> None:
    """It is looked at once more, without a slope; of the last nobody asks how good it is."""
    model, x = cases.tabular()
    ball = ab.L2Ball(2.0)
    problem = Problem(ab.Saliency(model), x, model(x).argmax(1), x)
    (start,) = At(0.01).begin(problem, ball, 0).deltas
    slope = Distance().evaluate(problem, x + start, slope=True).slope
    moved = Ascend(0.1).move(ball, Here(x, start, slope), 1)
    for keep, looks in (("best", 1), ("best_label_kept", 1), ("last", 0)):
        objective = Counted()
        search = Search(objective, Ascend(0.1), (At(0.01),), keep, 1)
        found = search.run(problem, ball, 0, progress=False).delta
        assert objective.seen == {True: len(x), False: looks * len(x)}
        torch.testing.assert_close(found, moved)


def test_who_needs_the_jacobian_says_so() -> None:
    """An objective that climbs maps, or a start at the optimum of the linearised map."""
    for objective, starts, needed in (
        (Distance(), (AtInput(),), True),
        (Tied(), (AtInput(), LinearOptimum()), True),
        (Distance(), (LinearOptimum(),), True),
        (Tied(), (AtInput(), Nearby()), False),
    ):
        assert Search(objective, Ascend(), starts, "best", 1).needs_jacobian is needed


@dataclass(frozen=True)
class Fixed(At):
    """One point, whatever the seed."""

    random = False


def test_of_several_starts_each_is_remembered_in_its_own_place() -> None:
    model, x = cases.tabular()
    problem = Problem(ab.Saliency(model), x, model(x).argmax(1), x)
    ball = ab.L2Ball(1.0)
    # The second search begins with what was the second start of the first.
    orders = (Fixed(0.3), Fixed(-0.8)), (Fixed(-0.8), Fixed(0.3)), (Nearby(), Fixed(0.3))

    def run(starts) -> tuple[Tensor, int]:
        objective = Counted()
        search = Search(objective, Shrink(0.3), starts, "best", 4)
        found = search.run(problem, ball, 0, progress=False)
        return found.delta, sum(objective.seen.values())

    alone = [run(starts) for starts in orders]
    with climbs_kept():
        together = [run(starts) for starts in orders]
    for (delta, _), (again, _) in zip(alone, together, strict=True):
        torch.testing.assert_close(again, delta, rtol=0, atol=0)
    spent = [new / whole for (_, whole), (_, new) in zip(alone, together, strict=True)]
    assert spent == [1, 0, 0.5]


@dataclass(frozen=True)
class Uneven(StepRule):
    """Half of the way, but for examples whose first feature is large, which stay."""

    comes_to_rest = True

    def move(self, ball, here: Here, steps: int) -> Tensor:
        return torch.where(here.x[:, :1] > 0.7, here.delta, 0.5 * here.delta)


def test_what_is_known_of_some_climbs_is_taken_while_others_rest() -> None:
    model, x = cases.tabular()
    assert {*(x[:, 0] > 0.7).tolist()} == {True, False}
    problem, objective = Problem(ab.Saliency(model), x, model(x).argmax(1), x), Counted()
    search = Search(objective, Uneven(), (Fixed(0.3),), "best", 4)
    ball = ab.L2Ball(1.0)
    with climbs_kept():
        first = search.run(problem, ball, 0, progress=False)
        seen = dict(objective.seen)
        assert len(x) < seen[True] < 4 * len(x)
        again = search.run(problem, ball, 0, progress=False)
    assert objective.seen == seen
    assert torch.equal(again.delta, first.delta)
    assert again.evaluations == first.evaluations


@dataclass(frozen=True)
class Counted(Distance):
    """Counts the points that it is evaluated at, with slope and without."""

    seen: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0}, compare=False)

    def evaluate(self, problem: Problem, points: Tensor, *, slope: bool) -> Evaluation:
        self.seen[slope] += len(points)
        return super().evaluate(problem, points, slope=slope)


@dataclass(frozen=True)
class CountedElse(Counted):
    """The same, but another objective."""


@pytest.mark.parametrize("keep", ["best", "best_label_kept"])
@pytest.mark.parametrize("lengths", [(6, 4), (4, 6), (5, 5), (30, 40)], ids=str)
def test_what_two_searches_have_in_common_is_climbed_once(lengths, keep) -> None:
    """The second finds the same as alone, says that it cost the same, and climbs less."""
    model, x = cases.tabular()
    attribution, ball = ab.IntegratedGradients(model, steps=4), ab.L2Ball(0.5)
    first = AttributionAscent(Counted(), steps=lengths[0], random_starts=3)
    then = [
        AttributionAscent(Counted(), steps=lengths[1], random_starts=1, seed=7, keep=keep)
        for _ in range(2)
    ]
    with climbs_kept():
        first(attribution, x, ball)
        together = then[0](attribution, x, ball)
    alone = then[1](attribution, x, ball)
    torch.testing.assert_close(together.delta, alone.delta, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(together.deviation, alone.deviation)
    assert together.evaluations == alone.evaluations
    # Both linear optima are known as far as the first search went; the random start is not.
    new, whole = (attack.objective.seen[True] for attack in then)
    if lengths[1] <= lengths[0]:
        assert 3 * new <= whole + 3 * len(x)
    assert new < whole


@pytest.mark.parametrize("what", ["x", "target", "ball", "attribution", "objective", "outside"])
def test_nothing_else_is_taken_from_another_search(what) -> None:
    model, x = cases.tabular()
    attribution, ball, target = ab.Saliency(model), ab.L2Ball(0.5), model(x).argmax(1)
    attack = AttributionAscent(Counted(), steps=3)
    asked = {"attribution": attribution, "x": x, "ball": ball, "target": target}
    with climbs_kept():
        attack(**asked)
        whole = dict(attack.objective.seen)
        attack(**asked)
        assert attack.objective.seen == whole  # all of it was known
        changed = {
            "x": x + 0.01,
            "target": (target + 1) % 3,
            "ball": ab.L2Ball(0.6),
            "attribution": ab.Saliency(model),
        }
        if what == "objective":
            attack = AttributionAscent(CountedElse(), steps=3)
        elif what in changed:
            asked[what] = changed[what]
        if what != "outside":
            attack(**asked)
    if what == "outside":  # networks may change there
        attack(**asked)
    before = 0 if what == "objective" else whole[True]
    assert attack.objective.seen[True] > before
