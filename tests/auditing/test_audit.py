"""Audits: the same rows whoever computes them, and whatever happens on the way."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from rich.console import Console

import attribound as ab
from attribound.attacks import PGD, AttributionAscent
from attribound.auditing.audit import Recipe, audit, inputs_of
from attribound.auditing.batches import Batch
from attribound.auditing.engines import LocalEngine, RayEngine, Work
from attribound.auditing.given import settings_of
from attribound.auditing.measure import measure
from attribound.auditing.rows import KEY, untimed
from attribound.auditing.settings import AuditSettings, complete, read_settings
from attribound.auditing.sources import chosen
from attribound.auditing.store import Run
from attribound.auditing.subject import Subject
from attribound.data import load
from attribound.data.examples import InMemory
from auditing import cases, tiny

SAMPLES = 10
QUICK: dict[str, Any] = {
    "limit": SAMPLES,
    "seed": 3,
    "attributions": ["saliency"],
    "balls": [ab.L2Ball(0.1), ab.L2Ball(0.05)],
    "claims": ["first_order"],
    "attacks": {"ascent": AttributionAscent(steps=2)},
    "batch": 4,
}
FACTORY = "auditing.tiny:build"
ONE_THREAD = LocalEngine(threads=1)


def numbers(run: Run) -> pa.Table:
    """All rows, timings aside."""
    return untimed(run.rows())


def digits(count: int = SAMPLES) -> tuple[torch.Tensor, torch.Tensor]:
    examples = load("digits")
    own = chosen(len(examples), count, QUICK["seed"])
    return examples.read(own), examples.labels[own]


@pytest.fixture(scope="module")
def whole() -> Run:
    """The uninterrupted run in this process."""
    return audit(FACTORY, "digits", engine=ONE_THREAD, **QUICK)


class Interrupted:
    """An engine that is stopped after some batches."""

    def __init__(self, after: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.after, self.error = after, error

    def run(self, work: Work, numbers: Iterable[int]) -> Iterator[tuple[int, Any]]:
        for count, (number, tables) in enumerate(ONE_THREAD.run(work, numbers)):
            if count == self.after:
                raise self.error
            yield number, tables


def test_the_rows_are_those_of_measuring_directly(whole: Run) -> None:
    settings = AuditSettings(
        model=FACTORY,
        data="digits",
        limit=SAMPLES,
        seed=3,
        attributions=(ab.Saliency(),),
        balls=(ab.L2Ball(0.1), ab.L2Ball(0.05)),
        claims=(ab.FirstOrder(),),
        attacks={"ascent": AttributionAscent(steps=2)},
        batch=4,
    )
    subject, (x, labels) = Subject.of(settings, tiny.build()), digits()
    own = chosen(len(load("digits")), SAMPLES, 3)
    tables = [
        measure(subject, Batch(number, own[part], x[part], labels[part])).rows
        for number, part in enumerate((slice(0, 4), slice(4, 8), slice(8, 10)))
    ]
    listed = pa.concat_tables(tables).to_pylist()
    listed.sort(key=lambda row: tuple(row[name] for name in KEY))
    assert numbers(whole).equals(untimed(pa.Table.from_pylist(listed, tables[0].schema)))
    assert whole.finished
    assert whole.rows()["error"].null_count == 2 * SAMPLES
    assert whole.maps().num_rows > 0


def test_run_json_says_what_was_audited(whole: Run) -> None:
    manifest = whole.manifest
    assert [ball["epsilon"] for ball in manifest.settings["balls"]] == [0.1, 0.05]
    assert manifest.settings["value_range"] is not None, "complete settings are stored"
    assert manifest.settings["claims"] == [ab.to_spec(ab.FirstOrder(), whole=True)]
    assert read_settings(manifest.settings) == settings_of(FACTORY, "digits", QUICK)
    assert manifest.data["classes"] == [str(digit) for digit in range(10)]
    assert manifest.data["shape"] == [1, 8, 8]
    assert manifest.model["fingerprint"].startswith("sha256:")
    assert manifest.versions["torch"] == torch.__version__
    assert manifest.settings["seed"] == 3
    assert manifest.rows_per_sample == 2
    assert manifest.inputs == {}, "nothing of a user's own"


@pytest.mark.parametrize(
    "changes",
    [
        {"attributions": [ab.Saliency()]},
        {"attributions": ab.Saliency},
        {"attributions": {"kind": "saliency"}, "balls": "l2:epsilon=(0.1,0.05)"},
        {"balls": [{"kind": "l2", "epsilon": [0.1, 0.05]}]},
        {"claims": ab.FirstOrder(), "attacks": {"ascent": "ascent:steps=2"}},
        {"attacks": [AttributionAscent(steps=2)]},
        {"attacks": {"ascent": {"kind": "ascent", "steps": 2}}},
    ],
    ids=str,
)
def test_however_it_is_written_it_is_the_same_audit(whole: Run, changes: Any) -> None:
    settings = {**QUICK, "value_range": whole.manifest.settings["value_range"], **changes}
    run = audit(FACTORY, "digits", engine=ONE_THREAD, **settings)
    assert run.manifest.settings == whole.manifest.settings
    assert run.manifest.identity == whole.manifest.identity
    assert numbers(run).equals(numbers(whole))


def test_the_values_of_a_program() -> None:
    """Those of the library itself, bound to the model that is audited."""
    net, (x, labels) = tiny.build(), digits(3)
    run = ab.audit(
        net,
        (x, labels),
        attributions=[ab.Saliency(net)],
        balls=ab.L2Ball(0.1),
        attacks={"pgd": PGD()},
        mean_value=ab.MeanValue(shells=1, rounds=0, attack=None),
        engine=ONE_THREAD,
    )
    bounds = run.bounds().to_pylist()
    assert [each["claim"] for each in bounds[:3]] == ["first_order", "adjusted", "mean_value"]
    expected = ab.bounds(
        ab.Saliency(net.eval()),
        x,
        ab.L2Ball(0.1),
        claims=["first_order", ab.MeanValue(shells=1, rounds=0, attack=None)],
    )
    for claim, bound in expected.items():
        own = [each["euclidean"] for each in bounds if each["claim"] == claim]
        assert own == pytest.approx(bound.euclidean.tolist(), rel=1e-5)
    attacked = PGD()(ab.Saliency(net), x, ab.L2Ball(0.1))
    own = run.attacks()["deviation"].to_pylist()
    assert own == pytest.approx(attacked.deviation.tolist(), rel=1e-5)
    assert set(run.attacks()["attack"].to_pylist()) == {"pgd"}


def test_an_attribution_of_another_model_is_refused() -> None:
    with pytest.raises(ab.InputError, match=r"saliency: expected one of the audited model"):
        ab.audit(tiny.build(), digits(2), attributions=[ab.Saliency(tiny.build())])


def test_the_long_tables_agree_with_the_rows(whole: Run) -> None:
    rows = whole.rows().to_pylist()
    bounds, attacks = (table.to_pylist() for table in (whole.bounds(), whole.attacks()))
    assert len(rows) == len(bounds) == len(attacks) == whole.samples().num_rows == 2 * SAMPLES
    for row, bound, attack in zip(rows, bounds, attacks, strict=True):
        assert all(row[key] == bound[key] == attack[key] for key in KEY)
        assert {key: bound[key] for key in row["bounds"][0]} == row["bounds"][0]
        assert {key: attack[key] for key in row["attacks"][0]} == row["attacks"][0]


def test_frozen_features_stay_in_every_stored_perturbation() -> None:
    """A ball of a user's own is used, and not replaced by the one it derives from."""
    net, (x, labels) = tiny.build(), digits(3)
    ball = cases.Frozen(0.5, count=30)
    scale = torch.cat([torch.zeros(30), torch.ones(34)]).reshape(1, 8, 8)
    for own in (ball, ab.L2Ball(0.5, scale=scale)):
        options = {**QUICK, "balls": own, "claims": ["first_order", "mean_value"], "maps": "all"}
        run = audit(net, (x, labels), engine=ONE_THREAD, **{**options, "limit": None})
        assert run.rows()["error"].null_count == 3
        deltas = torch.tensor(run.maps()["delta"].to_pylist())
        assert (deltas[:, :30] == 0).all()
        assert (deltas[:, 30:] != 0).any(1).all()
        expected = ab.bound(ab.Saliency(net), x, own).euclidean
        found = [
            each["euclidean"] for each in run.bounds().to_pylist() if each["claim"] == "first_order"
        ]
        assert found == pytest.approx(expected.tolist(), rel=1e-4)
        plain = ab.bound(ab.Saliency(net), x, ab.L2Ball(0.5)).euclidean
        assert (expected < plain).all()
        assert set(run.rows()["ball"].to_pylist()) == {own.name}
        (stored,) = read_settings(run.manifest.settings).balls
        assert type(stored) is type(own)
        assert stored == own


