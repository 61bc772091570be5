from __future__ import annotations

import math
import multiprocessing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from claims import store

ROW = {"network": "at", "sample": 3, "p": math.inf, "attack": 0.1 + 0.2, "attack_label_kept": True}


def test_rows_come_back_exactly_with_their_types(tmp_path) -> None:
    path = tmp_path / "new" / "part.parquet"
    store.write(path, [ROW], {"a": 1})
    (found,) = store.read(path)
    assert {name: found[name] for name in ROW} == ROW
    assert all(found[name] is None for name in store.SCHEMA.names if name not in ROW)
    assert pq.read_schema(path).remove_metadata() == store.SCHEMA
    assert [file.name for file in path.parent.iterdir()] == ["part.parquet"]


def test_a_column_without_a_place_is_refused(tmp_path) -> None:
    with pytest.raises(KeyError, match=r"does not have: \['nonsense'\]"):
        store.write(tmp_path / "part.parquet", [{"nonsense": 1}], {})


def test_a_part_is_done_only_with_the_same_settings(tmp_path) -> None:
    path = tmp_path / "part.parquet"
    assert not store.done(path, {"steps": 12})
    store.write(path, [ROW], {"steps": 12, "images": (0, 25)})
    assert store.done(path, {"images": (0, 25), "steps": 12})
    assert not store.done(path, {"images": (0, 25), "steps": 13})


def test_a_kill_while_writing_leaves_what_was_there(tmp_path, monkeypatch) -> None:
    path = tmp_path / "part.parquet"
    store.write(path, [ROW], {"steps": 1})

    def killed(table, where, **_):
        Path(where).write_bytes(b"PAR1 half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(pq, "write_table", killed)
    with pytest.raises(KeyboardInterrupt):
        store.write(path, [ROW, ROW], {"steps": 2})
    assert store.done(path, {"steps": 1})
    assert len(store.read(path)) == 1


def test_nobody_else_computes_what_is_claimed(tmp_path) -> None:
    path = tmp_path / "part.parquet"
    with store.claimed(path) as mine, store.claimed(path) as theirs:
        assert (mine, theirs) == (True, False)
    with store.claimed(path) as again:
        assert again
    assert not list(tmp_path.iterdir())


def hold(path: Path, ready) -> None:
    with store.claimed(path):
        ready.set()
        multiprocessing.Event().wait(60)


def test_a_killed_process_claims_nothing(tmp_path) -> None:
    path = tmp_path / "part.parquet"
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    other = context.Process(target=hold, args=(path, ready))
    other.start()
    assert ready.wait(20)
    with store.claimed(path) as mine:
        assert not mine
    other.kill()
    other.join()
    with store.claimed(path) as mine:
        assert mine
