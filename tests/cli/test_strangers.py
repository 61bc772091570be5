"""Files from strangers: refused in one line, without running code or taking much memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attribound.basics.errors import InputError
from attribound.basics.limits import little_memory, read_text, refuse_inflation
from attribound.basics.terminal import printable, terminal
from attribound.basics.trusting import from_file, only_said, refuse_unsaid, trust
from attribound.cli.app import app
from fuzz import CASES, MARK


@pytest.mark.parametrize("name", CASES)
def test_hostile_files_are_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, CASES[name](tmp_path))
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stderr.strip().count("\n") == 0, result.stderr
    assert "expected" in result.stderr
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize("more", [[], ["--trust"]])
def test_what_a_trusted_file_names_runs(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other side: these cases refuse for want of trust, not for another reason."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*CASES["factory in TOML"](tmp_path), *more])
    assert result.exit_code == 2  # a folder is no network
    assert (tmp_path / MARK).exists() is bool(more)
    assert ("--trust" in result.stderr) is not more


class TestTrust:
    def test_a_program_of_the_users_own_may_name_anything(self) -> None:
        refuse_unsaid("nets:build")

    @pytest.mark.parametrize(
        ("word", "said"),
        [
            ("--model=nets:build", True),
            ('nets:build?{"width": 4}', True),
            ("my.nets:build", False),
            ("nets:builder", False),
            ("nets:build.inner", False),
            ("nets", False),
        ],
    )
    def test_whole_names_count(self, word: str, said: bool) -> None:
        with only_said(["audit", word]):
            if said:
                refuse_unsaid("nets:build")
            else:
                with pytest.raises(InputError, match=r"nets:build in a file.*--trust"):
                    refuse_unsaid("nets:build")

    def test_trust_ends_with_the_command(self) -> None:
        with only_said([]):
            trust()
            with from_file():
                refuse_unsaid("nets:build")
        with from_file(), pytest.raises(InputError, match="code that you name yourself"):
            refuse_unsaid("nets:build")


class TestLimits:
    def test_what_grows_little_passes(self) -> None:
        refuse_inflation("f", 2**27, 1, "")
        refuse_inflation("f", 200 * 2**30, 2**30, "")
        with pytest.raises(InputError, match=r"f: expected data of at most 128 MiB.*got 128 MiB"):
            refuse_inflation("f", 2**27 + 1, 1, "pack less")

    def test_settings_are_small_plain_files(self, tmp_path: Path) -> None:
        file = tmp_path / "a.json"
        with file.open("wb") as stream:
            stream.truncate(2**26 + 1)
        for path in (file, tmp_path):
            with pytest.raises(InputError, match=r"expected a plain file of at most 64 MiB"):
                read_text(path)

    @pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
    def test_little_memory_is_a_limit_that_ends(self) -> None:
        with pytest.raises(MemoryError), little_memory(0):
            bytearray(2**33)
        assert len(bytearray(2**20)) == 2**20


class TestTerminal:
    @pytest.mark.parametrize("code", [*range(32), 0x7F, 0x9B, 0x061C, 0x200F, 0x202E, 0x2069])
    def test_what_a_terminal_would_obey_is_escaped(self, code: int) -> None:
        shown = printable(f"a{chr(code)}b")
        assert (chr(code) in shown) is (chr(code) in "\n\t")
        assert chr(code) not in str(InputError(chr(code), expected="", got="", remedy="")) or (
            chr(code) in "\n\t"
        )

    def test_names_stay(self) -> None:
        assert printable("Rhône é 中 \n\t") == "Rhône é 中 \n\t"

    def test_tables_are_careful(self, capsys: pytest.CaptureFixture[str]) -> None:
        terminal(wide=40).print("a\x1b]0;owned\x07b\u202ec", markup=False)
        assert capsys.readouterr().out == "a\\x1b]0;ownedb\\u202ec\n"
