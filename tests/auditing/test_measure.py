from __future__ import annotations

import importlib
import math
import re
from dataclasses import replace

import pytest
import torch

import attribound as ab
from attribound import metrics
from attribound.attacks import PGD, AttributionAscent, OnlyIn
from attribound.auditing.batches import Batch
from attribound.auditing.measure import failed, measure
from attribound.auditing.rows import KEY, MAPS_SCHEMA, SCHEMA, untimed
from attribound.basics.tensors import norm
from auditing import cases
from auditing.cases import attack_of, bound_of

module = importlib.import_module("attribound.auditing.measure")
CLAIMS = ("first_order", "adjusted", "mean_value", "certified")
METHODS = (ab.FirstOrder(), ab.Adjusted(), cases.MEAN_VALUE, ab.Certified())
BOTH = (ab.Saliency(), ab.InputXGradient())
BALLS = (ab.L2Ball(0.05), ab.L2Ball(0.1), ab.LinfBall(0.02, low=0, high=1))


@pytest.fixture(scope="module")
def run():
    """Two attributions, three balls, four claims, two attacks, four samples."""
    attacks = {
        "ascent": AttributionAscent(steps=2, seed=317),
        "pgd": OnlyIn(PGD().repeat(2), ("l2",)),
    }
    given = {"attributions": BOTH, "balls": BALLS, "claims": METHODS, "attacks": attacks}
    subject = cases.subject(maps="all", k=2, **given)
    return subject, cases.batch(), measure(subject, cases.batch())


def test_a_row_for_every_sample_attribution_and_ball(run) -> None:
    _, _, found = run
    assert found.rows.schema == SCHEMA
    keys = {tuple(row[key] for key in KEY) for row in found.rows.to_pylist()}
    balls = [("l2", 0.05), ("l2", 0.1), ("linf", 0.02)]
    assert keys == {
        (sample, name, *ball)
        for sample in range(100, 104)
        for name in ("saliency", "input_x_gradient")
        for ball in balls
    }
    assert found.rows.num_rows == len(keys)
    row = found.rows.to_pylist()[0]
    assert (row["batch"], row["features"], row["scores"], row["error"]) == (3, 7, 7, None)


@pytest.mark.parametrize("name", ["saliency", "input_x_gradient"])
@pytest.mark.parametrize("ball", BALLS[1:])
def test_rows_say_what_the_library_says(run, name, ball) -> None:
    """Against direct calls, one by one, for every claim and attack."""
    subject, batch, found = run
    attribution = {"saliency": ab.Saliency, "input_x_gradient": ab.InputXGradient}[name](
        subject.model
    )
    rows = rows_of(found, name, ball)
    bounds = ab.bounds(attribution, batch.x, ball, claims=METHODS)
    for claim, bound in bounds.items():
        records = [bound_of(row, claim) for row in rows]
        numbers = {
            "euclidean": bound.euclidean,
            "degrees": bound.degrees,
            "cosine": bound.cosine,
            "xi_lower": bound.xi.lower,
            "xi_upper": bound.xi.upper,
        }
        for field, expected in numbers.items():
            assert column(records, field) == pytest.approx(expected.tolist(), rel=1e-9), field
        assert column(records, "status") == [str(each) for each in bound.status]
        assert column(records, "source") == list(bound.source)
        assert column(records, "products") == bound.products.tolist()
        assert all(each["seconds"] >= 0 for each in records)
    first = bounds["first_order"]
    adjusted = [bound_of(row, "adjusted")["euclidean"] for row in rows]
    assert adjusted == pytest.approx(first.adjusted.tolist(), rel=1e-9)
    assert column(rows, "target") == column(rows, "prediction") == first.target.tolist()
    assert column(rows, "correct") == (first.target == batch.labels).tolist()
    lengths = norm(attribution(batch.x, first.target)).tolist()
    assert column(rows, "attribution_norm") == pytest.approx(lengths, rel=1e-9)
    ascent = AttributionAscent(steps=2, seed=317)(attribution, batch.x, ball)
    _check_attack(rows, "ascent", ascent, attribution, batch.x)
    if ball.p == math.inf:
        assert [[each["attack"] for each in row["attacks"]] for row in rows] == [["ascent"]] * 4
        assert [row["strongest"]["by"] for row in rows] == ["ascent"] * 4
        return
    pgd = PGD().repeat(2)(attribution, batch.x, ball)
    _check_attack(rows, "pgd", pgd, attribution, batch.x)
    best = torch.maximum(pgd.deviation, ascent.deviation)
    strongest = [row["strongest"]["deviation"] for row in rows]
    assert strongest == pytest.approx(best.tolist(), rel=1e-9)


