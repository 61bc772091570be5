from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from evaluation import cases

import attribound as ab
from attribound import metrics
from attribound.auditing import measure as measuring
from attribound.auditing.measure import Batch, failed, measure
from attribound.auditing.rows import MAPS_SCHEMA, schema, timings_in
from attribound.auditing.settings import (
    AscentSettings,
    BallSettings,
    FirstOrderSettings,
    InputXGradientSettings,
    PGDSettings,
    SaliencySettings,
)
from attribound.basics.tensors import norm

CLAIMS = ("first_order", "mean_value", "certified")
BOTH = (SaliencySettings(), InputXGradientSettings())


@pytest.fixture(scope="module")
def run():
    """Two attributions, three balls, three claims, two attacks, four samples."""
    balls = (BallSettings("l2", (0.05, 0.1)), BallSettings("linf", (0.02,), 0.0, 1.0))
    attacks = {
        "ascent": AscentSettings(steps=2, seed=317),
        "pgd": PGDSettings(repeats=2, norms=("l2",)),
    }
    given = {"attributions": BOTH, "balls": balls, "claims": CLAIMS, "attacks": attacks}
    subject = cases.subject(maps="all", k=2, **given)
    return subject, cases.batch(), measure(subject, cases.batch())


def test_a_row_for_every_sample_attribution_and_ball(run) -> None:
    subject, _, found = run
    assert found.rows.schema == schema(subject.settings)
    keys = {
        (row["sample"], row["attribution"], row["norm"], row["epsilon"])
        for row in found.rows.to_pylist()
    }
    balls = [("l2", 0.05), ("l2", 0.1), ("linf", 0.02)]
    assert keys == {
        (sample, name, *ball)
        for sample in range(100, 104)
        for name in ("saliency", "input_x_gradient")
        for ball in balls
    }
    assert found.rows.num_rows == len(keys)
    row = found.rows.to_pylist()[0]
    assert (row["batch"], row["features"], row["error"]) == (3, 7, None)


@pytest.mark.parametrize("name", ["saliency", "input_x_gradient"])
@pytest.mark.parametrize("ball", [ab.L2Ball(0.1), ab.LinfBall(0.02, low=0, high=1)])
def test_rows_say_what_the_library_says(run, name, ball) -> None:
    """Against direct calls, one by one, for every claim and attack."""
    subject, batch, found = run
    attribution = {"saliency": ab.Saliency, "input_x_gradient": ab.InputXGradient}[name](
        subject.model
    )
    rows = rows_of(found, name, ball)
    bounds = ab.bounds(
        attribution,
        batch.x,
        ball,
        claims=CLAIMS,
        methods={"mean_value": subject.settings.mean_value.build(ab.FirstOrder())},
    )
    for claim, bound in bounds.items():
        assert column(rows, claim) == pytest.approx(bound.euclidean.tolist(), rel=1e-9)
        assert column(rows, f"{claim}_degrees") == pytest.approx(bound.degrees.tolist(), rel=1e-9)
        assert column(rows, f"{claim}_cosine") == pytest.approx(bound.cosine.tolist(), rel=1e-9)
        assert column(rows, f"{claim}_status") == [str(each) for each in bound.status]
        assert column(rows, f"{claim}_source") == list(bound.source)
        assert column(rows, f"{claim}_products") == bound.products.tolist()
    first = bounds["first_order"]
    assert column(rows, "adjusted") == pytest.approx(first.adjusted.tolist(), rel=1e-9)
    assert column(rows, "xi_upper") == pytest.approx(first.xi.upper.tolist(), rel=1e-9)
    assert column(rows, "target") == first.target.tolist()
    ascent = ab.attacks.AttributionAscent(steps=2, seed=317)(attribution, batch.x, ball)
    assert column(rows, "attack_ascent") == pytest.approx(ascent.deviation.tolist(), rel=1e-9)
    assert column(rows, "attack_ascent_label_kept") == ascent.label_kept.tolist()
    assert column(rows, "attack_ascent_evaluations") == [ascent.evaluations] * 4
    before, after = (attribution(x, first.target).abs() for x in (batch.x, batch.x + ascent.delta))
    assert column(rows, "attack_ascent_kendall") == pytest.approx(
        metrics.kendall(before, after).tolist()
    )
    assert (
        column(rows, "attack_ascent_topk") == metrics.top_k_intersection(before, after, 2).tolist()
    )
    if ball.p == math.inf:
        assert column(rows, "attack_pgd") == [None] * 4
        assert column(rows, "attack_by") == ["ascent"] * 4
        return
    pgd = ab.attacks.PGD().repeat(2)(attribution, batch.x, ball)
    deviations = torch.stack([trial.deviation for trial in pgd.trials])
    assert column(rows, "attack_pgd") == pytest.approx(deviations.amax(0).tolist(), rel=1e-9)
    assert column(rows, "attack_pgd_mean") == pytest.approx(deviations.mean(0).tolist(), rel=1e-9)
    _check_repeats(rows, pgd, first, attribution, batch.x)
    best = torch.maximum(pgd.deviation, ascent.deviation)
    assert column(rows, "attack") == pytest.approx(best.tolist(), rel=1e-9)