def test_a_map_of_another_shape_than_the_input() -> None:
    net, (x, labels) = tiny.build(), digits(3)
    options = {**QUICK, "attributions": cases.Pooled(width=4), "maps": "all", "limit": None}
    run = audit(net, (x, labels), engine=ONE_THREAD, **options)
    assert run.rows()["error"].null_count == run.rows().num_rows
    assert set(run.samples()["scores"].to_pylist()) == {4}
    assert set(run.samples()["features"].to_pylist()) == {64}
    for kept in run.maps().to_pylist():
        assert (kept["shape"], kept["map_shape"]) == ([1, 8, 8], [4])
        assert (len(kept["input"]), len(kept["clean_map"])) == (64, 4)
        expected = cases.Pooled(net, width=4)(x[[kept["sample"]]])[0]
        assert kept["clean_map"] == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-6)
    # Two of four by default: the intersection is none, half or all of them.
    assert {row["topk"] for row in run.attacks().to_pylist()} <= {0.0, 0.5, 1.0}


def test_two_processes_give_the_same_rows(whole: Run) -> None:
    assert numbers(audit(FACTORY, "digits", engine=LocalEngine(2), **QUICK)).equals(numbers(whole))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_gives_the_same_rows(whole: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", exc_type=ImportError)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    run = audit(FACTORY, "digits", engine=RayEngine(workers=2), **QUICK)
    assert numbers(run).equals(numbers(whole))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_module_and_tensors_give_the_same_numbers(whole: Run, workers: int) -> None:
    network = tiny.build().double().train()
    engine = LocalEngine(workers, threads=1)
    settings = {name: value for name, value in QUICK.items() if name != "limit"}
    run = audit(network, digits(), engine=engine, **settings)
    without = ["sample"]  # other indices: the tensors are all there is
    assert numbers(run).drop_columns(without).equals(numbers(whole).drop_columns(without))
    assert run.manifest.settings["model"] == "given:Sequential"
    assert network.training, "a model at hand stays as it is"
    assert next(network.parameters()).dtype == torch.float64


def test_examples_at_hand_and_a_limit(whole: Run) -> None:
    run = audit(tiny.build(), load("digits"), engine=ONE_THREAD, **QUICK)
    assert numbers(run).equals(numbers(whole))
    assert run.manifest.data["fingerprint"] == whole.manifest.data["fingerprint"]


def test_settings_as_an_object(whole: Run) -> None:
    settings = settings_of(FACTORY, "digits", QUICK)
    assert numbers(audit(settings, engine=ONE_THREAD)).equals(numbers(whole))
    fewer = audit(settings, digits(2), engine=ONE_THREAD)
    assert fewer.manifest.samples == 2


def test_settings_that_leave_something_open() -> None:
    settings = AuditSettings(FACTORY, "digits", limit=2, attributions=(ab.Saliency(),))
    run = audit(settings, engine=ONE_THREAD)
    assert run.manifest.settings == complete(settings).document()
    claims = run.bounds()["claim"].to_pylist()
    assert set(claims) == {"first_order", "adjusted", "mean_value"}
    assert run.attacks().num_rows == 2


def test_the_tables_as_pandas_and_polars(whole: Run) -> None:
    for name in ("pandas", "polars"):
        pytest.importorskip(name, exc_type=ImportError)
        convert = getattr(whole, f"to_{name}")
        expected = whole.samples()["strongest_deviation"].to_pylist()
        assert list(convert()["strongest_deviation"]) == expected
        assert list(convert("bounds")["euclidean"]) == whole.bounds()["euclidean"].to_pylist()
        assert list(convert("attacks")["attack"]) == ["ascent"] * 2 * SAMPLES


class TestResume:
    @pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
    def test_what_was_stopped_goes_on(
        self, error: type[BaseException], whole: Run, tmp_path: Path
    ) -> None:
        with pytest.raises(error):
            audit(FACTORY, "digits", out=tmp_path, engine=Interrupted(2, error), **QUICK)
        assert Run.open(tmp_path).done() == [0, 1]
        before = (tmp_path / "parts" / "00000.parquet").stat()
        run = audit(FACTORY, "digits", out=tmp_path, resume=True, engine=ONE_THREAD, **QUICK)
        assert numbers(run).equals(numbers(whole))
        assert (tmp_path / "parts" / "00000.parquet").stat() == before, "not computed again"

    def test_another_model_is_refused(self, tmp_path: Path) -> None:
        x = digits()
        with pytest.raises(KeyboardInterrupt):
            audit(tiny.build(), x, out=tmp_path, engine=Interrupted(1), **QUICK)
        with pytest.raises(ab.InputError, match=r'model was "sha256:.*", is "sha256:'):
            audit(tiny.build(seed=1), x, out=tmp_path, resume=True, **QUICK)

    def test_other_data_is_refused(self, tmp_path: Path) -> None:
        x, labels = digits()
        with pytest.raises(KeyboardInterrupt):
            audit(tiny.build(), (x, labels), out=tmp_path, engine=Interrupted(1), **QUICK)
        changed = x.clone()
        changed[9, 0, 0, 0] += 0.01
        for other in ((changed, labels), (x, labels.flip(0))):
            with pytest.raises(ab.InputError, match=r'got data was "sha256:.*", is "sha256:'):
                audit(tiny.build(), other, out=tmp_path, resume=True, **QUICK)

    def test_other_settings_are_refused(self, tmp_path: Path) -> None:
        x = digits()
        with pytest.raises(KeyboardInterrupt):
            audit(tiny.build(), x, out=tmp_path, engine=Interrupted(1), **QUICK)
        with pytest.raises(ab.InputError, match=r"settings.seed was 3, is 4"):
            audit(tiny.build(), x, out=tmp_path, resume=True, **{**QUICK, "seed": 4, "limit": 10})

    def test_a_run_is_not_begun_twice(self, tmp_path: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            audit(FACTORY, "digits", out=tmp_path, engine=Interrupted(1), **QUICK)
        with pytest.raises(ab.InputError, match="a run in it; resume it"):
            audit(FACTORY, "digits", out=tmp_path, **QUICK)

    def test_the_place_of_what_differs_is_named(self, tmp_path: Path) -> None:
        x = digits()
        with pytest.raises(KeyboardInterrupt):
            audit(tiny.build(), x, out=tmp_path, engine=Interrupted(1), **QUICK)
        others = {
            "balls": [ab.L2Ball(0.1), ab.L2Ball(0.07)],
            "attacks": {"ascent": AttributionAscent(steps=3)},
            "attributions": [ab.InputXGradient()],
        }
        named = {
            "balls": r"settings.balls.1.epsilon was 0.05, is 0.07; resume",
            "attacks": r"settings.attacks.ascent.steps was 2, is 3; resume",
            "attributions": r'attributions.0.kind was "saliency", is "input_x_gradient"; resume',
        }
        for name, other in others.items():
            with pytest.raises(ab.InputError, match=named[name]):
                audit(tiny.build(), x, out=tmp_path, resume=True, **{**QUICK, name: other})

    def test_calibrations_are_told_apart_by_their_content(self, tmp_path: Path) -> None:
        settings = AuditSettings("m", "d", claims=(ab.Calibrated(str(tmp_path)),))
        found = []
        model, x = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh()), torch.rand(4, 3)
        for epsilon in (0.1, 0.2):
            method = ab.SplitConformal(attack=ab.attacks.PGD(steps=1), alpha=0.5)
            made = ab.calibrate(ab.Saliency(model), x, ab.L2Ball(epsilon), method=method)
            made.save(tmp_path / "one.json")
            found.append(inputs_of(settings))
        assert found[0] != found[1]
        assert list(found[0]) == ["one.json"]
        file = replace(settings, claims=(ab.Calibrated(str(tmp_path / "one.json")),))
        assert inputs_of(file) == found[1]
        assert inputs_of(replace(settings, claims=(ab.FirstOrder(),))) == {}

    def test_a_calibration_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        nothing = ab.Calibrated(str(tmp_path / "nothing.json"))
        with pytest.raises(
            ab.InputError, match=r"nothing.json: expected files .* got nothing of that name"
        ):
            audit(FACTORY, "digits", out=tmp_path / "run", calibrated=nothing, **QUICK)
        assert not (tmp_path / "run").exists()


def endless_audit(folder: str, started: str) -> None:
    """In a process of its own, to be killed."""
    torch.set_num_threads(1)
    Path(started).touch()
    audit(FACTORY, "digits", out=folder, resume=True, engine=ONE_THREAD, **{**QUICK, "batch": 1})


def test_killed_at_random_moments_it_ends_with_the_same_rows(tmp_path: Path) -> None:
    """SIGKILL again and again, as soon as something more was stored or a little later."""
    expected = audit(FACTORY, "digits", engine=ONE_THREAD, **{**QUICK, "batch": 1})
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["attribound.auditing.audit"])
    dice, folder, kills = random.Random(5), tmp_path / "run", 0
    for attempt in range(200):
        started = tmp_path / f"started-{attempt}"
        process = context.Process(target=endless_audit, args=(str(folder), str(started)))
        process.start()
        while process.is_alive() and not started.exists():
            time.sleep(0.01)
        before = len([*folder.glob("parts/*.parquet")])
        # The first may come to nothing; later ones must, or the loop would never end.
        patience = dice.uniform(0, 0.6) if attempt < 3 else 60.0
        end = time.monotonic() + patience
        while process.is_alive() and time.monotonic() < end:
            if attempt >= 3 and len([*folder.glob("parts/*.parquet")]) > before + 1:
                time.sleep(dice.uniform(0, 0.05))
                break
            time.sleep(0.001)
        process.kill()
        process.join()
        kills += process.exitcode == -9
        process.close()
        if (folder / "run.json").exists() and Run.open(folder).finished:
            break
    assert kills >= 4
    assert numbers(Run.open(folder)).equals(numbers(expected))
    assert Run.open(folder).maps().equals(expected.maps())


