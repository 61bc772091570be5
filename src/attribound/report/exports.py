"""A run in the formats of other tools: CSV, Parquet, JSON, LaTeX."""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from attribound.auditing import Run, summarise
from attribound.basics.errors import InputError
from attribound.basics.terminal import printable
from attribound.basics.whole_files import store_whole, storing
from attribound.report.subjects import copy_of
from attribound.report.summary_table import summary_table

#: What a format has: contents of files, by what is added to the stem of the path.
Files = dict[str, bytes]


def csv(run: Run) -> Files:
    """The samples; and beside them, a line each, all bounds, attacks and reasons (if asked for).

    Empty where there is no value. Repeats of attacks are no table: Parquet and JSON have them.
    """
    attacks = run.attacks().drop_columns(["repeats"])
    samples = _named(run) if run.manifest.settings.get("smooth") else run.samples()
    files = {"": _csv(samples), "-bounds": _csv(run.bounds()), "-attacks": _csv(attacks)}
    return files | ({"-reasons": _csv(run.reasons())} if _listed(run) else {})


def _listed(run: Run) -> bool:
    return run.manifest.settings.get("keep") is not None


def _named(run: Run) -> pa.Table:
    """The samples, where the strongest attack on a smooth copy is in columns ``copy_...``."""
    samples = run.samples()
    names = [re.sub("^strongest_", "copy_", name) for name in samples.column_names]
    return samples.rename_columns(names)


def _csv(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pa.csv.write_csv(table, out)
    return printable(out.getvalue().decode()).encode()  # for who looks at it with cat


def parquet(run: Run) -> Files:
    """Every row with its records in one file, and what the run is made of in its metadata.

    Beside it, if they were asked for, the reasons, a line each, with the names of their scores.
    """
    described = {b"attribound.run.json": json.dumps(_manifest(run)).encode()}
    tables = {"": run.rows()} | ({"-reasons": run.reasons()} if _listed(run) else {})
    files = {}
    for ending, table in tables.items():
        out = io.BytesIO()
        pa.parquet.write_table(table.replace_schema_metadata(described), out, compression="zstd")
        files[ending] = out.getvalue()
    return files


def as_json(run: Run) -> Files:
    """``run`` (settings, versions, fingerprints), ``summary`` and ``rows`` with their records.

    JSON has no infinity: it becomes the text ``"inf"``.
    """
    rows = run.rows()
    document = {
        "run": _manifest(run),
        "summary": [summary.record() for summary in summarise(rows)],
        "rows": _plain(rows.to_pylist()),
    }
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    return {"": f"{text}\n".encode()}


def latex(run: Run, columns: Sequence[str] | None = None) -> Files:
    """The table of the run for LaTeX with booktabs, names escaped; some of its columns or all."""
    found = summary_table(summarise(run.rows()), copy_of(run.manifest.settings))
    found = found if columns is None else found.only(columns)
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
        if block.note:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{{escape_latex(block.note)}}} \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    return {"": ("\n".join(lines) + "\n").encode()}


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedbl{}",
    "∞": r"$\infty$",
    "ε": r"$\varepsilon$",
    "β": r"$\beta$",
    "°": r"$^\circ$",
    **{character: rf"\{character}" for character in "&%$#_{}"},
}


def escape_latex(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> escape_latex("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


FORMATS: dict[str, Callable[..., Files]] = {
    "csv": csv,
    "parquet": parquet,
    "json": as_json,
    "latex": latex,
}


def export(
    run: Run, format: str, path: str | os.PathLike[str], columns: Sequence[str] | None = None
) -> list[Path]:
    """Write ``run`` to ``path`` as ``csv``, ``parquet``, ``json`` or ``latex``.

    Parquet and JSON have every row; LaTeX has the summary. CSV has no records inside rows:
    ``rows.csv`` has the samples, and ``rows-bounds.csv``, ``rows-attacks.csv`` and
    ``rows-reasons.csv`` the rest. Reasons are in a file of their own beside Parquet, too. The files
    are returned, ``path`` first. ``columns`` are those of the LaTeX table, by their names, for
    one that fits a column of text.

    Raises:
        InputError: another format, or a column that there is not.
        StorageError: the system refused to write.
    """
    if format not in FORMATS:
        raise InputError(
            "format", expected=f"one of {', '.join(FORMATS)}", got=repr(format), remedy="choose one"
        )
    if columns is not None and format != "latex":
        raise InputError(
            "columns", expected="format latex", got=repr(format), remedy="leave them out"
        )
    chosen = {} if columns is None else {"columns": columns}
    files = FORMATS[format](run, **chosen)
    place = Path(path)
    with storing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for ending, content in files.items():
        written.append(place.with_name(f"{place.stem}{ending}{place.suffix}"))
        store_whole(written[-1], content)
    return written


def _manifest(run: Run) -> dict[str, Any]:
    manifest = run.manifest
    names = ("settings", "model", "data", "versions", "inputs", "samples", "created", "identity")
    return {name: getattr(manifest, name) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value
