"""A run in the formats of other tools: CSV, Parquet, JSON, LaTeX."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from attribound.auditing.store import Run
from attribound.auditing.summary import summarise
from attribound.basics.errors import InputError
from attribound.basics.whole_files import store_whole, storing
from attribound.report.summary_table import summary_table


def csv(run: Run) -> bytes:
    """Every row; empty where there is no value."""
    out = io.BytesIO()
    pa.csv.write_csv(run.table(), out)
    return out.getvalue()


def parquet(run: Run) -> bytes:
    """Every row in one file, with what the run is made of in its metadata."""
    described = {b"attribound.run.json": json.dumps(_manifest(run)).encode()}
    out = io.BytesIO()
    table = run.table().replace_schema_metadata(described)
    pa.parquet.write_table(table, out, compression="zstd")
    return out.getvalue()


def as_json(run: Run) -> bytes:
    """``run`` (settings, versions, fingerprints), ``summary`` and ``rows``.

    JSON has no infinity: it becomes the text ``"inf"``.
    """
    table = run.table()
    document = {
        "run": _manifest(run),
        "summary": [summary.record() for summary in summarise(table)],
        "rows": [_plain(row) for row in table.to_pylist()],
    }
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    return f"{text}\n".encode()


def latex(run: Run) -> bytes:
    """The table of the run for LaTeX with booktabs, names escaped."""
    found = summary_table(summarise(run.table()))
    width = len(found.header)
    lines = [
        r"% \usepackage{booktabs}",
        rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}",
        r"\toprule",
        " & ".join(escape_latex(name) for name in found.header) + r" \\",
    ]
    for block in found.blocks:
        lines += [
            r"\midrule",
            rf"\multicolumn{{{width}}}{{l}}{{{escape_latex(block.title)}}} \\",
            *(" & ".join(escape_latex(text) for text in row) + r" \\" for row in block.rows),
        ]
    lines += [r"\bottomrule", r"\end{tabular}"]
    return ("\n".join(lines) + "\n").encode()


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedbl{}",
    "∞": r"$\infty$",
    "ε": r"$\varepsilon$",
    "°": r"$^\circ$",
    **{character: rf"\{character}" for character in "&%$#_{}"},
}


def escape_latex(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> escape_latex("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


FORMATS: dict[str, Callable[[Run], bytes]] = {
    "csv": csv,
    "parquet": parquet,
    "json": as_json,
    "latex": latex,
}


def export(run: Run, format: str, path: str | os.PathLike[str]) -> Path:
    """Write ``run`` to ``path`` as ``csv``, ``parquet``, ``json`` or ``latex``.

    CSV, Parquet and JSON have every row; LaTeX has the summary.

    Raises:
        InputError: another format.
        StorageError: the system refused to write.
    """
    if format not in FORMATS:
        raise InputError(
            "format", expected=f"one of {', '.join(FORMATS)}", got=repr(format), remedy="choose one"
        )
    place = Path(path)
    with storing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
    store_whole(place, FORMATS[format](run))
    return place


def _manifest(run: Run) -> dict[str, Any]:
    manifest = run.manifest
    names = ("settings", "model", "data", "versions", "samples", "created", "identity")
    return {name: getattr(manifest, name) for name in names}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: str(value) if isinstance(value, float) and math.isinf(value) else value
        for name, value in row.items()
    }
