"""The rows of one batch as a Parquet file that says which run and batch it belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attribound.basics.errors import InputError
from attribound.basics.whole_files import is_leftover, store_whole

_NAME = re.compile(r"(\d{5,})\.parquet")
_RUN, _BATCH, _ROWS = b"attribound.run", b"attribound.batch", b"attribound.rows"


@dataclass(frozen=True)
class Parts:
    """A folder of part files, all of one run and one schema.

    Each carries the checksum of the run, the number of its batch and how many rows it
    has; ``verify`` checks these by the footers, and reading checks every page against
    its checksum. Nothing here ever deletes a part.
    """

    folder: Path
    run: str
    schema: pa.Schema

    def path(self, number: int) -> Path:
        """Where the part of batch ``number`` is or will be."""
        return self.folder / f"{number:05d}.parquet"

    def write(self, number: int, table: pa.Table) -> None:
        """Store the rows of a batch, whole or not at all.

        Raises:
            StorageError: the system refused.
            TypeError: the columns are not those of the run.
        """
        if not table.schema.equals(self.schema):
            raise TypeError(f"part {number} has other columns than its run: {table.schema}")
        described = {
            _RUN: self.run.encode(),
            _BATCH: str(number).encode(),
            _ROWS: str(table.num_rows).encode(),
        }
        buffer = pa.BufferOutputStream()
        pq.write_table(
            table.replace_schema_metadata(described),
            buffer,
            compression="zstd",
            write_page_checksum=True,
        )
        store_whole(self.path(number), memoryview(buffer.getvalue()))

    def numbers(self) -> list[int]:
        """The batches that are there, in order.

        Raises:
            InputError: a file that is no part lies among them.
        """
        found = []
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            match = _NAME.fullmatch(path.name)
            if match and path == self.path(int(match[1])) and path.is_file():
                found.append(int(match[1]))
            elif not is_leftover(path):
                raise _refusal(path, "a file that attribound did not put there", "move it away")
        return sorted(found)

    def verify(self, number: int) -> int:
        """How many rows the part of batch ``number`` has, by a footer that is as it should be.

        Raises:
            InputError: it is torn, or belongs to another run or batch.
        """
        path = self.path(number)
        try:
            with pq.ParquetFile(path) as file:
                footer, schema = file.metadata, file.schema_arrow
        except (OSError, pa.ArrowException) as error:
            raise _torn(path, error) from error
        described = schema.metadata or {}
        if described.get(_RUN) != self.run.encode():
            raise _refusal(path, "a part of another run", "move it away")
        if described.get(_BATCH) != str(number).encode():
            raise _refusal(path, f"the part of batch {described.get(_BATCH)!r}", "move it away")
        rows: int = footer.num_rows
        if described.get(_ROWS) != str(rows).encode() or not schema.equals(self.schema):
            raise _refusal(path, "other rows or columns than were stored", "delete it and resume")
        return rows

    def read(self, numbers: list[int]) -> pa.Table:
        """The rows of these parts, one after the other.

        Raises:
            InputError: one is damaged.
        """
        tables = []
        for number in numbers:
            path = self.path(number)
            try:
                tables.append(
                    pq.read_table(path, page_checksum_verification=True, partitioning=None)
                )
            except (OSError, pa.ArrowException) as error:
                raise _torn(path, error) from error
        empty = self.schema.empty_table()
        return pa.concat_tables([empty, *(table.cast(self.schema) for table in tables)])


def _torn(path: Path, error: Exception) -> InputError:
    return _refusal(path, f"a torn or damaged file: {error}", "delete it and resume")


def _refusal(path: Path, got: str, remedy: str) -> InputError:
    return InputError(str(path), expected="a whole part of this run", got=got, remedy=remedy)
