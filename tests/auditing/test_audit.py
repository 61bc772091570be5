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
from auditing import tiny
from rich.console import Console

import attribound as ab
from attribound.auditing import audit as module_under_test
from attribound.auditing.audit import Recipe, audit
from attribound.auditing.audited import ball_settings
from attribound.auditing.engines import LocalEngine, RayEngine, Work
from attribound.auditing.measure import Batch, Subject, measure
from attribound.auditing.protocols import complete
from attribound.auditing.rows import timings_in
from attribound.auditing.settings import AuditSettings, BallSettings, SaliencySettings
from attribound.auditing.sources import chosen
from attribound.auditing.store import Run
from attribound.data import load
from attribound.data.examples import InMemory

SAMPLES = 10
QUICK: dict[str, Any] = {
    "limit": SAMPLES,
    "seed": 3,
    "attributions": ["saliency"],
    "balls": [ab.L2Ball(0.1), ab.L2Ball(0.05)],
    "claims": ["first_order"],
    "attacks": {"ascent": {"kind": "ascent", "steps": 2}},
    "batch": 4,
}
FACTORY = "auditing.tiny:build"
ONE_THREAD = LocalEngine(threads=1)


def numbers(run: Run) -> pa.Table:
    """All columns but the timings."""
    table = run.table()
    return table.drop_columns(timings_in(table.column_names))


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
        attributions=(SaliencySettings(),),
        balls=(BallSettings("l2", (0.1, 0.05)),),
        claims=("first_order",),
        attacks=whole_attacks(whole),
        batch=4,
    )
    subject, (x, labels) = Subject.of(settings, tiny.build()), digits()
    own = chosen(len(load("digits")), SAMPLES, 3)
    tables = [
        measure(subject, Batch(number, own[part], x[part], labels[part])).rows
        for number, part in enumerate((slice(0, 4), slice(4, 8), slice(8, 10)))
    ]
    expected = pa.concat_tables(tables).sort_by(
        [(name, "ascending") for name in ("sample", "attribution", "norm", "epsilon")]
    )
    assert numbers(whole).equals(expected.drop_columns(timings_in(expected.column_names)))
    assert whole.finished
    assert whole.table()["error"].null_count == 2 * SAMPLES
    assert whole.maps().num_rows > 0


def whole_attacks(run: Run) -> dict[str, Any]:
    return dict(module_under_test.settings_of(FACTORY, "digits", QUICK).attacks or {})


def test_run_json_says_what_was_audited(whole: Run) -> None:
    manifest = whole.manifest
    assert manifest.settings["balls"][0]["epsilons"] == [0.1, 0.05]
    assert manifest.settings["first_order"] is not None, "complete settings are stored"
    assert manifest.data["classes"] == [str(digit) for digit in range(10)]
    assert manifest.data["shape"] == [1, 8, 8]
    assert manifest.model["fingerprint"].startswith("sha256:")
    assert manifest.versions["torch"] == torch.__version__
    assert manifest.settings["seed"] == 3


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
    settings = module_under_test.settings_of(FACTORY, "digits", QUICK)
    assert numbers(audit(settings, engine=ONE_THREAD)).equals(numbers(whole))
    fewer = audit(settings, digits(2), engine=ONE_THREAD, attributions="saliency")
    assert fewer.manifest.samples == 2