def _check_attack(rows, name, found, attribution, x) -> None:
    """What is kept of an attack and of its repeats, recomputed trial by trial."""
    records = [attack_of(row, name) for row in rows]
    target = attribution.targets(x)
    clean = attribution(x, target).abs()
    after = attribution(x + found.delta, target).abs()
    trials = found.trials or (found,)
    angles = torch.stack([trial.degrees for trial in trials]).amax(0)
    assert column(records, "deviation") == pytest.approx(found.deviation.tolist(), rel=1e-9)
    assert column(records, "degrees") == pytest.approx(angles.tolist(), rel=1e-9)
    assert column(records, "label_kept") == found.label_kept.tolist()
    assert column(records, "evaluations") == [found.evaluations] * len(x)
    assert column(records, "kendall") == pytest.approx(metrics.kendall(clean, after).tolist())
    assert column(records, "topk") == metrics.top_k_intersection(clean, after, 2).tolist()
    for number, trial in enumerate(trials):
        repeats = [record["repeats"][number] for record in records]
        moved = attribution(x + trial.delta, target).abs()
        assert column(repeats, "deviation") == pytest.approx(trial.deviation.tolist(), rel=1e-9)
        assert column(repeats, "degrees") == pytest.approx(trial.degrees.tolist(), rel=1e-9)
        assert column(repeats, "label_kept") == trial.label_kept.tolist()
        assert column(repeats, "kendall") == pytest.approx(metrics.kendall(clean, moved).tolist())
    assert {len(record["repeats"]) for record in records} == {len(trials)}


def test_repeats_that_change_the_label_are_told_apart() -> None:
    """A ball so large that PGD flips all labels of some sample."""
    subject = cases.subject(claims="first_order", balls=ab.L2Ball(30.0))
    rows = measure(subject, cases.batch(4)).rows.to_pylist()
    kept = [[each["label_kept"] for each in attack_of(row, "pgd")["repeats"]] for row in rows]
    assert any(not any(each) for each in kept)
    for row in rows:
        record = attack_of(row, "pgd")
        furthest = max(record["repeats"], key=lambda each: each["deviation"])
        assert record["label_kept"] == furthest["label_kept"]
        assert record["deviation"] == furthest["deviation"]


def test_the_strongest_attack_is_the_furthest_and_its_fields_are_its_own(run) -> None:
    for row in run[2].rows.to_pylist():
        strongest = row["strongest"]
        own = attack_of(row, strongest["by"])
        assert strongest["deviation"] == max(column(row["attacks"], "deviation"))
        for field in ("deviation", "label_kept", "kendall", "topk"):
            assert strongest[field] == own[field]
        assert strongest["degrees"] == max(column(row["attacks"], "degrees"))


def test_exceeded_means_that_an_attack_went_further(run) -> None:
    rows = run[2].rows.to_pylist()
    for row in rows:
        for claim in CLAIMS:
            bound, attack = bound_of(row, claim), row["strongest"]
            error = 1e-13 * (row["attribution_norm"] + attack["deviation"])  # of float64
            assert bound["exceeded"] == (attack["deviation"] > bound["euclidean"] + error)
            over = attack["degrees"] > bound["degrees"] + 1e-4
            assert bound["degrees_exceeded"] == over
    assert any(bound_of(row, "first_order")["exceeded"] for row in rows)
    assert not any(bound_of(row, "certified")["exceeded"] for row in rows)


@pytest.mark.parametrize("ball", BALLS)
def test_exceeded_is_what_validation_says(run, ball) -> None:
    subject, batch, found = run
    attribution = ab.Saliency(subject.model)
    attacks = [each for each in subject.settings.made_attacks.values() if each.applies(ball)]
    tried = [attack(attribution, batch.x, ball) for attack in attacks]
    rows = rows_of(found, "saliency", ball)
    for claim, bound in ab.bounds(attribution, batch.x, ball, claims=METHODS).items():
        judged = ab.validate(bound, *tried)
        own = [bound_of(row, claim) for row in rows]
        assert column(own, "exceeded") == judged.exceeded.any(0).tolist()
        assert column(own, "degrees_exceeded") == judged.exceeded_degrees.any(0).tolist()


