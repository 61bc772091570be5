"""Parts: whole files of one batch each, told apart by what they carry."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from attribound.auditing.parts import Parts
from attribound.auditing.rows import MAPS_SCHEMA, SCHEMA
from attribound.basics.errors import InputError
from auditing.fakes import measured, samples_of


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    made = Parts(tmp_path, "sha256:mine", SCHEMA)
    for number in (2, 0):
        made.write(number, measured(samples_of(number)).rows)
    return made


def test_records_come_back_as_they_were_written(parts: Parts) -> None:
    assert parts.numbers() == [0, 2]
    assert [parts.verify(number) for number in (0, 2)] == [8, 4]
    expected = pa.concat_tables([measured(samples_of(number)).rows for number in (2, 0)])
    assert parts.read([2, 0]).equals(expected)
    assert parts.read([2, 0]).schema == SCHEMA
    assert parts.read([]).schema == SCHEMA


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert Parts(tmp_path / "nothing", "r", SCHEMA).numbers() == []


def test_a_part_of_another_run_batch_or_table_is_refused(parts: Parts, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a part of another run; move it away"):
        Parts(tmp_path, "sha256:other", SCHEMA).verify(0)
    with pytest.raises(InputError, match="other rows or columns"):
        Parts(tmp_path, "sha256:mine", MAPS_SCHEMA).verify(0)
    parts.path(0).rename(parts.path(1))
    with pytest.raises(InputError, match="the part of batch b'0'"):
        parts.verify(1)
    with pytest.raises(TypeError, match="part 5 has other columns"):
        parts.write(5, measured(samples_of(0)).maps)


def test_a_torn_part_is_refused(parts: Parts) -> None:
    parts.path(2).write_bytes(parts.path(2).read_bytes()[:-9])
    for look in (lambda: parts.verify(2), lambda: parts.read([2])):
        with pytest.raises(InputError, match=r"00002.parquet.*torn or damaged"):
            look()


def test_a_foreign_file_is_refused(parts: Parts) -> None:
    (parts.folder / "notes.txt").touch()
    with pytest.raises(InputError, match=r"notes.txt.*did not put there"):
        parts.numbers()
