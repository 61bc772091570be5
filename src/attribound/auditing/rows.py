"""The rows of an audit: one per sample, attribution and ball, with records of what was found.

Numbers are null where something was not computed, with the reason in ``error`` or in the
``status`` of the bound. They are never NaN; angles of which nothing is known are 180.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

#: What identifies a row; tables are sorted by it.
KEY = ("sample", "attribution", "ball", "epsilon")

_INT, _FLOAT, _BOOL, _TEXT = pa.int64(), pa.float64(), pa.bool_(), pa.string()

#: Known of every row, also of a sample that failed.
_ALWAYS = {
    "sample": _INT,  # index in the data
    "batch": pa.int32(),
    "label": _INT,
    "attribution": _TEXT,
    "ball": _TEXT,  # the name of balls of all radii
    "epsilon": _FLOAT,
    "features": _INT,  # of the input
}
_SAMPLE = {
    "id": _TEXT,  # what the data calls the sample; null if nothing
    "error": _TEXT,  # null if fine
    "scores": _INT,  # of the attribution
    "prediction": _INT,
    "target": _INT,  # the class explained
    "correct": _BOOL,  # the prediction is the label
    "attribution_norm": _FLOAT,
}
#: With ``smooth``: how the smooth copy differs from the network at the sample.
_FIDELITY = {
    "label": _BOOL,
    "logits": _FLOAT,
    "attribution": _FLOAT,
    "degrees": _FLOAT,
    "ball_degrees": _FLOAT,  # the largest angle at random points of the ball
}
#: Of which network a bound or an attack speaks: the user's own, or its smooth copy.
#: ``AVERAGED`` is the noise-averaged map of the user's own: another map than the plain one.
YOURS, COPY, AVERAGED = "yours", "copy", "averaged"
_BOUND = {
    "claim": _TEXT,
    "subject": _TEXT,
    "euclidean": _FLOAT,  # null where the claim does not apply; the status says why
    "cosine": _FLOAT,
    "degrees": _FLOAT,
    "xi_lower": _FLOAT,
    "xi_upper": _FLOAT,
    "status": _TEXT,
    "source": _TEXT,
    "products": _INT,  # behind this number; those shared between rows count in each
    "seconds": _FLOAT,  # shares of the time of the batch: they add up
    "exceeded": _BOOL,  # by the strongest attack on its subject; null without attacks
    "degrees_exceeded": _BOOL,
    # Of the user's network by the strongest attack on that, whatever the bound speaks of.
    "yours_exceeded": _BOOL,
    "yours_degrees_exceeded": _BOOL,
    # Of averaged maps: the angle to the map that is shown, the cosine of that with the map at the
    # sample, the share of noisy inputs with its label.
    "shown_degrees": _FLOAT,
    "similarity": _FLOAT,
    "label_share": _FLOAT,
}
_REPEAT = {"deviation": _FLOAT, "degrees": _FLOAT, "kendall": _FLOAT, "label_kept": _BOOL}
_ATTACK = {
    "attack": _TEXT,  # its name in the settings
    "subject": _TEXT,
    "deviation": _FLOAT,  # largest over repeats
    "degrees": _FLOAT,  # largest over repeats
    "label_kept": _BOOL,  # by the repeat that moved furthest, as the next two
    "kendall": _FLOAT,
    "topk": _FLOAT,
    "evaluations": _INT,
    "seconds": _FLOAT,
}
_LIST, _PLACES, _FLAGS = pa.list_(_FLOAT), pa.list_(_INT), pa.list_(_BOOL)
#: What stays of the largest scores under a claim; lists are of these scores, the largest first.
_REASON = {
    "claim": _TEXT,
    "subject": _TEXT,
    "status": _TEXT,  # why nothing is said, else null
    "features": _PLACES,  # in the flattened map
    "values": _LIST,
    "low": _LIST,
    "high": _LIST,
    "sign_kept": _FLAGS,
    "stays": _FLAGS,
    "kept": _INT,  # so many surely stay
    "order_kept": _INT,
    # By the attack on the list that left fewest: how many, the list there, their scores there.
    "attacked_kept": _INT,
    "attacked_features": _PLACES,
    "attacked_values": _LIST,
    "exceeded": _BOOL,  # it left fewer than surely stay, by more than the evaluation error
    "seconds": _FLOAT,
}
#: The attack that moved a sample furthest; ``degrees`` is the largest angle of all.
_STRONGEST = {
    "by": _TEXT,
    "deviation": _FLOAT,
    "degrees": _FLOAT,
    "label_kept": _BOOL,
    "kendall": _FLOAT,
    "topk": _FLOAT,
}


def _struct(fields: Mapping[str, pa.DataType]) -> pa.StructType:
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


_ATTACK_RECORD = _struct({**_ATTACK, "repeats": pa.list_(_struct(_REPEAT))})
SCHEMA = pa.schema(
    [
        *(pa.field(name, kind, nullable=False) for name, kind in _ALWAYS.items()),
        *(pa.field(name, kind) for name, kind in _SAMPLE.items()),
        pa.field("fidelity", _struct(_FIDELITY)),
        pa.field("strongest", _struct(_STRONGEST)),  # on what was bounded
        pa.field("yours", _struct(_STRONGEST)),  # on the user's own network
        pa.field("averaged", _struct(_STRONGEST)),  # on the averaged map
        pa.field("bounds", pa.list_(_struct(_BOUND)), nullable=False),
        pa.field("attacks", pa.list_(_ATTACK_RECORD), nullable=False),
        pa.field("reasons", pa.list_(_struct(_REASON))),  # null if none were asked for
    ]
)
MAPS_SCHEMA = pa.schema(
    [
        pa.field("sample", _INT, nullable=False),
        pa.field("attribution", _TEXT, nullable=False),
        pa.field("ball", _TEXT, nullable=False),
        pa.field("epsilon", _FLOAT, nullable=False),
        pa.field("shape", pa.list_(pa.int32()), nullable=False),
        pa.field("map_shape", pa.list_(pa.int32()), nullable=False),
        *(
            pa.field(name, pa.list_(pa.float32()), nullable=False)
            for name in ("input", "clean_map", "delta", "attacked_map")
        ),
    ]
)


def table(rows: Sequence[Mapping[str, object]], columns: pa.Schema) -> pa.Table:
    """Rows, sorted by :data:`KEY`, as a table of exactly these columns.

    A key that is none of them is a mistake of ours.
    """
    unknown = {key for row in rows for key in row} - set(columns.names)
    assert not unknown, unknown
    made = pa.Table.from_pylist([dict(row) for row in rows], schema=columns)
    order = [(name, "ascending") for name in KEY]
    return made.take(pc.sort_indices(made.select(list(KEY)), sort_keys=order))


def samples(rows: pa.Table) -> pa.Table:
    """One line a row, without the lists; ``strongest_deviation`` and so on are columns."""
    plain = rows.drop_columns(["bounds", "attacks", "reasons"])
    for name in ("fidelity", "strongest", "yours", "averaged"):
        at = plain.schema.get_field_index(name)
        struct = (
            plain[name].combine_chunks() if plain.num_rows else pa.nulls(0, SCHEMA.field(name).type)
        )
        plain = plain.remove_column(at)
        for field in SCHEMA.field(name).type:
            plain = plain.append_column(f"{name}_{field.name}", pc.struct_field(struct, field.name))
    return plain


def long(rows: pa.Table, name: str) -> pa.Table:
    """One line a record of a list (``bounds``, ``attacks``, ``reasons``), beside the row's key."""
    lists = rows[name].combine_chunks()
    parents = pc.list_parent_indices(lists)
    records = pc.list_flatten(lists)
    keys = [column for column in _ALWAYS if column != "batch"]
    found = rows.select([*keys, "error", "id"]).take(parents)
    for field in SCHEMA.field(name).type.value_type:
        found = found.append_column(field.name, pc.struct_field(records, field.name))
    return found


