"""README and docs: every snippet runs, generated parts are what the code gives."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("render", ROOT / "docs" / "render.py")
render = importlib.util.module_from_spec(spec)
spec.loader.exec_module(render)

README = (ROOT / "README.md").read_text()


def part(name: str) -> str:
    return re.search(rf"<!-- begin {name} -->\n(.*?)\n<!-- end", README, re.DOTALL)[1]


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"(?<![\w'])-?\d+\.?\d*(?:e-?\d+)?", text)]


def test_the_readme_shows_what_its_example_prints() -> None:
    """Words to the letter, numbers to two percent: other processors round differently."""
    shown, printed = part("example output"), f"```text\n{render.run(README)}\n```"
    assert re.findall("[a-zA-Z']+", shown) == re.findall("[a-zA-Z']+", printed)
    assert numbers(shown) == pytest.approx(numbers(printed), rel=0.02, abs=1e-4)


def test_the_example_has_ten_lines() -> None:
    (block,) = render.python_blocks(README)
    assert len([line for line in block.splitlines() if line.strip()]) <= 10


def test_the_readme_has_the_claims_of_the_code() -> None:
    assert part("claims") == render.claims()


def test_the_guide_runs() -> None:
    printed = render.run((ROOT / "docs" / "guide.md").read_text())
    assert "relu in '1' (ReLU)" in printed
    assert "derivatives that agree with finite differences" in printed


def test_a_part_that_is_missing_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected one part 'x', found 0"):
        render.fill("nothing", "x", "y")


def test_the_paper_page_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "paper.md").read_text()
    files = re.findall(r"`((?:bounding|attributions)/\w+\.py)`", text)
    assert len(files) >= 10
    assert all((ROOT / "src" / "attribound" / name).exists() for name in files)
