"""Parquet files with a column of labels, and an image column or feature columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attribound.basics.errors import InputError
from attribound.basics.later import Later
from attribound.basics.limits import refuse_inflation
from attribound.data.examples import Examples, numbered_classes
from attribound.data.images import Encoded, Images, common_frame, no_images
from attribound.data.splits import Split, whole
from attribound.data.tables import Cells, Layout, label_column, table_examples
from attribound.data.values import array_examples, label_numbers

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa, pc, pq = map(Later, ("pyarrow", "pyarrow.compute", "pyarrow.parquet"))

_IMAGES = ("image", "img")
_AT_ONCE = 16  # rows, which may share one large value: less than a file may grow
_PARTS = {"train": ("train",), "test": ("test", "validation", "val")}


def parquet_files(path: Path, split: Split | None) -> list[Path]:
    """The files of a part: ``path``, or those in this folder whose names begin with the split.

    As Hugging Face lays data sets out, they may also be in the folder ``data``.

    Raises:
        InputError: there is no such part.
    """
    if path.is_file():
        if not path.name.startswith(_PARTS[split or "test"]):
            whole(str(path), split)
        return [path]
    files = sorted([*path.glob("*.parquet"), *path.glob("data/*.parquet")])
    known = [file for file in files if file.name.startswith(sum(_PARTS.values(), ()))]
    if not known:
        whole(str(path), split)
        return files
    for prefix in _PARTS[split or "test"]:
        if part := [file for file in known if file.name.startswith(prefix)]:
            return part
    raise InputError(
        str(path),
        expected=f"a file {split or 'test'}*.parquet",
        got=", ".join(file.name for file in known),
        remedy="choose another split, or pass the path of one file",
    )


def read_parquet(
    name: str, files: Sequence[Path], size: int | None, layout: Layout | None = None
) -> Examples:
    """The rows of ``files``, one after another.

    Labels are in the column that the layout names, or ``label`` (``labels``, ``target``, ``y``,
    ``class``): whole numbers from 0, or texts, whose order numbers them. Images are in ``image``
    (or ``img``), JPEG or PNG bytes, also as Hugging Face stores them; without such a column every
    other one is a feature (a number), a category (texts) or a list of features.

    Raises:
        InputError: a file is damaged, or the columns are something else.
    """
    layout = layout or Layout()
    table = _table(name, files)
    label = label_column(name, table.column_names, layout)
    _refuse_missing(name, table)
    image = next((column for column in _IMAGES if column in table.column_names), None)
    if image is not None and label is not None and not _is_list(table[image].type):
        return _image_examples(name, table[image], *_labels(table, label), size)
    if size is not None:
        raise no_images(name)
    if label is None or not any(_is_list(field.type) for field in table.schema):
        made = table_examples(name, _cells(name, table, layout), layout)
        if label is not None and (classes := _hugging_face_classes(table.schema.metadata, label)):
            made.classes = tuple(classes)
        return made
    left = {label, layout.id, *layout.drop}
    columns = [column for column in table.column_names if column not in left]
    features = [_feature(name, column, table[column]) for column in columns]
    values = np.concatenate([np.empty((len(table), 0), np.float32), *features], axis=1)
    return array_examples(name, values, *_labels(table, label))


def _refuse_missing(name: str, table: Any) -> None:
    for column in table.column_names:
        if missing := table[column].null_count:
            row = table[column].is_null().to_pylist().index(True) + 1
            raise InputError(
                name,
                expected="a value in every row",
                got=f"{missing} missing in column {column!r}, the first in row {row}",
                remedy="remove or fill in these rows; nothing is filled in for you",
            )


def _cells(name: str, table: Any, layout: Layout) -> dict[str, Cells]:
    """Columns as numbers or texts."""
    found: dict[str, Cells] = {}
    for column in table.column_names:
        kind = table[column].type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            found[column] = table[column].to_pylist()
        elif column in layout.drop:
            found[column] = []
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            found[column] = np.asarray(table[column].to_numpy())
        else:
            raise _no_number(name, column, kind)
    return found


def _no_number(name: str, column: str, kind: Any) -> InputError:
    return InputError(
        name,
        expected="numbers or texts in every column",
        got=f"{kind} in column {column!r}",
        remedy="leave the column out (--drop), or store it as numbers",
    )


def _table(name: str, files: Sequence[Path]) -> Any:
    try:
        return pa.concat_tables([_read(file) for file in files])
    except pa.ArrowInvalid as error:
        raise InputError(
            name,
            expected="files with the same columns",
            got=str(error),
            remedy="load them one by one",
        ) from error


def _read(file: Path) -> Any:
    try:
        # ParquetFile reads this one file; read_table would guess columns from folder names.
        with pq.ParquetFile(file) as opened:
            return _whole(file, opened)
    except InputError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            str(file), expected="a whole Parquet file", got=str(error), remedy="fetch it again"
        ) from error


def _whole(file: Path, opened: Any) -> Any:
    """All rows; a few packed bytes can stand for any number of them, so these are counted."""
    stored, footer = file.stat().st_size, opened.metadata
    remedy = "store it again without compression and dictionaries"
    chunks = [
        footer.row_group(group).column(column)
        for group in range(footer.num_row_groups)
        for column in range(footer.num_columns)
    ]
    values = max([footer.num_rows, *(chunk.num_values for chunk in chunks)])
    refuse_inflation(str(file), 8 * sum(chunk.num_values for chunk in chunks), stored, remedy)
    refuse_inflation(str(file), values, stored, remedy)
    if all(chunk.physical_type != "BYTE_ARRAY" for chunk in chunks):
        return opened.read()  # numbers, all of which are counted
    becomes = 0
    for batch in opened.iter_batches(batch_size=_AT_ONCE):  # none is kept before all are counted
        becomes += batch.nbytes
        refuse_inflation(str(file), becomes, stored, remedy)
    return opened.read()


def _labels(table: Any, column: str) -> tuple[np.ndarray[Any, Any], list[str] | None]:
    kind = table[column].type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        classes, numbers = np.unique(np.array(table[column].to_pylist(), str), return_inverse=True)
        return numbers, classes.tolist()
    return table[column].to_numpy(), _hugging_face_classes(table.schema.metadata, column)


def _hugging_face_classes(metadata: dict[bytes, bytes] | None, column: str) -> list[str] | None:
    """The names of the classes, as ``datasets`` writes them beside the data."""
    try:
        described = json.loads((metadata or {})[b"huggingface"])
        return [str(name) for name in described["info"]["features"][column]["names"]]
    except (KeyError, TypeError, ValueError):
        return None


def _image_examples(
    name: str,
    column: Any,
    labels: np.ndarray[Any, Any],
    classes: list[str] | None,
    size: int | None,
) -> Images:
    kind = column.type
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        contents = [row["bytes"] for row in column.to_pylist()]
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        contents = column.to_pylist()
    else:
        contents = [None]
    if any(not isinstance(content, bytes) for content in contents):
        raise InputError(
            name,
            expected="images as bytes of JPEG or PNG files",
            got=f"{kind}",
            remedy="store the files' contents in the column, not their paths",
        )
    images = [Encoded(f"{name}, row {row}", content) for row, content in enumerate(contents)]
    numbers = label_numbers(name, labels)
    frame = common_frame(name, images, size)
    return Images(name, images, numbers, classes or numbered_classes(name, numbers), frame)


def _is_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _feature(name: str, column: str, values: Any) -> np.ndarray[Any, Any]:
    """One column as ``(rows, 1)``, a column of lists as ``(rows, length)``."""
    rows, kind, flat = len(values), values.type, values
    if _is_list(kind):
        lengths = set(pc.list_value_length(values).to_pylist())
        if len(lengths) > 1:
            raise InputError(
                name,
                expected=f"lists of one length in column {column!r}",
                got=f"lengths from {min(lengths)} to {max(lengths)}",
                remedy="pad or cut them",
            )
        flat, kind = values.combine_chunks().flatten(), kind.value_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise _no_number(name, column, values.type)
    array: np.ndarray[Any, Any] = np.asarray(flat.to_numpy(zero_copy_only=False), np.float32)
    return array.reshape(rows, -1) if rows else np.empty((0, 1), np.float32)
