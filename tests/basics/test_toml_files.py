"""Settings in TOML."""

from __future__ import annotations

import pytest

from attribound.basics.errors import InputError
from attribound.basics.toml_files import read_toml, toml_value


def test_a_document(tmp_path) -> None:
    (tmp_path / "a.toml").write_text('name = "ü"\n[part]\nvalue = 1.5\n', encoding="utf-8")
    assert read_toml(tmp_path / "a.toml") == {"name": "ü", "part": {"value": 1.5}}


def test_a_table_of_a_document(tmp_path) -> None:
    (tmp_path / "a.toml").write_text("[one]\nvalue = 1\n[one.two]\nx = 2\n[three]\n")
    assert read_toml(f"{tmp_path}/a.toml#one") == {"value": 1, "two": {"x": 2}}
    assert read_toml(tmp_path / "a.toml#three") == {}


def test_a_file_may_have_the_sign_in_its_name(tmp_path) -> None:
    (tmp_path / "a.toml#one").write_text("value = 1\n")
    assert read_toml(tmp_path / "a.toml#one") == {"value": 1}


@pytest.mark.parametrize(
    ("content", "remedy"),
    [("[one]\n[two]\n", "it has one, two"), ("three = 3\n", "it has no tables")],
)
def test_a_table_that_is_not_there_is_refused_by_name(tmp_path, content, remedy) -> None:
    (tmp_path / "a.toml").write_text(content)
    with pytest.raises(InputError, match=rf"name of a table in .*a\.toml, got 'three'.*{remedy}"):
        read_toml(tmp_path / "a.toml#three")


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