def test_rounding_exceeds_nothing() -> None:
    """At tiny radii the deviations of float32 are mostly rounding, and above what is certified."""
    balls = (ab.L2Ball(1e-7), ab.LinfBall(1e-7))
    subject = cases.subject(balls=balls, claims=(ab.Certified(),), dtype="float32")
    rows = measure(subject, cases.batch()).rows.to_pylist()
    bounds = [(row, bound_of(row, "certified")) for row in rows]
    assert any(row["strongest"]["deviation"] > bound["euclidean"] for row, bound in bounds)
    assert not any(bound["exceeded"] or bound["degrees_exceeded"] for _, bound in bounds)


def test_a_bound_that_is_too_small_is_reported_exceeded(monkeypatch) -> None:
    """The broken variant: first-order bounds cut to a half."""
    honest = ab.FirstOrder.prepare

    def cut(self, questions) -> None:
        honest(self, questions)
        for each in questions:
            bound = each.made[self]
            each.made[self] = replace(bound, euclidean=bound.euclidean / 2)

    monkeypatch.setattr(ab.FirstOrder, "prepare", cut)
    rows = measure(cases.subject(claims="first_order"), cases.batch()).rows.to_pylist()
    assert all(bound_of(row, "first_order")["exceeded"] for row in rows)


def test_mean_value_bounds_are_not_shown_the_attacks_of_the_audit(monkeypatch) -> None:
    """A bound that knows an attack can't be exceeded by it."""
    seen = []
    honest = ab.MeanValue.bound

    def spy(self, question):
        seen.append(question.attacked)
        return honest(self, question)

    monkeypatch.setattr(ab.MeanValue, "bound", spy)
    measure(cases.subject(), cases.batch(2))
    assert seen == [(), ()]


def test_maps_belong_to_the_strongest_attack(run) -> None:
    _, batch, found = run
    assert found.maps.schema == MAPS_SCHEMA
    assert found.maps.num_rows == found.rows.num_rows
    rows = {tuple(row[key] for key in KEY): row for row in found.rows.to_pylist()}
    order = {"l2": 2, "linf": math.inf}
    for kept in found.maps.to_pylist():
        row = rows[tuple(kept[key] for key in KEY)]
        tensors = {key: torch.tensor([kept[key]]) for key in MAPS_SCHEMA.names[6:]}
        assert kept["shape"] == kept["map_shape"] == [7]
        torch.testing.assert_close(tensors["input"][0].double(), batch.x[row["sample"] - 100])
        moved = norm(tensors["attacked_map"] - tensors["clean_map"]).item()
        assert moved == pytest.approx(row["strongest"]["deviation"], rel=1e-4)
        size = norm(tensors["delta"], order[row["ball"]]).item()
        assert size <= row["epsilon"] * (1 + 1e-5)


def test_some_maps_are_the_furthest_the_most_turned_and_a_typical_one() -> None:
    subject = cases.subject(maps="some", claims="first_order")
    found = measure(subject, cases.batch(6))
    rows = [row for row in found.rows.to_pylist() if row["epsilon"] == 0.1]
    kept = {row["sample"] for row in found.maps.to_pylist() if row["epsilon"] == 0.1}
    ordered = sorted(rows, key=lambda row: row["strongest"]["deviation"])
    assert {ordered[-1]["sample"], ordered[2]["sample"]} <= kept
    assert max(rows, key=lambda row: row["strongest"]["degrees"])["sample"] in kept
    assert len(kept) <= 3
    nothing = measure(cases.subject(maps="none", claims="first_order"), cases.batch(1))
    assert nothing.maps.num_rows == 0


