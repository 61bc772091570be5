"""``run.json``: what a run is made of, so that only the same can go on with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeGuard

from attribound.basics.errors import InputError
from attribound.basics.limits import read_json
from attribound.basics.whole_files import store_whole
from attribound.values.registry import FOREIGN

RUN = "run.json"
FORMAT = "attribound run"
VERSION = 3

#: Versions that may change the numbers. The others are stored for the reader only.
_DECISIVE = ("attribound", "torch")

#: Samples of a run, far beyond what anyone can audit.
_MOST = 10**9
_IMAGE = 3  # dimensions

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Manifest:
    """Everything the rows of a run follow from, and the shape they have.

    Attributes:
        settings: all settings, as JSON has them.
        model: its name, ``fingerprint`` and details.
        data: its name, ``fingerprint`` (of the chosen examples), classes and shape.
        versions: of attribound, torch and what else was installed.
        samples: how many are audited, in batches of ``batch`` in a fixed order.
        batch: samples in one part; the last has the rest.
        rows_per_sample: one for each attribution and ball.
        created: when, in UTC.
        inputs: SHA-256 of other files and code that decide the rows, such as calibrations.
    """

    settings: Json
    model: Json
    data: Json
    versions: Json
    samples: int
    batch: int
    rows_per_sample: int
    created: str
    inputs: Json = field(default_factory=dict)

    @property
    def batches(self) -> int:
        """How many parts a finished run has."""
        return -(-self.samples // self.batch)

    def size(self, number: int) -> int:
        """How many samples batch ``number`` has."""
        return min(self.batch, self.samples - number * self.batch)

    @property
    def names_code(self) -> bool:
        """Whether going on with it runs code of the user's own: a factory, or values."""
        own = any(FOREIGN.fullmatch(name) for name in self.inputs)
        return own or self.model.get("kind") == "factory"

    @property
    def identity(self) -> str:
        """SHA-256 of all that decides the rows: the same for two runs of the same audit."""
        content = {name: value for name, value in self._content() if name != "created"}
        content["versions"] = {name: self.versions.get(name) for name in _DECISIVE}
        content["model"] = self.model["fingerprint"]
        content["data"] = self.data["fingerprint"]
        return _digest(content)

    @property
    def checksum(self) -> str:
        """SHA-256 of all of it, names and classes too; every part carries it.

        So no entry is changed unnoticed, not even by someone who computes the hashes anew.
        """
        return _digest(dict(self._content()))

    def score_names(self, scores: int) -> list[str]:
        """What the scores of maps of so many are called: features, columns or pixels by place.

        Empty if nothing is known of them.
        """
        for kind in ("features", "columns"):
            names = self.data.get(kind) or ()
            if len(names) == scores:
                return [str(name) for name in names]
        shape: Sequence[int] = self.data.get("shape") or ()
        if len(shape) != _IMAGE:
            return []
        channels, height, width = shape
        pixels = [f"row {row}, column {column}" for row in range(height) for column in range(width)]
        if scores == len(pixels):
            return pixels
        several = [f"channel {channel}, {name}" for channel in range(channels) for name in pixels]
        return several if scores == len(several) else []

    def differences(self, other: Manifest) -> list[str]:
        """What keeps ``other`` from going on with this run, as ``name: stored, now given``."""
        pairs = [
            ("settings", self.settings, other.settings),
            ("model", self.model["fingerprint"], other.model["fingerprint"]),
            ("data", self.data["fingerprint"], other.data["fingerprint"]),
            *((name, self.versions.get(name), other.versions.get(name)) for name in _DECISIVE),
            ("inputs", self.inputs, other.inputs),
            ("samples", self.samples, other.samples),
            ("batch", self.batch, other.batch),
            ("rows per sample", self.rows_per_sample, other.rows_per_sample),
        ]
        return [
            f"{name} was {_short(old)}, is {_short(new)}"
            for label, stored, given in pairs
            for name, old, new in _compare(label, stored, given)
        ]

    def write(self, folder: Path) -> None:
        """Store it in ``folder``, whole or not at all."""
        document = {
            "format": FORMAT,
            "format_version": VERSION,
            "identity": self.identity,
            "checksum": self.checksum,
        }
        text = json.dumps({**document, **dict(self._content())}, indent=1, ensure_ascii=False)
        store_whole(folder / RUN, f"{text}\n".encode())

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """That of the run in ``folder``.

        Raises:
            InputError: there is none, or it is damaged or of another version.
        """
        path = folder / RUN
        try:
            document = read_json(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _refusal(path, "no such file") from error
        except InputError:
            raise
        except ValueError as error:  # no JSON, or no text
            raise _refusal(path, f"no JSON: {error}") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise _refusal(path, "another kind of file")
        if document.get("format_version") != VERSION:
            raise InputError(
                str(path),
                expected=f"format version {VERSION}",
                got=repr(document.get("format_version")),
                remedy="use the attribound that wrote it, or audit again",
            )
        try:
            found = cls(**{each.name: document[each.name] for each in fields(cls)})
            found._check(path)
            digests = {"identity": found.identity, "checksum": found.checksum}
        except (KeyError, TypeError, AttributeError) as error:
            raise _refusal(path, f"a missing or damaged entry: {error}") from error
        if any(document.get(name) != digest for name, digest in digests.items()):
            raise _refusal(path, "entries that were changed since")
        return found

    def _check(self, path: Path) -> None:
        """Refuse numbers and tables that no run has."""
        for name in ("settings", "model", "data", "versions", "inputs"):
            if not isinstance(getattr(self, name), Mapping):
                raise TypeError(f"{name} is no table")
        for name, least in (("samples", 0), ("batch", 1), ("rows_per_sample", 1)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= _MOST:
                raise InputError(
                    str(path),
                    expected=f"{name} from {least} to {_MOST:,}",
                    got=_short(value),
                    remedy="no run has that many: audit again into a new folder",
                )

    def _content(self) -> Iterator[tuple[str, Any]]:
        for each in fields(self):
            yield each.name, getattr(self, each.name)


def _compare(name: str, stored: object, given: object) -> Iterator[tuple[str, object, object]]:
    """The leaves at which two JSON values differ."""
    if isinstance(stored, Mapping) and isinstance(given, Mapping):
        for key in dict.fromkeys((*stored, *given)):
            yield from _compare(f"{name}.{key}", stored.get(key), given.get(key))
    elif _listed(stored) and _listed(given) and len(stored) == len(given):
        for number, pair in enumerate(zip(stored, given, strict=True)):
            yield from _compare(f"{name}.{number}", *pair)
    elif _plain(stored) != _plain(given):
        yield name, stored, given


def _digest(content: object) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _listed(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple))


def _plain(value: object) -> object:
    """As it is after a trip through JSON, where tuples become lists."""
    return json.loads(json.dumps(value))


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _refusal(path: Path, reason: str) -> InputError:
    return InputError(
        str(path),
        expected="the description of a run, written by attribound audit",
        got=reason,
        remedy="check the path, or audit again into a new folder",
    )
