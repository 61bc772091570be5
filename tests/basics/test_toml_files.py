"""Settings in TOML."""

from __future__ import annotations

import pytest

from attribound.basics.errors import InputError
from attribound.basics.toml_files import read_toml, toml_value


def test_a_document(tmp_path) -> None:
    (tmp_path / "a.toml").write_text('name = "ü"\n[part]\nvalue = 1.5\n', encoding="utf-8")
    assert read_toml(tmp_path / "a.toml") == {"name": "ü", "part": {"value": 1.5}}


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (b"a = = 1", "TOMLDecodeError"),
        (b"a = '\xff'", "UnicodeDecodeError"),
        (None, "FileNotFound"),
    ],
)
def test_what_is_no_toml_is_refused_by_name(tmp_path, content, got) -> None:
    if content is not None:
        (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(InputError, match=rf"a\.toml: expected a TOML file, got {got}"):
        read_toml(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("1e-3", 1e-3), ("true", True), ('"1"', "1"), ("adam", "adam"), ("[1, 2]", [1, 2])],
)
def test_values(text, value) -> None:
    found = toml_value(text)
    assert found == value
    assert type(found) is type(value)