def _check_repeats(rows, found, first, attribution, x) -> None:
    """What is counted over repeats, recomputed trial by trial."""
    for i, row in enumerate(rows):
        trials = [(t.deviation[i], t.degrees[i], bool(t.label_kept[i])) for t in found.trials]
        kept = [trial for trial in trials if trial[2]]
        bound = first.euclidean[i]
        assert row["attack_pgd_repeats"] == len(trials)
        assert row["attack_pgd_outside"] == sum(bool(far > bound) for far, _, _ in trials)
        assert row["attack_pgd_kept"] == len(kept)
        assert row["attack_pgd_kept_outside"] == sum(bool(far > bound) for far, _, _ in kept)
        for part, name in enumerate(("attack_pgd_kept_mean", "attack_pgd_kept_mean_degrees")):
            means = sum(float(trial[part]) for trial in kept) / len(kept) if kept else None
            assert row[name] == (means if means is None else pytest.approx(means, rel=1e-9))
    taus = []
    for trial in found.trials:
        maps = (attribution(point, first.target).abs() for point in (x, x + trial.delta))
        taus.append(metrics.kendall(*maps))
    means = torch.stack(taus).mean(0).tolist()
    assert column(rows, "attack_pgd_mean_kendall") == pytest.approx(means)


def test_repeats_that_change_the_label_are_told_apart() -> None:
    """A ball so large that PGD flips all labels: nothing is left of the repeats that kept it."""
    subject = cases.subject(claims=("first_order",), balls=(BallSettings("l2", (30.0,)),))
    rows = measure(subject, cases.batch(4)).rows.to_pylist()
    assert any(row["attack_pgd_kept"] == 0 for row in rows)
    for row in rows:
        assert (row["attack_pgd_kept_mean"] is None) == (row["attack_pgd_kept"] == 0)
        assert row["attack_pgd_kept_outside"] <= min(
            row["attack_pgd_kept"], row["attack_pgd_outside"]
        )
        assert row["attack_pgd_mean"] is not None


def test_the_best_attack_is_the_furthest_and_its_columns_are_its_own(run) -> None:
    for row in run[2].rows.to_pylist():
        by = row["attack_by"]
        tried = [row[f"attack_{each}"] for each in ("ascent", "pgd")]
        assert row["attack"] == row[f"attack_{by}"] == max(filter(None, tried))
        assert row["kendall"] == row[f"attack_{by}_kendall"]
        assert row["topk"] == row[f"attack_{by}_topk"]
        angles = [row[f"attack_{each}_degrees"] for each in ("ascent", "pgd")]
        assert row["attack_degrees"] == max(filter(None, angles))


def test_broken_means_that_an_attack_went_further(run) -> None:
    rows = run[2].rows.to_pylist()
    for row in rows:
        for claim in ("adjusted", *CLAIMS):
            assert row[f"{claim}_broken"] == (row["attack"] > row[claim])
        for claim in CLAIMS:
            over = row["attack_degrees"] > row[f"{claim}_degrees"] + 1e-4
            assert row[f"{claim}_degrees_broken"] == over
    assert any(row["first_order_broken"] for row in rows)
    assert not any(row["certified_broken"] for row in rows)


def test_a_bound_that_is_too_small_is_reported_broken(monkeypatch) -> None:
    """The broken variant: first-order bounds cut to a half."""
    honest = measuring.first_order_in_balls

    def cut(*args):
        return [replace(bound, euclidean=bound.euclidean / 2) for bound in honest(*args)]

    monkeypatch.setattr(measuring, "first_order_in_balls", cut)
    found = measure(cases.subject(claims=("first_order",)), cases.batch())
    assert found.rows["first_order_broken"].to_pylist() == [True] * found.rows.num_rows


