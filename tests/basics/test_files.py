"""Tables, whole files, TOML files, installed packages, what is imported later."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from pathlib import Path

import pytest

import attribound as ab
from attribound.basics import whole_files
from attribound.basics.errors import InputError
from attribound.basics.later import Later
from attribound.basics.packages import package
from attribound.basics.tables import cell, render
from attribound.basics.toml_files import read_toml, toml_value
from attribound.basics.whole_files import (
    UNFINISHED,
    clear_leftovers,
    is_leftover,
    made_folder,
    sha256_of,
    write_whole,
)
from attribound.data import load


@pytest.mark.parametrize(
    ("value", "text"),
    [(1 / 3, "0.3333"), (123456.0, "1.235e+05"), (7, "7"), (True, "True"), ("ok", "ok")],
)
def test_cell(value, text) -> None:
    assert cell(value) == text


def test_table_is_a_title_a_header_a_rule_and_aligned_rows() -> None:
    lines = render("Title", ["name", "value"], [["a", 1 / 3], ["bcdef", 12]]).splitlines()
    assert lines[0] == "Title"
    assert lines[1].split() == ["name", "value"]
    assert [line.split() for line in lines[3:]] == [["a", "0.3333"], ["bcdef", "12"]]
    assert len({len(line) for line in lines[3:]}) == 1
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(("count", "shown", "more"), [(20, 20, None), (25, 20, 5)])
def test_long_tables_are_cut_and_say_so(count, shown, more) -> None:
    lines = render("T", ["i"], [[f"row{i}"] for i in range(count)]).splitlines()
    assert sum("row" in line for line in lines) == shown
    assert (lines[-1] == f"... and {more} more") == (more is not None)


def test_text_in_brackets_is_not_markup() -> None:
    text = render("T", ["[dim]"], [["[bold]"]])
    assert "[dim]" in text
    assert "[bold]" in text


def test_is_text_in_a_notebook_too(monkeypatch, capsys) -> None:
    """Rich would display the table there instead of writing it."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "0.5" in render("T", ["value"], [[0.5]])
    assert capsys.readouterr().out == ""


def test_a_file_is_replaced(tmp_path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    write_whole(path, memoryview(b"new"))
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, name) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    place = whole_files.os if name == "fsync" else whole_files.Path
    monkeypatch.setattr(place, name, lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_new_name_is_forced_to_the_disk(tmp_path, monkeypatch) -> None:
    synced = []
    real = os.fsync
    monkeypatch.setattr(whole_files.os, "fsync", lambda d: (synced.append(d), real(d)))
    write_whole(tmp_path / "file", b"new")
    assert len(synced) == 2  # the file, then its folder


def test_a_folder_that_cannot_be_opened_is_let_be(tmp_path) -> None:
    whole_files.sync_folder(tmp_path / "missing")


def test_only_what_a_killed_write_leaves_is_cleared(tmp_path, monkeypatch) -> None:
    """Hidden, and unfinished: neither alone. Also where another has cleared it meanwhile."""
    names = [".a", f"b{UNFINISHED}", f".c{UNFINISHED}", "d"]
    for name in names:
        (tmp_path / name).touch()
    assert [is_leftover(tmp_path / name) for name in names] == [False, False, True, False]
    clear_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([".a", f"b{UNFINISHED}", "d"])
    gone = tmp_path / f".e{UNFINISHED}"
    monkeypatch.setattr(type(tmp_path), "iterdir", lambda self: iter([gone]))
    clear_leftovers(tmp_path)


def test_sha256(tmp_path) -> None:
    content = b"x" * (2**20 + 1)
    (tmp_path / "file").write_bytes(content)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()


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


def test_gives_the_module() -> None:
    assert package("json.decoder", extra="data", purpose="x").JSONDecoder


@pytest.mark.parametrize(("module", "extra"), [("pooch", "data"), ("PIL.Image", "data")])
def test_names_the_extra_to_install(monkeypatch, module, extra) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    message = rf"images: expected the package {module.split('.')[0]}, .*'attribound\[{extra}\]'"
    with pytest.raises(ab.InputError, match=message):
        package(module, extra=extra, purpose="images")


def test_digits_without_scikit_learn(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(
        ab.InputError, match=r"digits: .* sklearn, .* pip install 'attribound\[demo\]'"
    ):
        load("digits")


@pytest.fixture
def made(tmp_path, monkeypatch) -> str:
    """The name of a module that nobody imported yet."""
    (tmp_path / "seldom_used.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "seldom_used"
    sys.modules.pop("seldom_used", None)


def test_it_is_imported_when_it_is_used(made) -> None:
    module = Later(made)
    assert made not in sys.modules
    assert module.answer == 42
    assert made in sys.modules
    assert "answer" in dir(Later(made))


def test_what_is_replaced_in_the_module_is_replaced_here(made, monkeypatch) -> None:
    module = Later(made)
    assert module.answer == 42
    monkeypatch.setattr(sys.modules[made], "answer", 43)
    assert module.answer == 43


def test_what_is_not_there_is_not_there(made) -> None:
    with pytest.raises(AttributeError, match="question"):
        Later(made).question  # noqa: B018
    with pytest.raises(ModuleNotFoundError, match="never_written"):
        Later("never_written").answer  # noqa: B018


@pytest.mark.parametrize("name", ["file", "file/below", "x" * 300, "a\0b", "circle"])
def test_what_can_be_no_folder(tmp_path, name) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(InputError, match=r"expected the name of a folder, .*; choose another"):
        made_folder(tmp_path / name)
    assert made_folder(tmp_path / "new" / "folder").is_dir()


def test_a_folder_that_the_system_refuses(tmp_path, monkeypatch) -> None:
    def refused(*args: object, **named: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(whole_files.StorageError, match=r"got Permission denied .EACCES.; check"):
        made_folder(tmp_path / "new")


def test_toml_that_takes_much_more_than_it_is(tmp_path) -> None:
    (tmp_path / "a.toml").write_text("a" + ".a" * 64 + " = 1")
    with pytest.raises(
        InputError, match=r"a.toml: expected keys of at most 64 parts, got 65, with"
    ):
        read_toml(tmp_path / "a.toml")
    (tmp_path / "a.toml").write_text(f"a{'.a' * 60} = [{'1.5, ' * 1000}]")
    assert "a" in read_toml(tmp_path / "a.toml")
    digits = "1" + "0" * 5000
    (tmp_path / "a.toml").write_text(f"a = {digits}")
    with pytest.raises(InputError, match="expected a TOML file, got ValueError: Exceeds the limit"):
        read_toml(tmp_path / "a.toml")
    assert toml_value(digits) == digits
