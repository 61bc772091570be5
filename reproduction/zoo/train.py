"""Train the zoo: every recipe whose model is not there yet, then measure it and make its card.

    .venv/bin/python -m reproduction.zoo.train --jobs 2
    .venv/bin/python -m reproduction.zoo.train fashion-mnist/at mnist/at --jobs 1

A recipe is a config of ``attribound train``: the table ``[<name>]`` of ``recipes/<data>.toml``
beside this file. One that starts from another (``warm_start = "zoo:NAME"``) waits for it. Each
training is a process with the threads its recipe says; its state is in ``runs/<name>``, its output
in ``runs/<name>.log``. Stopped or killed, this goes on where it was. Cards go into the package;
weights too for the data sets that ship with it, into ``zoo/models`` of the repository for others.

The small networks of the tables are packed into one file:

    .venv/bin/python -m reproduction.zoo.train credit-german/at-mlp credit-taiwan/at-mlp --to small
    .venv/bin/python -m reproduction.zoo pack small src/attribound/zoo/models/credit.zip
"""

# ruff: noqa: S603, T201 - a script that prints, and starts processes

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from attribound import zoo
from attribound.basics import read_toml
from attribound.training import TrainingConfig
from attribound.values import from_spec

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: Weights that the wheel does not have.
MODELS = ROOT / "zoo" / "models"
#: Data sets whose weights ship in the wheel.
SHIPPED = ("fashion-mnist",)
#: Attacked on all test images even where that takes long: what others are compared with.
WHOLE = ("mnist/at", "mnist/ce")
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class ZooRecipe:
    """One model to train; ``needs`` is the name of the one it starts from."""

    name: str
    file: Path
    needs: str | None


def read_recipes(folder: Path) -> dict[str, ZooRecipe]:
    """All recipes of a folder by name; each is a config that can be read."""
    found = {}
    for file in sorted(folder.glob("*.toml")):
        for table, settings in sorted(read_toml(file).items()):
            name = zoo.check_name(f"{file.stem}/{table}")
            start = from_spec(settings, TrainingConfig).warm_start
            origin = "" if start is None else start.file
            needs = origin.removeprefix("zoo:") if origin.startswith("zoo:") else None
            found[name] = ZooRecipe(name, place_of(folder, name), needs)
    return found


def place_of(folder: Path, name: str) -> Path:
    """Where a recipe is, as ``read_toml`` takes it.

    >>> place_of(Path("recipes"), "mnist/at").as_posix()
    'recipes/mnist.toml#at'
    """
    data, _, table = name.partition("/")
    return folder / f"{data}.toml#{table}"


def chosen(
    recipes: Mapping[str, ZooRecipe], names: Collection[str], done: Collection[str]
) -> set[str]:
    """The recipes asked for (all, if none) and what they start from, without those done."""
    unknown = set(names) - set(recipes)
    if unknown:
        raise SystemExit(f"no recipe of the name {', '.join(sorted(unknown))}")
    wanted: set[str] = set()
    queue = list(names or recipes)
    while queue:
        name = queue.pop()
        if name in done or name in wanted:
            continue
        if name not in recipes:
            raise SystemExit(f"{name} is neither in the zoo nor a recipe")
        wanted.add(name)
        needs = recipes[name].needs
        queue += [needs] if needs else []
    return wanted


def train_all(
    recipes: Mapping[str, ZooRecipe],
    wanted: set[str],
    jobs: int,
    train: Callable[[ZooRecipe], bool],
) -> dict[str, str]:
    """Train ``wanted``, ``jobs`` at a time, each after what it starts from.

    Gives ``done``, ``failed`` or ``blocked`` (what it starts from was not done) for each.
    """
    needs = {name: {each for each in (recipes[name].needs,) if each} for name in wanted}
    order = TopologicalSorter({name: own & wanted for name, own in needs.items()})
    order.prepare()
    state: dict[str, str] = {}
    running: dict[Future[bool], str] = {}
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while order.is_active():
                for name in order.get_ready():
                    if state.get(recipes[name].needs or "", "done") == "done":
                        running[pool.submit(train, recipes[name])] = name
                    else:
                        state[name] = "blocked"
                        order.done(name)
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    name = running.pop(future)
                    state[name] = "done" if future.result() else "failed"
                    order.done(name)
        except KeyboardInterrupt:
            # Those running had the signal, too, and save their state; no other begins.
            pool.shutdown(cancel_futures=True)
            raise
    return state


@dataclass(frozen=True)
class Workshop:
    """Makes models with two commands.

    Attributes:
        runs: where the state of trainings is kept.
        to: directory for weights and cards; default: where this project keeps them.
        images: measure on at most so many.
    """

    runs: Path
    to: Path | None
    images: int | None

    def __call__(self, recipe: ZooRecipe) -> bool:
        """Train, measure and add one model; whether it worked."""
        run, log = self.runs / recipe.name, self.runs / f"{recipe.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        shipped = recipe.name.partition("/")[0] in SHIPPED
        package = zoo.shipped_directory()
        place = self.to or (package if shipped else MODELS)
        train = ["attribound.cli", "train", "--config", recipe.file, "--out", run, "--resume"]
        add = ["reproduction.zoo", "add", run, "--name", recipe.name, "--to", place]
        add += ["--cards", self.to or package]
        add += [] if self.images is None else ["--images", self.images]
        add += ["--whole"] if recipe.name in WHOLE else []
        _say(f"{recipe.name}: training, see {log}")
        for arguments in (train, add):
            with log.open("ab") as out:
                command = [sys.executable, "-m", *map(str, arguments)]
                ended = subprocess.run(
                    command, stdout=out, stderr=out, env=_environment(), check=False
                )
            if ended.returncode:
                _say(f"{recipe.name}: exit code {ended.returncode}, see {log}")
                return False
        _say(f"{recipe.name}: done")
        return True


def _environment() -> dict[str, str]:
    """One thread a training, and this package to be found from every folder."""
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(ROOT), *([before] if before else [])])
    return {**os.environ, **_ONE_THREAD, "PYTHONPATH": path}


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M')} {text}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="models to train; default: all recipes")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once, a core each")
    parser.add_argument("--images", type=int, help="measure on at most so many test images")
    parser.add_argument("--list", action="store_true", help="only say what would be trained")
    parser.add_argument("--recipes", type=Path, default=HERE / "recipes", help="where recipes are")
    parser.add_argument("--runs", type=Path, default=HERE / "runs", help="where state is kept")
    parser.add_argument("--to", type=Path, help="another zoo to put the models in")
    options = parser.parse_args(arguments)
    if options.to is not None:
        os.environ["ATTRIBOUND_ZOO"] = str(options.to)  # for warm starts to be found
    recipes = read_recipes(options.recipes)
    wanted = chosen(recipes, options.names, zoo.names())
    if options.list:
        print("\n".join(sorted(wanted)) or "nothing to train: every model is there")
        return 0
    workshop = Workshop(options.runs, options.to, options.images)
    try:
        state = train_all(recipes, wanted, options.jobs, workshop)
    except KeyboardInterrupt:
        print("stopped; the same command goes on")
        return 130
    for name, how in sorted(state.items()):
        print(f"{how:8} {name}")
    return 0 if set(state.values()) <= {"done"} else 1


if __name__ == "__main__":
    sys.exit(main())
