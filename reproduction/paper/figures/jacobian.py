"""The whole Jacobian of one sample's attribution, stored: what the heatmaps are drawn from."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from attribound import InputError
from attribound.auditing import AuditSettings
from attribound.basics import store_whole, storing
from attribound.operators import dense
from reproduction.paper.records import MeasuredModel

Matrix = NDArray[np.float32]
_ABOUT = b"reproduction.jacobian"
_AT_ONCE = 12  # columns in one product
_SCHEMA = pa.schema({"row": pa.int64(), "input": pa.float32(), "values": pa.list_(pa.float32())})


@dataclass(frozen=True, eq=False)
class DenseJacobian:
    """J with J[i, j] = dg_i / dx_j at one sample.

    Attributes:
        matrix: ``(d, d)``.
        input: the sample, flattened.
        sample: its index in the data.
        about: settings and fingerprint of the model it is of.
    """

    matrix: Matrix
    input: Matrix
    sample: int
    about: dict[str, Any]


def measure_jacobian(subject: MeasuredModel) -> DenseJacobian:
    """The Jacobian at the first sample, by one product a column."""
    at = subject.attribution.linearize(subject.x[:1])
    matrix = dense(at.jacobian, 0, _AT_ONCE)
    return DenseJacobian(
        matrix=matrix.detach().cpu().float().numpy(),
        input=subject.x[0].detach().cpu().float().flatten().numpy(),
        sample=subject.samples[0],
        about=subject.about,
    )


def stored_jacobian(settings: AuditSettings, path: Path) -> DenseJacobian:
    """The Jacobian in ``path``; measured and stored if it is not there or of something else.

    Args:
        settings: with one attribution; of their samples the first is taken.
        path: a Parquet file.

    Raises:
        InputError: model or data are missing and so is the file, or it is damaged.
        StorageError: the system refused to write.
    """
    one = replace(settings, limit=1, batch=1)
    found = read_jacobian(path) if path.is_file() else None
    try:
        subject = MeasuredModel.of(one)
    except InputError:
        # What was measured where the model was can be drawn where it is not.
        if found is not None and found.about.get("settings") == one.document():
            return found
        raise
    if found is not None and found.about == subject.about:
        return found
    measured = measure_jacobian(subject)
    write_jacobian(measured, path)
    return measured


def write_jacobian(found: DenseJacobian, path: Path) -> None:
    """Store it, whole or not at all.

    Raises:
        StorageError: the system refused to write.
    """
    columns = {
        "row": range(len(found.matrix)),
        "input": found.input,
        "values": list(found.matrix),
    }
    about = json.dumps({**found.about, "sample": found.sample}, sort_keys=True)
    table = pa.table(columns, schema=_SCHEMA.with_metadata({_ABOUT: about}))
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    store_whole(path, memoryview(buffer.getvalue()))


def read_jacobian(path: Path) -> DenseJacobian:
    """What :func:`write_jacobian` stored.

    Raises:
        InputError: the file is damaged, or another kind of file.
    """
    try:
        table = pq.read_table(path, page_checksum_verification=True, partitioning=None)
        about = json.loads(table.schema.metadata[_ABOUT])
        matrix = np.stack(table["values"].to_numpy()).astype(np.float32)
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise InputError(
            str(path),
            expected="a Jacobian that the reproduction stored",
            got=f"a damaged or foreign file: {error}",
            remedy="delete it: it is measured again",
        ) from error
    sample = about.pop("sample")
    return DenseJacobian(matrix, table["input"].to_numpy(), sample, about)
