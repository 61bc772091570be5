"""How to repeat a run: its settings as a file, and the command that reads it."""

from __future__ import annotations

import json
import math
import re

from attribound.auditing.audited import GIVEN
from attribound.auditing.store import Run

_BARE = re.compile(r"[A-Za-z0-9_-]+")
#: Lines of settings can't end the file early: no TOML line consists of this word.
_END = "END-OF-SETTINGS"


def command(run: Run) -> str:
    """Shell lines that write the settings of ``run`` to a file and audit with them.

    Where model or data were objects in a program, the last lines are Python.
    """
    settings = dict(run.manifest.settings)
    given = {name: str(settings[name]).startswith(GIVEN) for name in ("model", "data")}
    if any(given.values()):
        model, data = (
            name if given[name] else json.dumps(settings[name]) for name in ("model", "data")
        )
        settings = {name: value for name, value in settings.items() if name not in given}
        last = [
            "# then in Python, with the objects that the program had:",
            "from attribound.auditing.audit import audit",
            "from attribound.basics.toml_files import read_toml",
            f'audit({model}, {data}, out="runs/again", **read_toml("audit.toml"))',
        ]
    else:
        last = ["attribound audit --config audit.toml --out runs/again"]
    return "\n".join([f"cat > audit.toml <<'{_END}'", to_toml(settings), _END, *last])


def to_toml(settings: dict[str, object]) -> str:
    r"""Settings as TOML, a line for each; TOML has no null, so what is unset is left out.

    >>> to_toml({"model": "zoo:a", "limit": None, "balls": [{"norm": "l2", "epsilons": [0.1]}]})
    'model = "zoo:a"\nballs = [{norm = "l2", epsilons = [0.1]}]'
    """
    return "\n".join(
        f"{_key(name)} = {_value(value)}" for name, value in settings.items() if value is not None
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        known = {name: item for name, item in value.items() if item is not None}
        return f"{{{', '.join(f'{_key(name)} = {_value(known[name])}' for name in known)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item) for item in value)}]"
    raise TypeError(f"no setting is a {type(value).__name__}")


def _text(text: str) -> str:
    """A basic string: TOML's escapes are JSON's, and one for DEL, which JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
