"""Runs on disk: whole parts, one writer, and nothing foreign."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attribound.auditing.store import Run, is_run
from attribound.basics.errors import InputError
from attribound.basics.whole_files import StorageError
from auditing.fakes import EPSILONS, manifest, measured, samples_of


def filled(path: Path, numbers: tuple[int, ...] = (0, 1, 2)) -> Path:
    with Run.create(path, manifest()) as run:
        for number in numbers:
            run.write(number, measured(samples_of(number)))
    return path


def test_a_run_gives_back_what_was_written_in_order(tmp_path: Path) -> None:
    run = Run.open(filled(tmp_path / "run", (2, 0, 1)))
    expected = [(sample, epsilon) for sample in range(10) for epsilon in sorted(EPSILONS)]
    table = run.samples()
    assert [*zip(*(table[n].to_pylist() for n in ("sample", "epsilon")), strict=True)] == expected
    deviations = [sample * epsilon for sample, epsilon in expected]
    assert table["strongest_deviation"].to_pylist() == deviations
    assert [row["strongest"]["deviation"] for row in run.rows().to_pylist()] == deviations
    assert run.maps()["input"].to_pylist() == [[0.5, 0.0], [0.5, 4.0], [0.5, 8.0]]
    assert (run.finished, run.done(), run.missing()) == (True, [0, 1, 2], [])
    assert "3 of 3" in repr(run)


def test_an_empty_run_has_tables_with_its_columns(tmp_path: Path) -> None:
    run, whole = Run.open(filled(tmp_path / "empty", ())), Run.open(filled(tmp_path / "whole"))
    for name in ("rows", "samples", "bounds", "attacks", "maps"):
        empty, full = (getattr(each, name)() for each in (run, whole))
        assert empty.num_rows == 0 < full.num_rows, name
        assert empty.schema == full.schema, name


def test_the_long_tables_are_the_records_of_the_rows(tmp_path: Path) -> None:
    run = Run.open(filled(tmp_path))
    rows = run.rows().to_pylist()
    for name, records in (("bounds", run.bounds()), ("attacks", run.attacks())):
        expected = [(row, record) for row in rows for record in row[name]]
        assert records.num_rows == len(expected) > len(rows) - 1
        for found, (row, record) in zip(records.to_pylist(), expected, strict=True):
            assert {key: found[key] for key in record} == record
            same = ("sample", "label", "attribution", "ball", "epsilon", "features", "error", "id")
            assert all(found[key] == row[key] for key in same)
            assert found.keys() == {*record, *same}


def test_a_batch_without_maps_leaves_no_file(tmp_path: Path) -> None:
    with Run.create(tmp_path, manifest()) as run:
        one = measured(samples_of(0))
        run.write(0, type(one)(one.rows, one.maps.slice(0, 0)))
    assert [*(tmp_path / "maps").iterdir()] == []
    assert Run.open(tmp_path).maps().num_rows == 0


def test_to_pandas_and_polars(tmp_path: Path) -> None:
    run = Run.open(filled(tmp_path))
    pandas, polars = (
        pytest.importorskip("pandas", exc_type=ImportError),
        pytest.importorskip("polars", exc_type=ImportError),
    )
    for what, count in (("samples", 20), ("bounds", 40), ("attacks", 20)):
        assert isinstance(run.to_pandas(what), pandas.DataFrame)
        assert isinstance(run.to_polars(what), polars.DataFrame)
        assert len(run.to_pandas(what)) == len(run.to_polars(what)) == count
    assert len(run.to_pandas()) == len(run.to_polars()) == 20
    with pytest.raises(
        InputError, match="table: expected one of samples, bounds, attacks, reasons, got 'x'"
    ):
        run.to_pandas("x")


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_package_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.open(filled(tmp_path))
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=f"the package {name}.*pip install"):
        getattr(run, f"to_{name}")()


def test_a_temporary_run_goes_with_its_object() -> None:
    run = Run.create(None, manifest())
    folder = run.path
    assert is_run(folder)
    run.close()
    del run
    assert not folder.exists()
    gone = Run.create(None, manifest())
    shutil.rmtree(gone.path)  # by someone else: finalisers that fail would print
    gone.close()
    del gone


class TestCreate:
    def test_not_over_a_run(self, tmp_path: Path) -> None:
        filled(tmp_path)
        with pytest.raises(InputError, match="a run in it; resume it"):
            Run.create(tmp_path, manifest())

    @pytest.mark.parametrize("name", ["notes.txt", "parts"])
    def test_not_among_other_files(self, name: str, tmp_path: Path) -> None:
        (tmp_path / name).mkdir()
        with pytest.raises(InputError, match=f"{name} in it; choose another folder"):
            Run.create(tmp_path, manifest())

    def test_over_what_a_killed_create_left(self, tmp_path: Path) -> None:
        (tmp_path / "lock").touch()
        (tmp_path / ".run.json.1.tmp").write_text("{")
        Run.create(tmp_path, manifest()).close()
        assert sorted(p.name for p in tmp_path.iterdir()) == ["lock", "maps", "parts", "run.json"]


class TestResume:
    def test_goes_on_where_it_was(self, tmp_path: Path) -> None:
        filled(tmp_path, (1,))
        with Run.resume(tmp_path, manifest(created="later")) as run:
            assert run.missing() == [0, 2]
            assert run.manifest.created == manifest().created
            run.write(0, measured(samples_of(0)))
            run.write(2, measured(samples_of(2)))
        whole = Run.open(filled(tmp_path / "whole"))
        assert Run.open(tmp_path).rows().equals(whole.rows())

    def test_begins_in_folders_that_are_not_there(self, tmp_path: Path) -> None:
        Run.create(tmp_path / "of" / "mine", manifest()).close()
        assert is_run(tmp_path / "of" / "mine")

    def test_begins_where_nothing_is(self, tmp_path: Path) -> None:
        with Run.resume(tmp_path / "new", manifest()) as run:
            assert run.missing() == [0, 1, 2]

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"settings": {**manifest().settings, "seed": 1}}, "settings.seed was 0, is 1"),
            ({"settings": {"seed": 0}}, r"settings.balls was \[.*\], is null"),
            (
                {
                    "settings": {
                        "seed": 0,
                        "balls": [
                            {"kind": "l2", "epsilon": 0.1},
                            {"kind": "linf", "epsilon": 0.05},
                        ],
                    }
                },
                r'settings.balls.1.kind was "l2", is "linf"; resume',
            ),
            (
                {"settings": {"seed": 0, "balls": [{"kind": "l2", "epsilon": 0.1}]}},
                r"settings.balls was \[.*\], is \[",
            ),
            ({"model": {"fingerprint": "sha256:x"}}, 'model was "sha256:1", is "sha256:x"'),
            ({"data": {"fingerprint": "sha256:x"}}, 'data was "sha256:2", is "sha256:x"'),
            ({"versions": {"attribound": "1", "torch": "9"}}, 'torch was "2", is "9"'),
            ({"inputs": {"a.json": "1"}}, 'inputs.a.json was null, is "1"'),
            ({"samples": 11}, "samples was 10, is 11"),
            ({"batch": 2}, "batch was 4, is 2"),
            ({"rows_per_sample": 3}, "rows per sample was 2, is 3"),
        ],
    )
    def test_refuses_anything_else(
        self, changes: dict[str, object], named: str, tmp_path: Path
    ) -> None:
        filled(tmp_path)
        with pytest.raises(InputError, match=named):
            Run.resume(tmp_path, manifest(**changes))

    def test_versions_that_do_not_matter_may_change(self, tmp_path: Path) -> None:
        filled(tmp_path)
        Run.resume(tmp_path, manifest(versions={**manifest().versions, "python": "9"})).close()

    def test_cleans_up_after_killed_writers(self, tmp_path: Path) -> None:
        filled(tmp_path, (0,))
        left = tmp_path / "parts" / ".00001.parquet.123.tmp"
        left.write_bytes(b"PAR1")
        assert Run.open(tmp_path).done() == [0]
        assert left.exists(), "a reader must not touch what a writer may be writing"
        Run.resume(tmp_path, manifest()).close()
        assert not left.exists()

    def test_maps_of_a_batch_whose_rows_were_lost_do_not_count(self, tmp_path: Path) -> None:
        filled(tmp_path)
        (tmp_path / "parts" / "00001.parquet").unlink()
        run = Run.open(tmp_path)
        assert run.missing() == [1]
        assert run.maps()["sample"].to_pylist() == [0, 8]


class TestOneWriter:
    def test_a_second_one_is_refused_and_the_first_is_named(self, tmp_path: Path) -> None:
        with Run.create(tmp_path, manifest()):
            for again in (Run.resume, Run.create):
                with pytest.raises(InputError, match=f"another one at it.*process {os.getpid()}"):
                    again(tmp_path, manifest())
            assert Run.open(tmp_path).done() == []
        Run.resume(tmp_path, manifest()).close()

    def test_the_lock_ends_with_a_killed_process(self, tmp_path: Path) -> None:
        code = (
            "import sys, time; from pathlib import Path; "
            "from attribound.basics.locking import Lock; "
            f"lock = Lock(Path({str(tmp_path)!r})); print('mine', flush=True); time.sleep(60)"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"mine\n"
            with pytest.raises(InputError, match=f"process {other.pid}"):
                Run.create(tmp_path, manifest())
            other.kill()
            other.wait()
        Run.create(tmp_path, manifest()).close()

    def test_a_reader_and_a_closed_writer_cannot_write(self, tmp_path: Path) -> None:
        run = Run.create(tmp_path, manifest())
        run.close()
        for each in (run, Run.open(tmp_path)):
            with pytest.raises(InputError, match="opened for reading, or closed"):
                each.write(0, measured(samples_of(0)))


class TestDamage:
    """Every kind of damage is found, and the file is named."""

    @pytest.mark.parametrize("keep", [0, 3, 100, -1])
    def test_a_torn_part(self, keep: int, tmp_path: Path) -> None:
        part = filled(tmp_path) / "parts" / "00001.parquet"
        part.write_bytes(part.read_bytes()[:keep])
        for opened in (lambda: Run.open(tmp_path), lambda: Run.resume(tmp_path, manifest())):
            with pytest.raises(InputError, match=r"00001.parquet.*torn or damaged"):
                opened()
        part.unlink()
        Run.resume(tmp_path, manifest()).close()  # the remedy of the message works

    def test_a_flipped_bit_never_changes_a_number(self, tmp_path: Path) -> None:
        part = filled(tmp_path) / "parts" / "00001.parquet"
        whole, content = Run.open(tmp_path).rows(), part.read_bytes()
        group = pq.read_metadata(part).row_group(0)
        leaves = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
        attack = leaves["strongest.deviation"]
        start = attack.dictionary_page_offset
        stored = pq.read_table(part, partitioning=None)
        caught = unnoticed = 0
        for position in range(start, start + attack.total_compressed_size):
            flipped = bytearray(content)
            flipped[position] ^= 1
            part.write_bytes(bytes(flipped))
            with suppress(OSError, pa.ArrowException):
                unnoticed += not pq.read_table(part, partitioning=None).equals(stored)
            try:
                assert Run.open(tmp_path).rows().equals(whole)
            except InputError as error:
                assert re.search(r"00001.parquet.*torn or damaged", str(error))  # noqa: PT017
                caught += 1
        assert caught
        assert unnoticed, "without checksums other numbers would have been read"

    @pytest.mark.parametrize("name", ["notes.txt", "00001.bak", "0.parquet", "000001.parquet"])
    def test_a_foreign_file(self, name: str, tmp_path: Path) -> None:
        (filled(tmp_path) / "parts" / name).touch()
        with pytest.raises(InputError, match=f"{re.escape(name)}.*did not put there"):
            Run.open(tmp_path)

    def test_a_part_of_another_run(self, tmp_path: Path) -> None:
        filled(tmp_path / "a", (0,))
        with Run.create(tmp_path / "b", manifest(settings={"seed": 7})) as other:
            other.write(1, measured(samples_of(1)))
        shutil.copy(tmp_path / "b/parts/00001.parquet", tmp_path / "a/parts")
        with pytest.raises(InputError, match=r"00001.parquet.*another run"):
            Run.open(tmp_path / "a")

    def test_a_parquet_file_of_somebody_else(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"a": [1]}), filled(tmp_path, ()) / "parts" / "00000.parquet")
        with pytest.raises(InputError, match=r"00000.parquet.*another run"):
            Run.open(tmp_path)

    def test_a_part_under_the_number_of_another(self, tmp_path: Path) -> None:
        parts = filled(tmp_path, (0,)) / "parts"
        shutil.copy(parts / "00000.parquet", parts / "00001.parquet")
        with pytest.raises(InputError, match=r"00001.parquet.*the part of batch b'0'"):
            Run.open(tmp_path)

    def test_a_part_with_other_rows(self, tmp_path: Path) -> None:
        part = filled(tmp_path) / "parts" / "00001.parquet"
        table = pq.read_table(part, partitioning=None)
        pq.write_table(table.slice(1), part)
        with pytest.raises(InputError, match=r"00001.parquet.*other rows or columns"):
            Run.open(tmp_path)

    def test_a_batch_that_is_too_short_is_not_stored(self, tmp_path: Path) -> None:
        with Run.create(tmp_path, manifest()) as run:
            with pytest.raises(InputError, match="expected 8 rows, got 6 rows"):
                run.write(0, measured(range(3)))
            with pytest.raises(InputError, match="expected a batch below 3, got batch 3"):
                run.write(3, measured(range(3)))
            assert run.done() == []

    def test_other_columns_are_not_stored(self, tmp_path: Path) -> None:
        one = measured(samples_of(0))
        fewer = type(one)(one.rows.drop_columns(["strongest"]), one.maps)
        run = Run.create(tmp_path, manifest())
        with run, pytest.raises(TypeError, match="part 0 has other columns"):
            run.write(0, fewer)

    @pytest.mark.parametrize(
        ("old", "new", "named"),
        [
            ('"seed": 0', '"seed": 1', "changed since"),
            ('"samples"', '"sample"', "missing or damaged entry"),
            ('"attribound run"', '"another"', "another kind of file"),
            ('"format_version": 3', '"format_version": 1', "format version 3, got 1"),
            ("{", "", "no JSON"),
        ],
    )
    def test_run_json(self, old: str, new: str, named: str, tmp_path: Path) -> None:
        path = filled(tmp_path) / "run.json"
        path.write_text(path.read_text().replace(old, new))
        with pytest.raises(InputError, match=named):
            Run.open(tmp_path)

    @pytest.mark.parametrize(
        "changes",
        [
            {"model": {**manifest().model, "name": "a better model"}},
            {"data": {**manifest().data, "classes": ["b", "a"]}},
            {"created": "2027-01-01T00:00:00+00:00"},
        ],
    )
    def test_run_json_with_new_hashes(self, changes: dict[str, Any], tmp_path: Path) -> None:
        """Names and classes belong to the rows: nobody can write others beside them."""
        manifest(**changes).write(filled(tmp_path))
        with pytest.raises(InputError, match="a part of another run"):
            Run.open(tmp_path)

    def test_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"run.json.*no such file"):
            Run.open(tmp_path / "nothing")


def write_on(folder: str) -> None:
    """In a process of its own, to be killed."""
    with Run.resume(folder, manifest(samples=4000)) as run:
        for number in run.missing():
            run.write(number, measured(samples_of(number, 4000)))


def test_writers_killed_at_random_moments_leave_whole_parts_only(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["attribound.auditing.store"])
    dice, folder, counts = random.Random(2), tmp_path / "run", [0]
    for _ in range(6):
        process = context.Process(target=write_on, args=(str(folder),))
        process.start()
        while process.is_alive() and len([*folder.glob("parts/0*")]) == counts[-1]:
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.05))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        counts.append(len(Run.open(folder).done()))
    assert sorted({*counts}) == counts, "each went on where the last was killed"
    with Run.resume(folder, manifest(samples=4000)) as run:
        assert len(run.rows()) == 8 * counts[-1]
    assert not [*folder.rglob("*.tmp")]


class TestFullDisk:
    def test_nothing_torn_is_left_and_the_run_goes_on(
        self, tmp_path: Path, small_disk: Path
    ) -> None:
        ballast = small_disk / "ballast"
        run = Run.create(small_disk / "run", manifest())
        run.write(0, measured(samples_of(0)))
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        with pytest.raises(StorageError, match=r"No space.*ENOSPC.*make room and resume"):
            run.write(1, measured(samples_of(1)))
        assert run.done() == [0]
        run.close()
        assert not [*(small_disk / "run").rglob("*.tmp")]
        ballast.unlink()
        with Run.resume(small_disk / "run", manifest()) as run:
            assert run.missing() == [1, 2]
            run.write(1, measured(samples_of(1)))
        assert Run.open(small_disk / "run").rows().num_rows == 16

    def test_a_folder_that_may_not_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(InputError, match=r"folder, .*, got Not a directory; choose another"):
            Run.create(tmp_path / "file" / "run", manifest())