class TestAnotherShape:
    """An attribution with fewer scores than the input has features."""

    def found(self, **changes):
        subject = cases.subject(attributions=cases.Pooled(), maps="all", **changes)
        return subject, measure(subject, cases.batch())

    def test_rows_and_maps_have_both_shapes(self) -> None:
        subject, found = self.found()
        assert found.rows["error"].null_count == found.rows.num_rows
        assert {(row["features"], row["scores"]) for row in found.rows.to_pylist()} == {(7, 3)}
        attribution = cases.Pooled(subject.model)
        x = cases.batch().x
        for kept in found.maps.to_pylist():
            assert (kept["shape"], kept["map_shape"]) == ([7], [3])
            assert (len(kept["input"]), len(kept["delta"])) == (7, 7)
            expected = attribution(x[[kept["sample"] - 100]])[0].tolist()
            assert kept["clean_map"] == pytest.approx(expected, rel=1e-5)
            assert len(kept["attacked_map"]) == 3

    def test_bounds_are_the_librarys(self) -> None:
        subject, found = self.found()
        ball = ab.L2Ball(0.1)
        expected = ab.bound(cases.Pooled(subject.model), cases.batch().x, ball)
        rows = [row for row in found.rows.to_pylist() if row["epsilon"] == 0.1]
        bounds = [bound_of(row, "first_order")["euclidean"] for row in rows]
        assert bounds == pytest.approx(expected.euclidean.tolist(), rel=1e-9)

    def test_k_is_that_of_the_scores(self) -> None:
        """One of three by default; never more than there are."""
        subject, found = self.found(claims="first_order")
        wide = self.found(claims="first_order", k=99)[1]
        attribution, x = cases.Pooled(subject.model), cases.batch().x
        for row, all_of_them in zip(found.rows.to_pylist(), wide.rows.to_pylist(), strict=True):
            assert all_of_them["strongest"]["topk"] == 1.0
            assert row["strongest"]["topk"] in (0.0, 1.0)
        kept = {(row["sample"], row["epsilon"]): row for row in found.maps.to_pylist()}
        for row in found.rows.to_pylist():
            own = kept[row["sample"], row["epsilon"]]
            maps = (torch.tensor([own[name]]).abs() for name in ("clean_map", "attacked_map"))
            expected = metrics.top_k_intersection(*maps, 1).item()
            assert row["strongest"]["topk"] == expected
        assert attribution(x).shape == (4, 3)


@pytest.mark.parametrize("scaled", [False, True], ids=["a class of its own", "scale"])
def test_a_ball_with_frozen_features_is_used_as_it_is(scaled) -> None:
    frozen = torch.tensor([0.0, 0.0, 1, 1, 1, 1, 1], dtype=torch.float64)
    ball = ab.L2Ball(0.3, scale=frozen) if scaled else cases.Frozen(0.3)
    subject = cases.subject(balls=ball, claims=METHODS, maps="all")
    found = measure(subject, cases.batch())
    assert found.rows["error"].null_count == 4
    assert set(found.rows["ball"].to_pylist()) == {ball.name} != {"l2"}
    moved = torch.tensor(found.maps["delta"].to_pylist())
    assert (moved[:, :2] == 0).all()
    assert (moved[:, 2:] != 0).any(1).all()
    attribution, x = ab.Saliency(subject.model), cases.batch().x
    own, plain = (
        ab.bounds(attribution, x, each, claims=METHODS) for each in (ball, ab.L2Ball(0.3))
    )
    for claim, bound in own.items():
        rows = [bound_of(row, claim) for row in found.rows.to_pylist()]
        assert column(rows, "euclidean") == pytest.approx(bound.euclidean.tolist(), rel=1e-9)
    assert (own["first_order"].euclidean < plain["first_order"].euclidean).all()


def test_the_same_batch_gives_the_same_rows() -> None:
    one, other = (measure(cases.subject(), cases.batch(3)) for _ in range(2))
    assert untimed(one.rows) == untimed(other.rows)
    assert one.maps == other.maps


def test_another_seed_gives_other_attacks() -> None:
    """Else the test above would say nothing."""
    one, other = (
        measure(cases.subject(seed=seed, claims="first_order"), cases.batch(3)).rows.to_pylist()
        for seed in (0, 1)
    )
    for first, second in zip(one, other, strict=True):
        assert attack_of(first, "pgd")["deviation"] != attack_of(second, "pgd")["deviation"]
        bounds = (bound_of(row, "first_order")["euclidean"] for row in (first, second))
        assert len({*bounds}) == 1


