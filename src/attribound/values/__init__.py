"""A value is its own setting: what a user constructs is what is stored, read and shown."""

from attribound.values.assigning import changed
from attribound.values.fields import NO_SETTING
from attribound.values.foreign import fingerprints
from attribound.values.parsing import parse_text
from attribound.values.registry import class_of, name_of, names, register
from attribound.values.text import spec_text, to_text
from attribound.values.value import Record, Value, from_spec, to_spec

__all__ = [
    "NO_SETTING",
    "Record",
    "Value",
    "changed",
    "class_of",
    "fingerprints",
    "from_spec",
    "name_of",
    "names",
    "parse_text",
    "register",
    "spec_text",
    "to_spec",
    "to_text",
]