def test_a_sample_with_nan_is_recorded_and_the_others_are_as_without(whole: Run) -> None:
    x, labels = digits()
    run = audit(tiny.NaNFor(x[5]), (x, labels), engine=ONE_THREAD, **QUICK)
    assert run.finished
    rows = run.rows().to_pylist()
    errors = {row["sample"]: row["error"] for row in rows}
    assert [sample for sample, error in errors.items() if error] == [5]
    assert "NaN" in errors[5] or "finite" in errors[5]
    good = [row["strongest"]["deviation"] for row in rows if row["sample"] != 5]
    expected = [row["strongest"]["deviation"] for row in whole.rows().to_pylist()]
    assert good == pytest.approx([a for i, a in enumerate(expected) if i // 2 != 5], rel=1e-4)


def test_progress_tells_how_far_and_what_was_exceeded() -> None:
    text = StringIO()
    console = Console(file=text, width=200)
    run = audit(tiny.build(), digits(), engine=ONE_THREAD, progress=console, **QUICK)
    exceeded = sum(run.bounds()["exceeded"].to_pylist())
    assert "audit 10/10" in text.getvalue()
    assert f"exceeded: first-order {exceeded}/20" in text.getvalue()


class TestRefusals:
    def test_no_data(self) -> None:
        with pytest.raises(ab.InputError, match="say what to audit the model on"):
            audit(FACTORY)

    @pytest.mark.parametrize("wrong", [(torch.ones(2, 4),), ([1], [2])])
    def test_no_pair_of_tensors(self, wrong: Any) -> None:
        with pytest.raises(
            ab.InputError, match=r"x and labels as a pair or TensorDataset, got a tuple of \d"
        ):
            audit(tiny.build(), wrong)

    def test_a_split_of_an_object(self) -> None:
        with pytest.raises(ab.InputError, match="split: expected none"):
            audit(tiny.build(), digits(), split="test")

    def test_no_examples(self) -> None:
        empty = InMemory("empty", torch.ones(0, 64), torch.ones(0).long(), [])
        with pytest.raises(ab.InputError, match="at least one example, got none in 'given:empty'"):
            audit(tiny.build(), empty)

    def test_objects_of_a_program_that_is_gone(self) -> None:
        settings = AuditSettings(model="given:Net", data="given:tensors")
        with pytest.raises(ab.InputError, match=r"model: .*give the same object again"):
            audit(replace(settings, data="digits"))
        with pytest.raises(ab.InputError, match=r"data: .*give the same object again"):
            audit(replace(settings, model=FACTORY))

    def test_an_unknown_setting(self) -> None:
        with pytest.raises(ab.InputError, match="steps"):
            audit(FACTORY, "digits", steps=3)

    def test_a_network_with_kinks_leaves_no_run(self, tmp_path: Path) -> None:
        kinked = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3), torch.nn.ReLU())
        with pytest.raises(ab.KinkError, match="--smooth auto"):
            audit(kinked, digits(), out=tmp_path / "run", **QUICK)
        assert not (tmp_path / "run").exists()

    def test_another_model_in_a_worker(self) -> None:
        settings = settings_of(FACTORY, "digits", QUICK)
        with pytest.raises(ab.ModelError, match="another in a worker"):
            Recipe(settings, "sha256:other", {}, str(Path.cwd()), None)()

    def test_other_code_in_a_worker(self, whole: Run) -> None:
        settings = settings_of(FACTORY, "digits", QUICK)
        same = whole.manifest.model["fingerprint"]
        Recipe(settings, same, {}, str(Path.cwd()), None)()
        with pytest.raises(ab.InputError, match=r"files and code .*began with, got others in a w"):
            Recipe(settings, same, {"my.balls:Frozen": "sha256:1"}, str(Path.cwd()), None)()