@pytest.mark.parametrize("bad", [(1,), (0, 3)])
def test_a_bad_sample_is_recorded_and_the_others_are_measured(bad) -> None:
    given = {"attributions": BOTH, "claims": "first_order"}
    found = measure(cases.subject(cases.Network(), **given), cases.batch(4, bad))
    fine = measure(cases.subject(cases.Network(), **given), cases.batch(4))
    assert found.rows.num_rows == 4 * 2 * 2
    for row, good in zip(found.rows.to_pylist(), fine.rows.to_pylist(), strict=True):
        assert row["sample"] == good["sample"]
        if row["sample"] - 100 in bad:
            assert "finite logits" in row["error"]
            assert row["bounds"] == row["attacks"] == []
            known = {"batch", "label", "features", "error", "bounds", "attacks", *KEY}
            assert all(row[name] is None for name in set(row) - known)
        else:
            assert row["error"] is None
            own, expected = (each["strongest"]["deviation"] for each in (row, good))
            assert own == pytest.approx(expected, rel=1e-6)
            own, expected = (bound_of(each, "first_order")["euclidean"] for each in (row, good))
            assert own == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("error", "sizes"),
    [
        (MemoryError(), [4, 4]),
        (torch.cuda.OutOfMemoryError("CUDA out of memory"), [4, 4]),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), [4, 4]),
        (RuntimeError("anything else"), [4, 2, 2]),
    ],
)
def test_out_of_memory_once_gives_the_same_rows(error, sizes, monkeypatch) -> None:
    subject = cases.subject(claims="first_order")
    fine, seen, inner = measure(subject, cases.batch(4)), [], module._measured

    def short(subject, name, batch, steps):
        seen.append(len(batch))
        if len(seen) == 1:
            raise error
        return inner(subject, name, batch, steps)

    monkeypatch.setattr(module, "_measured", short)
    found = measure(subject, cases.batch(4))
    assert seen == sizes
    if sizes == [4, 4]:
        assert untimed(found.rows).equals(untimed(fine.rows))
        assert found.maps.equals(fine.maps)


def test_a_sample_that_is_always_out_of_memory_is_recorded(monkeypatch) -> None:
    seen = []

    def short(subject, name, batch, steps):
        seen.append(len(batch))
        raise MemoryError("too much")

    monkeypatch.setattr(module, "_measured", short)
    found = measure(cases.subject(claims="first_order"), cases.batch(2))
    assert seen == [2, 2, 1, 1, 1, 1]
    assert set(found.rows["error"].to_pylist()) == {"MemoryError: too much"}


def test_nan_in_the_data_and_exceptions_of_the_model_are_recorded() -> None:
    batch = cases.batch(2)
    batch.x[0, 3] = math.nan
    found = measure(cases.subject(claims="first_order"), batch)
    assert "NaN or infinity" in found.rows["error"][0].as_py()

    class Explodes(torch.nn.Module):
        def forward(self, x):
            raise RuntimeError(f"boom in <object at 0x{id(x):x}>")

    found = measure(cases.subject(Explodes(), claims="first_order"), cases.batch(2))
    said = found.rows["error"].to_pylist()
    assert len(said) == 4
    assert all(re.fullmatch("ModelError: model: .* got boom in <object>; check.*", t) for t in said)
    assert found.maps.num_rows == 0


def test_nan_in_a_result_is_an_error_and_no_number(monkeypatch) -> None:
    kendall = metrics.kendall
    monkeypatch.setattr(metrics, "kendall", lambda a, b: kendall(a, b) * math.nan)
    found = measure(cases.subject(claims="first_order"), cases.batch(1))
    assert "sample 100: expected numbers, got NaN in kendall" in found.rows["error"][0].as_py()
    assert found.rows["strongest"].null_count == found.rows.num_rows


def test_nan_in_a_bound_is_an_error_and_no_number(monkeypatch) -> None:
    honest = ab.FirstOrder.prepare

    def spoil(self, questions) -> None:
        honest(self, questions)
        for each in questions:
            bound = each.made[self]
            each.made[self] = replace(bound, euclidean=bound.euclidean * math.nan)

    monkeypatch.setattr(ab.FirstOrder, "prepare", spoil)
    found = measure(cases.subject(claims="first_order"), cases.batch(1))
    assert "got NaN in euclidean" in found.rows["error"][0].as_py()
    assert found.rows["bounds"].to_pylist() == [[], []]


def test_a_perturbation_outside_the_ball_is_an_error_and_exceeds_nothing() -> None:
    """Else an attack of a user's own could break any bound by leaving the ball."""
    batch = cases.batch(6)
    attacks = {"mine": cases.Outside(), "pgd": PGD()}
    found = measure(cases.subject(attacks=attacks, claims="first_order"), batch)
    outside = {100 + i for i in range(6) if batch.x[i, 0] > 0.5}
    assert 0 < len(outside) < 6
    for row in found.rows.to_pylist():
        if row["sample"] not in outside:
            assert row["error"] is None
            assert [each["attack"] for each in row["attacks"]] == ["mine", "pgd"]
            continue
        assert "attack mine: expected perturbations in L2Ball" in row["error"]
        assert "1 of 1 outside; let it project them" in row["error"]
        assert row["bounds"] == row["attacks"] == []


