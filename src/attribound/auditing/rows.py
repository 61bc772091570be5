"""The columns of an audit: one row per sample, attribution and ball.

Numbers are null where something was not computed, with the reason in ``error`` or in the
``status`` of the claim. They are never NaN; angles of which nothing is known are 180.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from attribound.auditing.protocols import complete
from attribound.auditing.settings import AuditSettings

#: What identifies a row; tables are sorted by it.
KEY = ("sample", "attribution", "norm", "epsilon")

_INT, _FLOAT, _BOOL, _TEXT = pa.int64(), pa.float64(), pa.bool_(), pa.string()

#: Known of every row, also of a sample that failed.
_ALWAYS = {
    "sample": _INT,  # index in the data
    "batch": pa.int32(),
    "label": _INT,
    "attribution": _TEXT,
    "norm": _TEXT,
    "p": _FLOAT,
    "epsilon": _FLOAT,
    "features": _INT,
}
_SAMPLE = {
    "error": _TEXT,  # null if fine
    "prediction": _INT,
    "target": _INT,  # the class explained
    "correct": _BOOL,  # the prediction is the label
    "attribution_norm": _FLOAT,
    "xi_lower": _FLOAT,
    "xi_upper": _FLOAT,
    "adjusted": _FLOAT,
    "adjusted_cosine": _FLOAT,
    "adjusted_degrees": _FLOAT,
    "adjusted_broken": _BOOL,
}
_CLAIM = {
    "": _FLOAT,
    "_cosine": _FLOAT,
    "_degrees": _FLOAT,
    "_status": _TEXT,
    "_source": _TEXT,
    "_products": _INT,  # behind this number; those shared between rows count in each
    "_seconds": _FLOAT,  # shares of the time of the batch: they add up
    "_broken": _BOOL,
    "_degrees_broken": _BOOL,
}
_ATTACK = {
    "": _FLOAT,  # largest deviation over repeats
    "_mean": _FLOAT,  # mean over repeats, as the paper takes it
    "_degrees": _FLOAT,  # largest angle over repeats
    "_mean_degrees": _FLOAT,
    "_mean_kendall": _FLOAT,
    "_repeats": _INT,
    "_outside": _INT,  # repeats beyond the first-order bound
    "_kept": _INT,  # repeats that kept the label, as the next three are of these alone
    "_kept_outside": _INT,
    "_kept_mean": _FLOAT,  # null if there are none
    "_kept_mean_degrees": _FLOAT,
    "_label_kept": _BOOL,  # by the repeat that moved furthest, as the next two
    "_kendall": _FLOAT,
    "_topk": _FLOAT,
    "_evaluations": _INT,
    "_seconds": _FLOAT,
}
_BEST = {
    "attack": _FLOAT,  # largest deviation over attacks
    "attack_by": _TEXT,
    "attack_degrees": _FLOAT,  # largest angle over attacks
    "attack_label_kept": _BOOL,  # by the attack that moved furthest, as the next two
    "kendall": _FLOAT,
    "topk": _FLOAT,
}
#: With ``smooth``: how the smooth copy differs at the sample, and the best attack on the original.
_SMOOTHED = {
    "fidelity_label": _BOOL,
    "fidelity_logits": _FLOAT,
    "fidelity_attribution": _FLOAT,
    "fidelity_degrees": _FLOAT,
    "original_attack": _FLOAT,
    "original_attack_degrees": _FLOAT,
    "original_label_kept": _BOOL,
}
MAPS_SCHEMA = pa.schema(
    [
        pa.field("sample", _INT, nullable=False),
        pa.field("attribution", _TEXT, nullable=False),
        pa.field("norm", _TEXT, nullable=False),
        pa.field("epsilon", _FLOAT, nullable=False),
        pa.field("shape", pa.list_(pa.int32()), nullable=False),
        *(
            pa.field(name, pa.list_(pa.float32()), nullable=False)
            for name in ("input", "clean_map", "delta", "attacked_map")
        ),
    ]
)


def schema(settings: AuditSettings) -> pa.Schema:
    """The columns of the rows of an audit, which depend on its settings only."""
    whole = complete(settings)
    columns = dict(_SAMPLE)
    for claim in whole.claims or ():
        columns |= {f"{claim}{suffix}": kind for suffix, kind in _CLAIM.items()}
    for attack in whole.attacks or {}:
        columns |= {f"attack_{attack}{suffix}": kind for suffix, kind in _ATTACK.items()}
    columns |= _BEST
    if whole.smooth is not None:
        columns |= _SMOOTHED
    always = [pa.field(name, kind, nullable=False) for name, kind in _ALWAYS.items()]
    return pa.schema([*always, *(pa.field(name, kind) for name, kind in columns.items())])


def claims_in(names: Sequence[str]) -> list[str]:
    """The claims that a table with columns of these ``names`` has."""
    ends = "_source"
    return [name.removesuffix(ends) for name in names if name.endswith(ends)]


def attacks_in(names: Sequence[str]) -> list[str]:
    """The attacks that a table with columns of these ``names`` has."""
    ends = "_evaluations"
    return [name[len("attack_") : -len(ends)] for name in names if name.endswith(ends)]


def timings_in(names: Sequence[str]) -> list[str]:
    """The columns that differ between two runs of the same settings."""
    return [name for name in names if name.endswith("_seconds")]


def table(rows: Sequence[Mapping[str, object]], columns: pa.Schema) -> pa.Table:
    """Rows, sorted by :data:`KEY`, as a table of exactly these columns.

    A key that is none of them is a mistake of ours.
    """
    unknown = {key for row in rows for key in row} - set(columns.names)
    assert not unknown, unknown
    made = pa.Table.from_pylist([dict(row) for row in rows], schema=columns)
    return made.sort_by([(name, "ascending") for name in KEY])