def test_maps_belong_to_the_best_attack(run) -> None:
    _, batch, found = run
    assert found.maps.schema == MAPS_SCHEMA
    assert found.maps.num_rows == found.rows.num_rows
    rows = {
        tuple(row[key] for key in ("sample", "attribution", "norm", "epsilon")): row
        for row in found.rows.to_pylist()
    }
    for kept in found.maps.to_pylist():
        row = rows[tuple(kept[key] for key in ("sample", "attribution", "norm", "epsilon"))]
        tensors = {key: torch.tensor([kept[key]]) for key in MAPS_SCHEMA.names[5:]}
        assert kept["shape"] == [7]
        torch.testing.assert_close(tensors["input"][0].double(), batch.x[row["sample"] - 100])
        moved = norm(tensors["attacked_map"] - tensors["clean_map"]).item()
        assert moved == pytest.approx(row["attack"], rel=1e-4)
        assert norm(tensors["delta"], row["p"]).item() <= row["epsilon"] * (1 + 1e-5)


def test_some_maps_are_the_furthest_the_most_turned_and_a_typical_one() -> None:
    subject = cases.subject(maps="some", claims=("first_order",))
    found = measure(subject, cases.batch(6))
    rows = [row for row in found.rows.to_pylist() if row["epsilon"] == 0.1]
    kept = {row["sample"] for row in found.maps.to_pylist() if row["epsilon"] == 0.1}
    ordered = sorted(rows, key=lambda row: row["attack"])
    assert {ordered[-1]["sample"], ordered[2]["sample"]} <= kept
    assert max(rows, key=lambda row: row["attack_degrees"])["sample"] in kept
    assert len(kept) <= 3
    nothing = measure(cases.subject(maps="none", claims=("first_order",)), cases.batch(1))
    assert nothing.maps.num_rows == 0


def test_the_same_batch_gives_the_same_rows() -> None:
    one, other = (measure(cases.subject(), cases.batch(3)) for _ in range(2))
    drop = timings_in(one.rows.column_names)
    assert one.rows.drop_columns(drop) == other.rows.drop_columns(drop)
    assert one.maps == other.maps


def test_another_seed_gives_other_attacks() -> None:
    """Else the test above would say nothing."""
    one, other = (
        measure(cases.subject(seed=seed, claims=("first_order",)), cases.batch(3))
        for seed in (0, 1)
    )
    assert one.rows["attack_pgd"] != other.rows["attack_pgd"]
    assert one.rows["first_order"] == other.rows["first_order"]


@pytest.mark.parametrize("bad", [(1,), (0, 3)])
def test_a_bad_sample_is_recorded_and_the_others_are_measured(bad) -> None:
    given = {"attributions": BOTH, "claims": ("first_order",)}
    found = measure(cases.subject(cases.Network(), **given), cases.batch(4, bad))
    fine = measure(cases.subject(cases.Network(), **given), cases.batch(4))
    assert found.rows.num_rows == 4 * 2 * 2
    for row, good in zip(found.rows.to_pylist(), fine.rows.to_pylist(), strict=True):
        assert row["sample"] == good["sample"]
        if row["sample"] - 100 in bad:
            assert "finite logits" in row["error"]
            known = {"sample", "batch", "label", "attribution", "norm", "p", "epsilon"}
            numbers = set(row) - known - {"features", "error"}
            assert all(row[name] is None for name in numbers)
        else:
            assert row["error"] is None
            assert row["attack"] == pytest.approx(good["attack"], rel=1e-6)
            assert row["first_order"] == pytest.approx(good["first_order"], rel=1e-6)


def test_nan_in_the_data_and_exceptions_of_the_model_are_recorded() -> None:
    batch = cases.batch(2)
    batch.x[0, 3] = math.nan
    found = measure(cases.subject(claims=("first_order",)), batch)
    assert "NaN or infinity" in found.rows["error"][0].as_py()

    class Explodes(torch.nn.Module):
        def forward(self, x):
            raise RuntimeError(f"boom in <object at 0x{id(x):x}>")

    found = measure(cases.subject(Explodes(), claims=("first_order",)), cases.batch(2))
    assert found.rows["error"].to_pylist() == ["RuntimeError: boom in <object>"] * 4
    assert found.maps.num_rows == 0


