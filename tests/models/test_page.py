"""docs/models.md: every snippet runs and shows what the text says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from attribound.models import config_from_json

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text()


def test_the_page_runs(capsys) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    exec("\n".join(blocks), {"__name__": "page"})
    printed = capsys.readouterr().out
    assert "same logits: True" in printed
    assert "relu in 'act1' (ReLU)" in printed
    assert "SmoothResNet18" in printed


def test_the_json_on_the_page_is_a_config() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    data = json.loads(shown)
    assert config_from_json(data).to_json() == data
