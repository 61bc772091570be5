"""docs/data.md: every snippet runs and shows what the text says."""

from __future__ import annotations

import re
from pathlib import Path

from attribound.data import NAMES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text()


def test_the_page_runs(capsys) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 5
    exec("\n".join(blocks), {"__name__": "page"})
    printed = capsys.readouterr().out
    assert "examples of shape (1, 8, 8), 10 classes" in printed
    assert "mnist: expected t10k-images-idx3-ubyte.gz in " in printed
    assert "pass size= to scale and crop" in printed
    assert "Images('pets', 6 examples of shape (3, 28, 28), 2 classes)" in printed
    assert "50 25 25 ('left', 'right')" in printed


def test_the_page_names_every_data_set() -> None:
    assert tuple(re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)) == NAMES
