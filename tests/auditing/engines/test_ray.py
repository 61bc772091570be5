"""Ray: the same rows as local, and no death ends a run."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attribound.auditing.at_work import AtWork
from attribound.auditing.engines import LocalEngine, RayEngine
from attribound.basics.errors import InputError
from auditing import fakes
from auditing.fakes import work

pytestmark = [
    # Its sockets and logs stay open until the process ends, and it says so.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def short_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder for sockets, which must have short paths: those of pytest are too long."""
    pytest.importorskip("ray", exc_type=ImportError)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.fixture
def ray(short_path: str) -> Iterator[Any]:
    """A Ray that the program itself started."""
    ray = importlib.import_module("ray")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        _temp_dir=short_path,
    )
    try:
        yield ray
    finally:
        ray.shutdown()


def test_the_same_rows_as_local_although_a_worker_is_killed(
    short_path: str, tmp_path: Path
) -> None:
    recipe = fakes.Deadly(tmp_path, sample=4, deaths=1)
    here = dict(LocalEngine().run(work(fakes.Sound()), range(3)))
    engine = RayEngine(workers=2, temporary=short_path)
    heard: list[AtWork] = []
    there = dict(engine.run(replace(work(recipe), told=heard.append), range(3)))
    assert {str(each) for each in heard} == {"batch 0", "batch 1", "batch 2"}
    assert len(recipe.dead()) == 1
    assert sorted(there) == sorted(here) == [0, 1, 2]
    assert all(there[number].rows.equals(here[number].rows) for number in here)
    assert all(there[number].maps.equals(here[number].maps) for number in here)
    assert not importlib.import_module("ray").is_initialized(), "what it started it stops"


@pytest.mark.slow
def test_failures_in_a_ray_that_is_there_already(ray: Any, tmp_path: Path) -> None:
    """All in one test, because starting Ray takes seconds."""
    recipe = fakes.Deadly(tmp_path, sample=4, deaths=99)
    found = dict(RayEngine(workers=1).run(work(recipe), range(3)))
    errors = [set(found[number].rows["error"].to_pylist()) for number in range(3)]
    assert errors[0] == errors[2] == {None}
    (said,) = errors[1] - {None}
    assert "this sample alone died 3 times, at last in Ray: " in said
    assert len(recipe.dead()) == 7
    with pytest.raises(FileNotFoundError, match="no such weights"):
        list(RayEngine(workers=1).run(work(fakes.Broken()), range(3)))
    with pytest.raises(InputError, match="3 that died while loading it"):
        list(RayEngine(workers=1).run(work(fakes.Stillborn()), range(3)))
    assert ray.is_initialized(), "what it did not start it does not stop"


def test_more_than_the_cluster_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", exc_type=ImportError)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "put", lambda recipe: recipe)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    with pytest.raises(InputError, match=r"at most what the cluster has: CPU 2, GPU 0"):
        list(RayEngine(gpus=1).run(work(fakes.Sound()), range(3)))


def test_a_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", exc_type=ImportError)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)

    def init(**given: object) -> None:
        assert given["address"] == "127.0.0.1:1"
        assert "num_cpus" not in given
        raise ConnectionError("nobody there")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(InputError, match=r"Ray at 127.0.0.1:1.*nobody there.*check the address"):
        list(RayEngine(address="127.0.0.1:1").run(work(fakes.Sound()), range(3)))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"workers": 0}, "expected at least 1, got 0"),
        ({"cpus": 0}, r"cpus > 0 and gpus >= 0, got cpus=0, gpus=0"),
        ({"gpus": -1}, r"cpus > 0 and gpus >= 0"),
    ],
)
def test_resources_that_make_no_sense(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        RayEngine(**wrong)
