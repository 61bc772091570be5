from __future__ import annotations

import sys

import pytest

from attribound.basics.later import Later


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