def test_a_network_with_kinks_ends_the_audit() -> None:
    subject = cases.subject(cases.plain(kinked=True))
    with pytest.raises(ab.KinkError, match="--smooth auto"):
        measure(subject, cases.batch(2))


def test_attacks_on_a_smooth_copy_are_judged_on_the_original() -> None:
    model = cases.plain(kinked=True)
    subject = cases.subject(model, smooth=20.0, claims="first_order", maps="all")
    batch = cases.batch(3)
    found = measure(subject, batch)
    assert found.rows["error"].null_count == found.rows.num_rows
    original, copy = ab.Saliency(model), ab.Saliency(subject.audited)
    same = ab.fidelity(model, subject.audited, batch.x)
    rows = rows_of(found, "saliency", ab.L2Ball(0.1))
    fidelity = column(rows, "fidelity")
    assert column(fidelity, "degrees") == pytest.approx(same.degrees.tolist(), rel=1e-6)
    assert column(fidelity, "logits") == pytest.approx(same.logits.tolist(), rel=1e-6)
    assert column(fidelity, "attribution") == pytest.approx(same.attribution.tolist(), rel=1e-6)
    assert column(fidelity, "label") == same.labels_agree.tolist()
    kept = [row for row in found.maps.to_pylist() if row["epsilon"] == 0.1]
    delta = torch.tensor([row["delta"] for row in kept]).double()
    target = copy.targets(batch.x)
    judged = ab.attacks.judge(original, batch.x, delta, target)
    transferred = [
        next(each for each in row["attacks"] if each["attack"] == "transferred") for row in rows
    ]
    # To float32, in which maps are kept.
    close = {"rel": 1e-3, "abs": 1e-6}
    deviations = column(transferred, "deviation")
    assert (torch.tensor(deviations) >= (1 - 1e-3) * judged.deviation - 1e-6).all()
    assert deviations == pytest.approx(judged.deviation.tolist(), **close)
    assert column(transferred, "label_kept") == judged.label_kept.tolist()
    assert deviations != column(column(rows, "strongest"), "deviation")


def test_with_a_copy_the_network_itself_is_attacked_in_earnest() -> None:
    """Its own attacks are judged on it, and each bound is held against them, too."""
    model = cases.plain(kinked=True)
    subject = cases.subject(model, smooth=20.0, balls=[ab.L2Ball(0.1)], attributions=["saliency"])
    found = measure(subject, cases.batch(3)).rows.to_pylist()
    for row in found:
        by = {each["attack"]: each for each in row["attacks"]}
        own = [each for each in by.values() if each["subject"] == "yours"]
        assert {each["attack"] for each in own} == {
            *("jumps", "through", "kinks", "noise", "transferred")
        }
        assert row["yours"]["deviation"] == max(each["deviation"] for each in own)
        on_copy = [each for each in by.values() if each["subject"] == "copy"]
        assert row["strongest"]["deviation"] == max(each["deviation"] for each in on_copy)
        for bound in row["bounds"]:
            assert bound["subject"] == "copy"
            assert bound["yours_exceeded"] == (row["yours"]["deviation"] > bound["euclidean"])
            assert bound["exceeded"] == (row["strongest"]["deviation"] > bound["euclidean"])
        assert row["fidelity"]["ball_degrees"] >= 0
    exceeded = [bound["yours_exceeded"] for row in found for bound in row["bounds"]]
    assert any(exceeded), "bounds of the copy do not hold for the network: else this tests nothing"


def test_what_is_explained_is_what_the_network_predicts() -> None:
    """Also where its copy predicts something else."""
    model = cases.plain(kinked=True)
    subject = cases.subject(model, smooth=0.2)
    batch = cases.batch(4)
    with torch.no_grad():
        labels = subject.model(subject.place(batch.x)).argmax(1).tolist()
    rows = measure(subject, batch).rows.to_pylist()
    assert {row["sample"]: row["target"] for row in rows} == dict(
        zip(batch.indices.tolist(), labels, strict=True)
    )


