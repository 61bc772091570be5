"""The root of the command line: version, help, errors in one line, exit codes."""

from __future__ import annotations

import sys

import pytest
import typer
from typer.testing import CliRunner

import attribound
from attribound import cli
from attribound.basics.errors import InputError
from attribound.cli.app import Readable, app

runner = CliRunner()


def test_the_version_is_the_packages() -> None:
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"attribound {attribound.__version__}\n")


def test_help_names_the_commands_and_exit_codes() -> None:
    shown = runner.invoke(app, ["--help"]).output
    for words in ("train", "zoo", "Exit codes"):
        assert words in shown


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("x", expected="a", got="b", remedy="c"), 2, "x: expected a, got b; c"),
        (PermissionError(13, "Permission denied", "/root"), 2, "Permission denied: '/root'"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_expected_errors_are_one_line_and_an_exit_code(error, code, said) -> None:
    small = typer.Typer(cls=Readable)

    @small.callback()
    def root() -> None: ...

    @small.command()
    def fail() -> None:
        raise error

    result = runner.invoke(small, ["fail"])
    assert result.exit_code == code
    assert result.stderr.startswith("attribound: ")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_bugs_are_not_hidden() -> None:
    small = typer.Typer(cls=Readable)

    @small.callback()
    def root() -> None: ...

    @small.command()
    def fail() -> None:
        raise ZeroDivisionError("of nothing")

    found = runner.invoke(small, ["fail"])
    assert found.exit_code == 70
    assert "raise ZeroDivisionError" in found.stderr  # where it was
    assert found.stderr.splitlines()[-1].startswith("attribound: crashed with ZeroDivisionError")


def test_main_runs_the_app(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["attribound", "--version"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("attribound ")