def test_the_table_as_pandas_and_polars(whole: Run) -> None:
    for name in ("pandas", "polars"):
        pytest.importorskip(name, exc_type=ImportError)
        frame = getattr(whole, f"to_{name}")()
        assert list(frame["attack"]) == whole.table()["attack"].to_pylist()


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

    def test_calibrations_are_told_apart_by_their_content(self, tmp_path: Path) -> None:
        settings = AuditSettings(model="m", data="d", calibration=str(tmp_path))
        found = []
        for content in ("a", "b"):
            (tmp_path / "one.json").write_text(content)
            found.append(module_under_test._inputs(settings))
        assert found[0] != found[1]
        assert list(found[0]) == ["one.json"]
        file = replace(settings, calibration=str(tmp_path / "one.json"))
        assert module_under_test._inputs(file) == found[1]
        assert module_under_test._inputs(replace(settings, calibration=None)) == {}


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
    errors = dict(zip(run.table()["sample"].to_pylist(), run.table()["error"], strict=True))
    assert [sample for sample, error in errors.items() if error.as_py()] == [5]
    assert "NaN" in errors[5].as_py() or "finite" in errors[5].as_py()
    good = run.table().filter(pa.compute.not_equal(run.table()["sample"], 5))
    attacks = [a for i, a in enumerate(whole.table()["attack"].to_pylist()) if i // 2 != 5]
    assert good["attack"].to_pylist() == pytest.approx(attacks, rel=1e-4)


def test_progress_tells_how_far_and_what_broke() -> None:
    text = StringIO()
    console = Console(file=text, width=200)
    run = audit(tiny.build(), digits(), engine=ONE_THREAD, progress=console, **QUICK)
    broken = sum(run.table()["first_order_broken"].to_pylist())
    assert "audit 10/10" in text.getvalue()
    assert f"broken: first-order {broken}/20" in text.getvalue()


class TestRefusals:
    def test_no_data(self) -> None:
        with pytest.raises(ab.InputError, match="say what to audit the model on"):
            audit(FACTORY)

    @pytest.mark.parametrize("wrong", [(torch.ones(2, 4),), torch.ones(2, 4), ([1], [2])])
    def test_no_pair_of_tensors(self, wrong: Any) -> None:
        with pytest.raises(ab.InputError, match=r"a pair \(x, labels\) of tensors"):
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
        with pytest.raises(ab.InputError, match=r"model.*give the same object again"):
            audit(settings)
        with pytest.raises(ab.InputError, match=r"data.*give the same object again"):
            audit(replace(settings, model=FACTORY))

    def test_an_unknown_setting(self) -> None:
        with pytest.raises(ab.InputError, match="steps"):
            audit(FACTORY, "digits", steps=3)

    def test_a_network_with_kinks_leaves_no_run(self, tmp_path: Path) -> None:
        kinked = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3), torch.nn.ReLU())
        with pytest.raises(ab.KinkError, match="--smooth 20"):
            audit(kinked, digits(), out=tmp_path / "run", **QUICK)
        assert not (tmp_path / "run").exists()

    def test_another_model_in_a_worker(self) -> None:
        settings = complete(module_under_test.settings_of(FACTORY, "digits", QUICK))
        with pytest.raises(ab.ModelError, match="another in a worker"):
            Recipe(settings, "sha256:other", str(Path.cwd()), None)()


def test_balls_of_one_norm_and_range_go_together() -> None:
    balls = [ab.L2Ball(0.1), ab.LinfBall(0.01, 0, 1), ab.L2Ball(0.2), ab.LinfBall(0.02)]
    assert ball_settings(balls) == (
        BallSettings("l2", (0.1, 0.2)),
        BallSettings("linf", (0.01,), 0, 1),
        BallSettings("linf", (0.02,)),
    )


CUBE: dict[str, Any] = {"norm": "linf", "epsilons": [0.05]}


class TestValueRange:
    """Cubes around images keep to [0, 1], unless somebody says otherwise."""

    def limits(self, data: Any = "digits", **more: Any) -> list[tuple[float | None, ...]]:
        options = {**QUICK, "limit": 2, "balls": [{"norm": "l2"}, CUBE], **more}
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
        bounds = [torch.tensor(run.table()["first_order"].to_pylist()) for run in (limited, free)]
        assert (bounds[0] < bounds[1]).all()

    def test_resuming_finds_the_same_settings(self, tmp_path) -> None:
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
    def test_who_asks_for_whole_balls_gets_them(self, more) -> None:
        assert self.limits(**more) == [(None, None)] * 2

    def test_tensors_of_a_program_may_have_any_value(self) -> None:
        assert self.limits(digits(2)) == [(None, None)] * 2

    def test_limits_of_a_ball_stay(self) -> None:
        cube = {**CUBE, "low": -1.0}
        assert self.limits(balls=[cube]) == [(-1, None)]