def test_without_a_smooth_copy_there_is_nothing_to_compare(run) -> None:
    for row in run[2].rows.to_pylist():
        assert row["fidelity"] is None
        assert row["yours"] == row["strongest"]
        assert {each["subject"] for each in (*row["bounds"], *row["attacks"])} == {"yours"}


def test_a_claim_that_does_not_apply_says_why_and_leaves_the_others(tmp_path) -> None:
    claims = ("first_order", ab.Calibrated(str(tmp_path)), "certified")
    found = measure(cases.subject(cases.Network(), claims=claims), cases.batch(2))
    for row in found.rows.to_pylist():
        assert row["error"] is None
        for claim in ("certified", "calibrated"):
            bound = bound_of(row, claim)
            assert bound["euclidean"] is bound["exceeded"] is bound["degrees_exceeded"] is None
            assert bound["status"].startswith("does not apply: ")
        assert "expected files that Calibration.save" in bound_of(row, "calibrated")["status"]
        assert bound_of(row, "first_order")["euclidean"] > 0


def test_a_calibrated_bound_is_its_base_times_the_factor(tmp_path) -> None:
    model, batch = cases.plain().double(), cases.batch()
    method = ab.SplitConformal(attack=AttributionAscent(steps=1), alpha=0.5)
    made = ab.calibrate(ab.Saliency(model), batch.x, ab.L2Ball(0.1), method=method)
    made.save(tmp_path / "c.json")
    claims = ("first_order", ab.Calibrated(str(tmp_path / "c.json")))
    found = measure(cases.subject(model, claims=claims), batch)
    for row in found.rows.to_pylist():
        calibrated, first = (bound_of(row, name) for name in ("calibrated", "first_order"))
        if row["epsilon"] == 0.1:
            expected = made.factor * first["euclidean"]
            assert calibrated["euclidean"] == pytest.approx(expected)
        else:
            assert "ball: expected" in calibrated["status"]


def test_without_attacks_there_is_nothing_to_exceed() -> None:
    found = measure(cases.subject(attacks={}, claims="first_order"), cases.batch(2))
    for row in found.rows.to_pylist():
        bound = bound_of(row, "first_order")
        assert bound["exceeded"] is bound["degrees_exceeded"] is row["strongest"] is None
        assert row["attacks"] == []
    assert found.maps.num_rows == 0


def test_one_solution_serves_all_radii(monkeypatch) -> None:
    """Products of the Jacobian are counted: three radii cost what one does."""

    def products(epsilons, dense) -> int:
        counted = []
        linearize = ab.Saliency._linearize

        def counting(self, x, target):
            at = linearize(self, x, target)
            for kind in ("matvec", "rmatvec"):
                product = getattr(at.jacobian, kind)
                object.__setattr__(
                    at.jacobian, kind, lambda v, product=product: counted.append(1) or product(v)
                )
            return at

        with monkeypatch.context() as patch:
            patch.setattr(ab.Saliency, "_linearize", counting)
            balls = [kind(each) for kind in (ab.L2Ball, ab.LinfBall) for each in epsilons]
            subject = cases.subject(claims=ab.FirstOrder(dense=dense), attacks={}, balls=balls)
            measure(subject, cases.batch(1))
        return len(counted)

    for dense in (True, False):
        assert products((0.1,), dense) == products((0.05, 0.1, 0.2), dense) > 0


def test_a_batch_that_could_not_be_measured_at_all_has_its_rows() -> None:
    settings = cases.settings(attributions=BOTH)
    found = failed(settings, cases.batch(2), "the process died")
    assert found.rows.schema == SCHEMA
    assert found.rows.num_rows == 2 * 2 * 2
    assert set(found.rows["error"].to_pylist()) == {"the process died"}
    assert found.maps.num_rows == 0


def test_halves_keep_everything_together() -> None:
    first, second = cases.batch(5).halves()
    assert (len(first), len(second)) == (2, 3)
    assert second.indices.tolist() == [102, 103, 104]
    assert isinstance(first, Batch)
    assert first.number == 3


def rows_of(found, name, ball) -> list[dict]:
    return [
        row
        for row in found.rows.to_pylist()
        if (row["attribution"], row["ball"], row["epsilon"]) == (name, ball.name, ball.epsilon)
    ]


def column(rows, name) -> list:
    return [row[name] for row in rows]
