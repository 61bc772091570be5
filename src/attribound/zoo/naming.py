"""Names of models: ``<data>/<method>[-<network>]``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from attribound.basics.errors import InputError

_NAME = re.compile(r"([a-z0-9][a-z0-9-]*)/([a-z0-9][a-z0-9-]*)")


def check_name(name: str) -> str:
    """``name``, refused unless it is a name; so it never leads out of the directory of a zoo."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            "name of a model",
            expected="<data>/<method>, of small letters, digits and hyphens",
            got=repr(name),
            remedy="use e.g. fashion-mnist/trades-igr",
        )
    return name


def check_describes(name: str, data: str, method: str, architecture: str) -> None:
    """Refuse a ``name`` that tells another story than the model's settings.

    ``trades+igr`` is ``trades-igr`` in names; ``-`` and the architecture may follow,
    and after that what tells two of them apart.
    """
    own_data, _, rest = check_name(name).partition("/")
    wanted = _slug(method)
    network = rest.removeprefix(wanted)
    fits = not network or re.match(f"-{_slug(architecture)}(-|$)", network)
    if own_data != _slug(data) or not rest.startswith(wanted) or not fits:
        plain = f"{_slug(data)}/{wanted}"
        raise InputError(
            "name of a model",
            expected=f"{plain} or {plain}-{_slug(architecture)}, for that is what it is",
            got=repr(name),
            remedy="choose a name of that form",
        )


def unknown(name: str, known: Collection[str]) -> InputError:
    """The error for a ``name`` that no place has, with the nearest of the ``known`` ones."""
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.4)
    expected = f"a model of the zoo, such as {', '.join(near)}" if near else "a model of the zoo"
    return InputError(
        "name of a model",
        expected=expected,
        got=repr(name),
        remedy="attribound.zoo.names() lists all; ATTRIBOUND_ZOO adds a directory of your own",
    )


def _slug(words: str) -> str:
    return re.sub("[^a-z0-9]+", "-", words.lower()).strip("-")
