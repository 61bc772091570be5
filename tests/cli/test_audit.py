"""``attribound audit`` and ``attribound runs``: options, output and exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from attribound.auditing.engines import LocalEngine, RayEngine
from attribound.auditing.store import Run
from attribound.basics.errors import InputError
from attribound.cli import audit as command
from attribound.cli import texts
from attribound.cli.app import app

TESTS = Path(__file__).parents[1]
SMALL = [
    "audit",
    "--model=auditing.tiny:build",
    "--data=digits",
    "--limit=6",
    "--attribution=saliency",
    "--ball=l2",
    "--eps=0.05,0.1",
    "--claim=first-order",
    '--set=attacks={"ascent": {"kind": "ascent", "steps": 2}}',
    "--set=batch=2",
]
HERE = ["--workers=1", "--threads=1"]
#: Becomes the command after it, which Ctrl-C ends even where a shell in the background ignores it.
INTERRUPTIBLE = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def audited(out: Path, *more: str) -> Result:
    return run(*SMALL, *HERE, f"--out={out}", *more)


def deviations(found: Run) -> list[float]:
    return found.attacks()["deviation"].to_pylist()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "first"
    assert audited(out, "--quiet").exit_code == 0
    return out


class TestOutput:
    def test_a_table_and_where_the_run_is(self, tmp_path: Path) -> None:
        result = audited(tmp_path / "a run")
        assert result.exit_code == 0
        assert "saliency, l2" in result.stdout
        assert f"attribound report '{tmp_path}/a run'" in result.stdout
        assert "audit 6/6" in result.stderr
        assert "exceeded: first-order" in result.stderr

    def test_certificates_of_a_network_with_kinks_need_no_copy(self, tmp_path: Path) -> None:
        """And the settings that the run has are those that it is repeated with."""
        own = ["--model=auditing.tiny:kinked", "--claim=certified", "--attack=pgd"]
        first = ["audit", "--data=digits", "--limit=2", "--ball=l2", "--eps=0.05", *own, *HERE]
        out = tmp_path / "run"
        result = run(*first, "--attribution=saliency", f"--out={out}")
        assert result.exit_code == 0, result.output
        assert "certified" in result.stdout
        found = Run.open(out)
        assert {*found.bounds()["subject"].to_pylist()} == {"yours"}
        assert {*found.attacks()["attack"].to_pylist()} == {
            "pgd",
            "jumps",
            "kinks",
            "noise",
            "through",
        }
        refused = run(*first, "--attack=ascent", f"--out={tmp_path / 'no'}")
        assert refused.exit_code == 2
        assert "--smooth auto" in refused.stderr

    def test_lists_of_reasons_are_answered_first(self, tmp_path: Path) -> None:
        done = audited(tmp_path / "run", "--keep=3", "--limit=2")
        assert done.exit_code == 0
        said = " ".join(done.stdout.split())
        assert said.startswith("Not proved: in the weakest of 2 settings, for ")
        assert "of 2 samples the three reasons can't change within l2" in said
        assert Run.open(tmp_path / "run").reasons().num_rows == 2 * 2 * 3
        told = audited(tmp_path / "told", "--keep=3", "--limit=2", "--json")
        (first, *_) = json.loads(told.stdout)["reasons"]
        assert (first["k"], first["n"], first["claim"]) == (3, 2, "first-order")
        assert run("audit", "--keep=0").exit_code == 2

    def test_quiet_prints_nothing(self, tmp_path: Path) -> None:
        result = audited(tmp_path / "run", "--quiet")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")

    def test_json_is_one_document_and_nothing_else(self, tmp_path: Path) -> None:
        result = audited(tmp_path / "run", "--json")
        found = json.loads(result.stdout)
        assert result.stderr == ""
        assert (found["finished"], found["samples"], found["errors"]) == (True, 6, 0)
        assert found["answer"].startswith(("Proved", "Not proved"))
        assert [each["epsilon"] for each in found["settings"]] == [0.05, 0.1]
        exceeded = sum(Run.open(tmp_path / "run").bounds()["exceeded"].to_pylist())
        assert found["exceeded"]["first_order"]["count"] == exceeded
        assert found["exceeded"]["first_order"]["n"] == 12

    def test_help_documents_the_exit_codes(self) -> None:
        text = re.sub(r"[\s│]+", " ", run("audit", "--help").stdout)
        for code in ("0 finished", "1 finished", "2 wrong", "3 finished", "4 the run", "130 Ctrl"):
            assert code in text, text

    def test_a_folder_of_its_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert run(*SMALL, *HERE, "--quiet").exit_code == 0
        (only,) = (tmp_path / "runs").iterdir()
        assert Run.open(only).finished


class TestSettings:
    def test_from_a_file_with_options_that_override(self, tmp_path: Path) -> None:
        config = tmp_path / "audit.toml"
        config.write_text(
            'model = "auditing.tiny:build"\ndata = "digits"\nlimit = 3\n'
            'claims = ["first_order"]\nattributions = ["saliency", "ig:steps=2"]\n'
            "batch = 3\nattacks = {}\n"
        )
        result = run(
            "audit",
            f"--config={config}",
            "--trust",
            "--limit=2",
            f"--out={tmp_path / 'run'}",
            "--json",
            *HERE,
        )
        assert result.exit_code == 0, result.stderr
        settings = Run.open(tmp_path / "run").manifest.settings
        assert settings["limit"] == 2
        assert [each["kind"] for each in settings["attributions"]] == ["saliency", "ig"]

    def test_from_another_run(self, finished: Path, tmp_path: Path) -> None:
        result = run(
            "audit",
            f"--config={finished / 'run.json'}",
            "--model=auditing.tiny:build",
            f"--out={tmp_path / 'run'}",
            "--quiet",
            *HERE,
        )
        assert result.exit_code == 0, result.stderr
        again, first = Run.open(tmp_path / "run"), Run.open(finished)
        assert again.manifest.identity == first.manifest.identity
        assert deviations(again) == deviations(first)

    def test_balls(self) -> None:
        assert texts.balls(None, None) is None
        assert texts.balls(["l2", "linf:low=0,high=1"], ["0.1"]) == [
            {"kind": "l2", "epsilon": [0.1]},
            {"kind": "linf", "low": 0, "high": 1, "epsilon": [0.1]},
        ]
        both = texts.balls(["l2", "linf"], ["0.1,0.2", "0.01"])
        assert [each["epsilon"] for each in both or ()] == [[0.1, 0.2], [0.01]]
        own = texts.balls(["l2:epsilon=0.3", "linf"], ["0.1"])
        assert [each["epsilon"] for each in own or ()] == [0.3, [0.1]]

    def test_radii_alone_are_for_the_balls_of_a_file(self) -> None:
        before = [{"kind": "linf", "epsilon": 1}, "linf:epsilon=2", "lp:p=3,epsilon=1"]
        assert texts.balls(None, ["0.2"], before) == [
            {"kind": "linf", "epsilon": [0.2]},
            {"kind": "lp", "p": 3, "epsilon": [0.2]},
        ]
        assert texts.balls(None, ["0.2"]) == [{"kind": "l2", "epsilon": [0.2]}]

    def test_claims_and_attacks_with_settings(self, tmp_path: Path) -> None:
        more = "--claim=mean_value:shells=1,rounds=0"
        few = [each for each in SMALL if "attacks" not in each]
        result = run(*few, *HERE, "--limit=2", f"--out={tmp_path / 'run'}", "--quiet", more)
        assert result.exit_code == 0, result.stderr
        settings = Run.open(tmp_path / "run").manifest.settings
        assert [each["kind"] for each in settings["claims"]] == ["first_order", "mean_value"]
        assert settings["claims"][1]["shells"] == 1
        attacked = run(
            *(*few, *HERE, "--limit=2", "--quiet", f"--out={tmp_path / 'other'}"),
            *("--attack=pgd:steps=2", "--attack=random", "--attack=pgd:steps=4"),
        )
        assert attacked.exit_code == 0, attacked.stderr
        attacks = Run.open(tmp_path / "other").manifest.settings["attacks"]
        assert {name: each.get("steps") for name, each in attacks.items()} == {
            "pgd": 2,
            "pgd2": 4,
            "random": None,
        }

    def test_settings_by_their_paths(self, tmp_path: Path) -> None:
        paths = (
            "--set=attributions.0.label=slope",
            "--set=mean_value.shells=1",
            "--set=attacks.ascent.steps=1",
        )
        assert audited(tmp_path / "run", "--limit=2", "--quiet", *paths).exit_code == 0
        settings = Run.open(tmp_path / "run").manifest.settings
        assert settings["attributions"][0]["label"] == "slope"
        assert settings["attacks"]["ascent"]["steps"] == 1
        assert [each.get("shells") for each in settings["claims"]] == [None, 1]

    def test_engines(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(command, "_cores", lambda: 8)
        assert command._engine("local", None, None, None, 0) == LocalEngine(8)
        assert command._engine("local", None, 3, None, 0) == LocalEngine(2, 3)
        assert command._engine("local", None, 9, None, 0) == LocalEngine(1, 9)
        assert command._engine("local", 3, None, None, 0) == LocalEngine(3)
        assert command._engine("ray", None, 2, "auto", 0.5) == RayEngine("auto", None, 2, 0.5)

    def test_as_many_cores_as_this_process_may_use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if sys.platform == "linux":
            assert command._cores() == len(os.sched_getaffinity(0))
        monkeypatch.setattr(command.sys, "platform", "elsewhere")
        assert command._cores() == os.cpu_count()

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (["--eps=0.1", "--eps=0.2", "--ball=l2"], "--eps: expected once for all balls, or 1"),
            (["--eps=a,b"], "--eps: expected numbers with commas"),
            (["--ball=cube"], "balls.0: expected one of l2, linf, lp"),
            (["--ball=l2:radius=3"], "radius"),
            (["--attack=punch"], "Attack: expected one of"),
            (["--attribution=magic"], "attributions.0: expected one of"),
            (["--set=batch"], "--set batch: expected PATH=VALUE"),
            (["--set=colour=red"], "colour"),
            (["--claim=firm"], "claim: expected one of first_order"),
            (["--fail-on=firm"], "claim: expected one of first_order"),
            (["--engine=steam"], "--engine: expected local or ray"),
            (["--address=auto"], "--address and --gpus: expected --engine ray"),
            (["--config=none.toml"], "none.toml"),
            ([], "what to audit: expected --model and --data"),
        ],
    )
    def test_wrong_use_is_one_line_and_exit_code_2(
        self, options: list[str], named: str, tmp_path: Path
    ) -> None:
        enough = ["--model=auditing.tiny:build", "--data=digits"] if options else []
        result = run("audit", *enough, f"--out={tmp_path / 'run'}", *options)
        assert result.exit_code == 2
        assert named in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "run").exists()


class TestNetworksWithKinks:
    def test_refused_with_what_to_do_and_audited_with_a_copy(self, tmp_path: Path) -> None:
        kinked = [each if "tiny" not in each else "--model=auditing.tiny:kinked" for each in SMALL]
        refused = run(*kinked, *HERE, f"--out={tmp_path / 'no'}")
        assert refused.exit_code == 2
        assert "--smooth auto" in refused.stderr
        result = run(*kinked, *HERE, f"--out={tmp_path / 'run'}", "--smooth=auto")
        assert result.exit_code == 0, result.stderr
        found = Run.open(tmp_path / "run")
        assert isinstance(found.manifest.settings["smooth"], float)
        assert {each["subject"] for each in found.attacks().to_pylist()} == {"yours", "copy"}
        number = run(*kinked, *HERE, f"--out={tmp_path / 'n'}", "--smooth=30", "--quiet")
        assert number.exit_code == 0, number.stderr
        assert Run.open(tmp_path / "n").manifest.settings["smooth"] == 30
        wrong = run(*kinked, *HERE, f"--out={tmp_path / 'w'}", "--smooth=much")
        assert wrong.exit_code == 2
        assert "smooth" in wrong.stderr


class TestExitCodes:
    def test_an_exceeded_claim_counts_only_if_asked_for(self, finished: Path) -> None:
        exceeded = sum(Run.open(finished).bounds()["exceeded"].to_pylist())
        assert exceeded, "first-order bounds of this network are exceeded: else this tests nothing"
        for more, code in (([], 0), (["--fail-on=first-order"], 1), (["--fail-on=certified"], 0)):
            result = run(
                "audit", f"--out={finished}", "--resume", "--trust", "--quiet", *HERE, *more
            )
            assert result.exit_code == code, more

    def test_failed_samples(self, tmp_path: Path) -> None:
        result = audited(tmp_path / "run", "--model=auditing.tiny:nan_for_some", "--json")
        assert result.exit_code == 3
        found = json.loads(result.stdout)
        assert 0 < found["errors"] < 12

    def test_a_full_disk(self, small_disk: Path) -> None:
        ballast = small_disk / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        os.truncate(ballast, ballast.stat().st_size - 100_000)
        out = small_disk / "run"
        result = audited(out, "--limit=24", "--set=batch=1", "--set=maps=none", "--quiet")
        assert result.exit_code == 4
        assert "No space left on device" in result.stderr
        assert f"attribound audit --out {out} --resume" in result.stderr
        done = Run.open(out).done()
        assert 0 < len(done) < 24
        ballast.unlink()
        result = run("audit", f"--out={out}", "--resume", "--trust", "--quiet", *HERE)
        assert result.exit_code == 0, result.stderr
        assert Run.open(out).finished

    def test_a_crash_has_a_code_of_its_own_and_says_how_to_go_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "run"

        def broken(*_: object) -> None:
            raise ZeroDivisionError("a mistake of ours")

        monkeypatch.setattr(Run, "write", broken)
        result = audited(out, "--quiet")
        assert result.exit_code == 70
        assert "Traceback" in result.stderr
        assert result.stderr.splitlines()[-1] == (
            "attribound: crashed with ZeroDivisionError; "
            f"go on with: attribound audit --out {out} --resume --trust"
        )
        monkeypatch.undo()
        monkeypatch.setattr(command.auditing.Run, "open", broken)
        elsewhere = run("report", str(out))
        assert elsewhere.exit_code == 70
        assert elsewhere.stderr.splitlines()[-1].endswith("ZeroDivisionError; please report it")

    def test_patience_is_the_engines(self, tmp_path: Path) -> None:
        wrong = audited(tmp_path / "run", "--patience=0")
        assert wrong.exit_code == 2
        assert "patience: expected seconds above 0" in wrong.stderr

    def test_ctrl_c_says_how_to_go_on(self, tmp_path: Path) -> None:
        """A real one, to a whole group of processes."""
        out = tmp_path / "run"
        endless = [each for each in SMALL if "limit" not in each] + ["--limit=300"]
        paths = [str(TESTS), os.environ.get("PYTHONPATH")]
        words = ["-m", "attribound.cli", *endless, "--workers=2", f"--out={out}"]
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        while process.poll() is None and not [*out.glob("parts/0*")]:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130, errors
        assert f"interrupted; go on with: attribound audit --out {out} --resume" in errors
        assert "Traceback" not in errors
        stopped = Run.open(out)
        assert 0 < len(stopped.done()) < 150
        state = json.loads(run("runs", str(tmp_path), "--json").stdout)
        assert state[0]["state"] == f"go on with: attribound audit --out {out} --resume --trust"


class TestResume:
    def test_the_folder_is_enough_and_nothing_is_computed_twice(
        self, finished: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "run"
        assert audited(out, "--quiet").exit_code == 0
        (out / "parts" / "00001.parquet").unlink()
        kept = (out / "parts" / "00000.parquet").stat()
        result = run("audit", f"--out={out}", "--resume", "--trust", "--quiet", *HERE)
        assert result.exit_code == 0, result.stderr
        assert deviations(Run.open(out)) == deviations(Run.open(finished))
        assert (out / "parts" / "00000.parquet").stat() == kept

    def test_other_settings_are_refused(self, finished: Path) -> None:
        result = audited(finished, "--resume", "--seed=9")
        assert result.exit_code == 2
        assert "settings.seed was 0, is 9" in result.stderr

    def test_without_resume_a_run_is_left_alone(self, finished: Path) -> None:
        result = audited(finished)
        assert result.exit_code == 2
        assert "resume it (--resume" in result.stderr


class TestRuns:
    def test_finished_and_unfinished(self, finished: Path, tmp_path: Path) -> None:
        folder = finished.parent
        result = run("runs", str(folder))
        assert result.exit_code == 0
        assert "6/6" in result.stdout
        assert "auditing.tiny:build" in result.stdout
        assert "l2 0.05, 0.1" in result.stdout
        assert "finished" in result.stdout
        (found,) = json.loads(run("runs", str(finished), "--json").stdout)
        assert found["run"] == str(finished)

    def test_a_damaged_run_is_listed(self, tmp_path: Path) -> None:
        (tmp_path / "bad").mkdir()
        (tmp_path / "bad" / "run.json").write_text("{")
        (found,) = json.loads(run("runs", str(tmp_path), "--json").stdout)
        assert found["state"].startswith("damaged: ")
        assert "no JSON" in found["state"]

    @pytest.mark.parametrize(
        "damage",
        [
            lambda run: (run / "run.json").write_bytes(b"\xff" * 9),
            lambda run: (run / "run.json").write_text("[" * 100_000),
            lambda run: [file.write_bytes(b"PAR1") for file in run.glob("parts/*")],
            lambda run: (run / "parts" / "foreign.txt").touch(),
            lambda run: shutil.rmtree(run / "parts"),
        ],
    )
    def test_a_damaged_run_hides_no_other(
        self, damage: Callable[[Path], object], finished: Path, tmp_path: Path
    ) -> None:
        for name in ("a", "b", "c"):
            shutil.copytree(finished, tmp_path / name)
        damage(tmp_path / "b")
        result = run("runs", str(tmp_path), "--json")
        assert result.exit_code == 0
        states = [each["state"].split(":")[0] for each in json.loads(result.stdout)]
        assert states[0] == states[2] == "finished"
        assert states[1] != "finished"
        assert run("runs", str(tmp_path)).exit_code == 0

    def test_none(self, tmp_path: Path) -> None:
        assert run("runs", str(tmp_path)).stdout == f"no runs in {tmp_path}\n"
        result = run("runs", str(tmp_path / "none"))
        assert result.exit_code == 2
        assert "name the folder that the runs are in" in result.stderr


def test_units_of_columns_are_numbers() -> None:
    assert texts.units(["age=0,income=500", "a=b=2"]) == {"age": 0, "income": 500, "a=b": 2}
    assert texts.units(None) is None
    with pytest.raises(InputError, match="--scale: expected COLUMN=NUMBER with commas, got 'x'"):
        texts.units(["age=0,x"])