def test_nan_in_a_result_is_an_error_and_no_number(monkeypatch) -> None:
    kendall = metrics.kendall
    monkeypatch.setattr(metrics, "kendall", lambda a, b: kendall(a, b) * math.nan)
    found = measure(cases.subject(claims=("first_order",)), cases.batch(1))
    assert "NaN in attack_ascent_kendall" in found.rows["error"][0].as_py()
    assert found.rows["attack"].null_count == found.rows.num_rows


def test_a_network_with_kinks_ends_the_audit() -> None:
    subject = cases.subject(cases.plain(kinked=True))
    with pytest.raises(ab.KinkError, match="--smooth 20"):
        measure(subject, cases.batch(2))


def test_attacks_on_a_smooth_copy_are_judged_on_the_original() -> None:
    model = cases.plain(kinked=True)
    subject = cases.subject(model, smooth=20.0, claims=("first_order",), maps="all")
    batch = cases.batch(3)
    found = measure(subject, batch)
    assert found.rows["error"].null_count == found.rows.num_rows
    original, copy = ab.Saliency(model), ab.Saliency(subject.audited)
    same = ab.fidelity(model, subject.audited, batch.x)
    rows = rows_of(found, "saliency", ab.L2Ball(0.1))
    assert column(rows, "fidelity_degrees") == pytest.approx(same.degrees.tolist(), rel=1e-6)
    assert column(rows, "fidelity_label") == same.labels_agree.tolist()
    kept = [row for row in found.maps.to_pylist() if row["epsilon"] == 0.1]
    delta = torch.tensor([row["delta"] for row in kept]).double()
    target = copy.targets(batch.x)
    moved = norm(original(batch.x + delta, target) - original(batch.x, target))
    # To float32, in which maps are kept.
    assert column(rows, "original_attack") == pytest.approx(moved.tolist(), rel=1e-3, abs=1e-6)
    assert column(rows, "original_attack") != column(rows, "attack")


def test_a_claim_that_does_not_apply_says_why_and_leaves_the_others() -> None:
    found = measure(
        cases.subject(cases.Network(), claims=("first_order", "calibrated", "certified")),
        cases.batch(2),
    )
    for row in found.rows.to_pylist():
        assert row["error"] is None
        assert row["certified"] is row["certified_broken"] is None
        assert row["certified_status"].startswith("does not apply: ")
        assert "calibrations is for this" in row["calibrated_status"]
        assert row["first_order"] > 0


def test_a_calibrated_bound_is_its_base_times_the_factor(tmp_path) -> None:
    model, batch = cases.plain().double(), cases.batch()
    method = ab.SplitConformal(attack=ab.attacks.AttributionAscent(steps=1), alpha=0.5)
    made = ab.calibrate(ab.Saliency(model), batch.x, ab.L2Ball(0.1), method=method)
    made.save(tmp_path / "c.json")
    claims = ("first_order", "calibrated")
    found = measure(
        cases.subject(model, claims=claims, calibration=str(tmp_path / "c.json")), batch
    )
    for row in found.rows.to_pylist():
        if row["epsilon"] == 0.1:
            assert row["calibrated"] == pytest.approx(made.factor * row["first_order"])
        else:
            assert "ball: expected" in row["calibrated_status"]


def test_without_attacks_there_is_nothing_to_break() -> None:
    found = measure(cases.subject(attacks={}, claims=("first_order",)), cases.batch(2))
    assert found.rows["first_order_broken"].null_count == found.rows.num_rows
    assert found.rows["attack"].null_count == found.rows.num_rows
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
            subject = cases.subject(
                claims=("first_order",),
                attacks={},
                balls=(BallSettings("l2", epsilons), BallSettings("linf", epsilons)),
                first_order=FirstOrderSettings(dense=dense),
            )
            measure(subject, cases.batch(1))
        return len(counted)

    for dense in (True, False):
        assert products((0.1,), dense) == products((0.05, 0.1, 0.2), dense) > 0


def test_a_batch_that_could_not_be_measured_at_all_has_its_rows() -> None:
    settings = cases.settings(attributions=BOTH)
    found = failed(settings, cases.batch(2), "the process died")
    assert found.rows.schema == schema(settings)
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
        if (row["attribution"], row["p"], row["epsilon"]) == (name, ball.p, ball.epsilon)
    ]


def column(rows, name) -> list:
    return [row[name] for row in rows]