CUBE: dict[str, Any] = {"kind": "linf", "epsilon": 0.05}


class TestValueRange:
    """Cubes around images keep to [0, 1], unless somebody says otherwise."""

    def limits(self, data: Any = "digits", **more: Any) -> list[tuple[float | None, ...]]:
        options = {**QUICK, "limit": 2, "balls": ["l2:epsilon=0.1", CUBE], **more}
        balls = audit(FACTORY, data, engine=ONE_THREAD, **options).manifest.settings["balls"]
        return [(ball["low"], ball["high"]) for ball in balls]

    def test_it_is_that_of_images_in_cubes_and_is_stored(self) -> None:
        assert self.limits() == [(None, None), (0, 1)]

    def test_attacks_keep_to_it_and_bounds_use_it(self) -> None:
        options = {**QUICK, "limit": 2, "balls": [CUBE]}
        limited = audit(FACTORY, "digits", engine=ONE_THREAD, **options)
        free = audit(FACTORY, "digits", engine=ONE_THREAD, **options, value_range="none")
        perturbed = [
            torch.tensor(run.maps()["input"].to_pylist())
            + torch.tensor(run.maps()["delta"].to_pylist())
            for run in (limited, free)
        ]
        assert 0 <= perturbed[0].min() <= perturbed[0].max() <= 1
        assert perturbed[1].min() < 0, "digits have black pixels, which attacks would lower"
        bounds = [torch.tensor(run.bounds()["euclidean"].to_pylist()) for run in (limited, free)]
        assert (bounds[0] < bounds[1]).all()

    def test_resuming_finds_the_same_settings(self, tmp_path: Path) -> None:
        options = {**QUICK, "limit": 2, "balls": [CUBE]}
        for resume in (False, True):
            run = audit(FACTORY, "digits", out=tmp_path / "run", resume=resume, **options)
        assert run.finished

    @pytest.mark.parametrize(
        "more",
        [
            {"value_range": "none"},
            {"protocol": "paper", "attacks": {}},
            {"balls": [ab.L2Ball(0.1), ab.LinfBall(0.05)]},
        ],
        ids=["none", "paper", "balls of a program"],
    )
    def test_who_asks_for_whole_balls_gets_them(self, more: Any) -> None:
        assert self.limits(**more) == [(None, None)] * 2

    def test_tensors_of_a_program_may_have_any_value(self) -> None:
        assert self.limits(digits(2)) == [(None, None)] * 2

    def test_limits_of_a_ball_stay(self) -> None:
        cube = {**CUBE, "low": -1.0}
        assert self.limits(balls=[cube]) == [(-1, None)]
