"""A run that can be disturbed: a network that fails when told to, its commands, its processes.

Commands run in copies of this process (``fork``), so that most of their life is work and not the
loading of PyTorch; workers and Ray's processes start as they do for users. For ``make faults``.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import math
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from attribound.auditing import Run
from attribound.auditing.rows import KEY, untimed
from attribound.auditing.sources import chosen
from attribound.cli import main
from attribound.data import load

SAMPLES, BATCH = 60, 3
_AUDIT = (
    *("audit", "--data=digits", f"--limit={SAMPLES}", f"--set=batch={BATCH}", "--quiet"),
    *("--attribution=saliency", "--attack=ascent:steps=3", "--claim=first_order,adjusted"),
    *("--resume", "--threads=1"),
)
_TRAIN = (
    *("train", "--data=digits", "--method=at:steps=2", "--epochs=8", "--threads=1", "--quiet"),
    *("--resume", "--accelerator=cpu", "--set=batch=64", "--set=data.limit=520"),
    *("--set=data.held_out=40", "--set=network.hidden=[12]", "--set=checkpoint.steps=3"),
    *("--set=log_every=4", "--set=evaluation.explained=0", "--set=evaluation.attack_steps=2"),
)
_LONG = 600.0  # seconds: nothing here takes that long


class Faulty(nn.Module):
    """A small smooth network to which a fault happens at one sample, in workers."""

    def __init__(self, fault: str, mark: str, bad: bytes) -> None:
        super().__init__()
        layers = nn.Flatten(), nn.Linear(64, 12), nn.Softplus(), nn.Linear(12, 10)
        self.layers, self.bad = nn.Sequential(*layers), bad
        self.fault, self.mark = fault, mark

    def forward(self, x: Tensor) -> Tensor:
        """The logits, if nothing happens."""
        if self.fault and parent_process() is not None and self._met(x):
            self._fail()
        return self.layers(x)  # type: ignore[no-any-return]

    def _met(self, x: Tensor) -> bool:
        # By bytes: an operation on tensors would be a part of the network.
        try:
            return any(each.tobytes() == self.bad for each in x.detach().numpy())
        except (AttributeError, RuntimeError, TypeError):  # it is being traced
            return False

    def _fail(self) -> None:
        if self.mark:
            try:
                Path(self.mark).touch(exist_ok=False)
            except FileExistsError:
                return
        if self.fault == "segfault":
            ctypes.string_at(0)
        elif self.fault == "hang":
            time.sleep(_LONG)
        elif self.fault == "memory":
            _allocate_too_much()


def _allocate_too_much() -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + 2**26, limits[1]))
    try:
        torch.empty(2**28)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def network(fault: str = "", mark: str = "") -> nn.Module:
    """Random weights, always the same; ``fault`` once if there is a file to ``mark`` that."""
    if fault == "clock":
        _jump(random.Random(os.getpid()))
    bad = b""
    if fault:
        examples = load("digits", "test")
        bad = examples.read(chosen(len(examples), SAMPLES, 0))[SAMPLES // 2].numpy().tobytes()
    made, generator = Faulty(fault, mark, bad), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return made


def _jump(dice: random.Random) -> None:
    """From now on clocks jump: that of the day both ways, the steady one ahead, once by hours."""
    day, steady, start = time.time, time.monotonic, time.monotonic()
    late = start + dice.uniform(0.5, 2)
    time.time = lambda: day() + dice.uniform(-1e8, 1e8)
    time.monotonic = lambda: steady() + (7200 if steady() > late else 0)


@dataclass
class Trial:
    """One run and what happens to it; all its processes are children of this one.

    ``seconds`` are those of an undisturbed run with one worker, on this machine now.
    """

    folder: Path
    dice: random.Random
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.out, self.codes = self.folder / "out", list[int]()

    def audit(self, *more: str, fault: str = "", once: bool = True) -> list[str]:
        """The words of an audit; options that come later win."""
        given = {"fault": fault, "mark": str(self.folder / "mark") if once and fault else ""}
        model = f"--model=faulty:network?{json.dumps(given)}"
        return [*_AUDIT, model, "--workers=2", f"--out={self.out}", *more]

    def train(self) -> list[str]:
        return [*_TRAIN, f"--out={self.out}"]

    def start(self, words: list[str]) -> int:
        """The command line in a copy of this process."""
        process = os.fork()
        if process == 0:
            os.setsid()
            log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            _command(words)
        return process

    def end(self, process: int) -> int:
        """Wait for it: how it ended."""
        self.codes.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
        return self.codes[-1]

    def finish(self, words: list[str]) -> None:
        """Resume until it is finished; one time must do."""
        if (code := self.end(self.start(words))) not in (0, 3):
            raise RuntimeError(f"ended with {code}: {self.log()}")

    def log(self) -> str:
        """What it printed, the end of it."""
        return (self.folder / "log").read_text()[-3000:]

    def stored(self) -> tuple[str, ...]:
        """What is there: parts of an audit, or the last checkpoint."""
        found = [*self.out.glob("parts/*.parquet"), *self.out.glob("checkpoints/step-*")]
        return tuple(sorted(path.name for path in found))

    def moment(self, process: int, longest: float) -> bool:
        """Wait until something more was stored and a little longer; False if it has ended."""
        before, end = self.stored(), time.monotonic() + _LONG
        while self.stored() == before and alive(process) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(self.dice.uniform(0, longest))
        return alive(process)


def _command(words: list[str]) -> None:
    sys.argv, code = ["attribound", *words], 70
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def alive(process: int) -> bool:
    """Whether a process is there, and not only waiting to be buried."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def below(process: int) -> Iterator[tuple[int, int, str]]:
    """All processes below one: number, how deep, command."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    waiting = [(child, 1) for child in parents.get(process, [])]
    while waiting:
        child, depth = waiting.pop()
        try:
            command = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield child, depth, command
        waiting += [(each, depth + 1) for each in parents.get(child, [])]


def whose(process: int, role: str) -> list[int]:
    """The processes of an audit that play a role."""
    words, depth = {
        "worker": ("multiprocessing.forkserver", 2),
        "server": ("multiprocessing.forkserver", 1),
        "actor": ("ray::RayWorker", 0),
        "raylet": ("/raylet/raylet", 0),
    }[role]
    return [p for p, deep, said in below(process) if words in said and depth in (0, deep)]


def refuse_left(others: list[int]) -> None:
    """Refuse processes that outlive their parent."""
    end = time.monotonic() + 180  # Ray's own look after their parent now and then
    while left := [each for each in others if alive(each)]:
        if time.monotonic() > end:
            said = [Path(f"/proc/{each}/cmdline").read_text()[:80] for each in left]
            for each in left:
                os.kill(each, signal.SIGKILL)
            raise RuntimeError(f"left behind: {said}")
        time.sleep(0.1)


def rows_of(out: Path) -> dict[tuple[Any, ...], Any]:
    """Everything that must be the same: rows of an audit, or weights and log of a training."""
    if (out / "run.json").exists():
        run = Run.open(out)
        maps, rows = run.maps().to_pylist(), untimed(run.rows()).to_pylist()
        kept = {("map", *(row[name] for name in KEY)): row for row in maps}
        kept |= {tuple(row[name] for name in KEY): row for row in rows}
        if len(kept) < len(maps) + len(rows):
            raise RuntimeError(f"{len(maps) + len(rows) - len(kept)} rows are there twice")
        return kept
    weights = load_file(out / "model.safetensors")
    stored: dict[tuple[Any, ...], Any] = {(name,): each.tolist() for name, each in weights.items()}
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    timed = ("seconds", "cpu_seconds")
    records = [{k: v for k, v in line.items() if k not in timed} for line in lines]
    return stored | {("log", number): record for number, record in enumerate(records)}


def same_but_rounded(one: Any, other: Any) -> bool:
    """Whether two values differ in last digits of floats at most, and in what they cost."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        kept = one.keys() - {"evaluations", "products"}
        return all(same_but_rounded(one[key], other[key]) for key in kept)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return all(map(same_but_rounded, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5)
    return bool(one == other)


def warm_up() -> None:
    """Import what commands need, so that copies of this process have it; start no thread."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path[1:]])
    # Ray's workers are nice to everyone else: beside other work on this machine they get nothing.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - so it is called
    torch.set_num_threads(1)
    for name in ("auditing.audit", "auditing.measure", "training", "cli.app", "report"):
        importlib.import_module(f"attribound.{name}")
    for name in ("sklearn.datasets", "lightning_fabric"):
        importlib.import_module(name)


def in_a_copy(compute: Callable[[], object]) -> bool:
    """Whether it went well in a copy of this process, which stays as it is."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            compute()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(process, 0)[1] == 0


def undisturbed(folder: Path, kind: str, words: Callable[[Trial], list[str]]) -> None:
    """What the others are compared with."""
    trial = Trial(folder, random.Random(0))
    trial.out = folder / kind
    trial.finish(words(trial))
