"""How to repeat a run: its settings, and the command or the lines of Python that use them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pprint import pformat
from typing import Any

from attribound.auditing.given import GIVEN
from attribound.auditing.manifest import Manifest
from attribound.auditing.settings import AuditSettings, complete, read_settings
from attribound.auditing.store import Run
from attribound.values import to_spec

_BARE = re.compile(r"[A-Za-z0-9_-]+")
#: Lines of settings can't end the file early: no TOML line consists of this word.
_END = "END-OF-SETTINGS"
_WIDTH = 100


def command(run: Run) -> str:
    """Shell lines that write the settings of ``run`` to a file and audit with them.

    Where model or data were objects in a program, they are Python. Settings that have their
    defaults are left out.
    """
    settings = short_settings(run.manifest)
    sources = {name: str(settings[name]) for name in ("model", "data")}
    if not any(text.startswith(GIVEN) for text in sources.values()):
        trust = " --trust" if run.manifest.names_code else ""
        last = f"attribound audit --config audit.toml{trust} --out runs/again"
        return "\n".join([f"cat > audit.toml <<'{_END}'", to_toml(settings), _END, last])
    model, data = (name if text.startswith(GIVEN) else repr(text) for name, text in sources.items())
    others = {name: value for name, value in settings.items() if name not in sources}
    return "\n".join(
        [
            "# in Python, with the objects that the program had:",
            "import attribound as ab",
            "",
            f"settings = {pformat(others, width=_WIDTH, sort_dicts=False)}",
            f'ab.audit({model}, {data}, out="runs/again", **settings)',
        ]
    )


def short_settings(manifest: Manifest) -> dict[str, Any]:
    """The settings of a run as plain data, without those that follow from the others."""
    try:
        settings = read_settings(manifest.settings)
        plain: dict[str, Any] = to_spec(_open(settings))
    # Values of somebody else, which may be missing here or fail in any way.
    except Exception:
        plain = without_none(manifest.settings)
    return plain


def _open(settings: AuditSettings) -> AuditSettings:
    """Settings that :func:`complete` makes these, with as much as possible left to the protocol."""
    for name in ("claims", "attacks", "own_attacks", "value_range"):
        fewer: dict[str, Any] = {name: None}
        shorter = replace(settings, **fewer)
        if complete(shorter) == complete(settings):
            settings = shorter
    return settings


def without_none(value: Any) -> Any:
    """Without what is None: in whole settings these are nearly always the defaults."""
    if isinstance(value, Mapping):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    return [without_none(item) for item in value] if isinstance(value, (list, tuple)) else value


def to_toml(settings: Mapping[str, object]) -> str:
    r"""Settings as TOML, a line for each; TOML has no null, which settings read as ``"none"``.

    >>> to_toml({"model": "zoo:a", "balls": [{"kind": "l2", "epsilon": 0.1}]})
    'model = "zoo:a"\nballs = [{kind = "l2", epsilon = 0.1}]'
    """
    return "\n".join(f"{_key(name)} = {_value(value)}" for name, value in settings.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: object) -> str:
    if value is None:
        return _text("none")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items())
        return f"{{{inner}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item) for item in value)}]"
    raise TypeError(f"no setting is a {type(value).__name__}")


def _text(text: str) -> str:
    """A basic string: TOML's escapes are JSON's, and one for DEL, which JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