def untimed(rows: pa.Table) -> pa.Table:
    """The rows without what differs between two runs of the same settings."""
    listed = rows.to_pylist()
    for row in listed:
        for record in (*row["bounds"], *row["attacks"], *(row["reasons"] or ())):
            record["seconds"] = None
    return pa.Table.from_pylist(listed, schema=rows.schema)


_ONE = {"features": "feature", "values": "value", "attacked_values": "attacked_value"}
#: One line a reason.
REASONS_SCHEMA = pa.schema(
    [
        *((name, kind) for name, kind in _ALWAYS.items() if name != "batch"),
        *((name, _TEXT) for name in ("id", "error", "claim", "subject", "status")),
        *(("rank", _INT), ("feature", _INT), ("name", _TEXT)),
        *((name, _FLOAT) for name in ("value", "low", "high")),
        *(("sign_kept", _BOOL), ("stays", _BOOL)),
        *(("attacked_value", _FLOAT), ("attacked_stays", _BOOL)),
        *((name, _INT) for name in ("kept", "order_kept", "attacked_kept")),
        ("exceeded", _BOOL),
    ]
)


def reasons(rows: pa.Table, names: Callable[[int], Sequence[str]] = lambda _: ()) -> pa.Table:
    """One line a reason: its rank from 1, place, name, score, ends, and what an attack made of it.

    ``names`` gives those of all scores of maps of so many; the place itself where there is none.
    A claim that says nothing has one line, with its status.
    """
    lines = []
    for row in rows.drop_columns(["bounds", "attacks"]).to_pylist():
        called = names(row["scores"] or 0)
        for record in row["reasons"] or ():
            lists = [name for name in _REASON if isinstance(record[name], list)]
            whole = {**row, **{name: record[name] for name in _REASON if name not in lists}}
            whole["features"] = row["features"]  # of the input
            there = record["attacked_features"]
            lines += [] if record["features"] else [whole]
            for rank, place in enumerate(record["features"] or ()):
                own = {_ONE.get(name, name): record[name][rank] for name in lists}
                own |= {"rank": rank + 1, "name": called[place] if called else str(place)}
                own["attacked_stays"] = None if there is None else place in there
                lines.append({**whole, **own})
    found = [{name: each.get(name) for name in REASONS_SCHEMA.names} for each in lines]
    return pa.Table.from_pylist(found, REASONS_SCHEMA)
