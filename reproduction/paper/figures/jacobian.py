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

from attribound.attributions import Attribution
from attribound.auditing.audited import samples_of
from attribound.auditing.measure import Batch
from attribound.auditing.protocols import complete
from attribound.auditing.settings import AuditSettings, dump_settings
from attribound.auditing.subject import Subject
from attribound.basics.errors import InputError
from attribound.basics.whole_files import store_whole, storing
from attribound.bounding.first_order.dense_limit import matrices

Matrix = NDArray[np.float32]
_ABOUT = b"attribound.jacobian"
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


def measure_jacobian(attribution: Attribution, batch: Batch) -> DenseJacobian:
    """The Jacobian at the first sample of ``batch``, by one product a column."""
    at = attribution.linearize(batch.x[:1])
    (matrix,) = matrices(at.jacobian)
    return DenseJacobian(
        matrix=matrix.detach().cpu().float().numpy(),
        input=batch.x[0].detach().cpu().float().flatten().numpy(),
        sample=int(batch.indices[0]),
        about={},
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
        subject = Subject.load(one)
        samples = samples_of(None, subject.settings)
        batch = samples.batch(0)
    except InputError:
        # What was measured where the model was can be drawn where it is not.
        if found is not None and found.about.get("settings") == dump_settings(complete(one)):
            return found
        raise
    document = {
        "settings": dump_settings(subject.settings),
        "model": {**subject.details, "fingerprint": subject.fingerprint},
        "data": samples.fingerprint,
    }
    about = json.loads(json.dumps(document))
    if found is not None and found.about == about:
        return found
    (attribution,) = subject.attributions.values()
    placed = replace(batch, x=subject.place(batch.x))
    measured = replace(measure_jacobian(attribution, placed), about=about)
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
            expected="a Jacobian that attribound stored",
            got=f"a damaged or foreign file: {error}",
            remedy="delete it: it is measured again",
        ) from error
    sample = about.pop("sample")
    return DenseJacobian(matrix, table["input"].to_numpy(), sample, about)
