"""docs/calibration.md: every snippet runs and shows what the text says."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "calibration.md").read_text()


def test_the_page_runs(capsys) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 6
    exec("\n".join(blocks), {"__name__": "page"})
    printed = capsys.readouterr().out
    assert "claim: calibrated" in printed
    assert "calibration samples: expected 19 or more for alpha=0.05" in printed
    assert "attribution: expected IntegratedGradients(" in printed
    shares = [int(share) for share in re.findall(r"bound held for (\d+)%", printed)]
    assert shares[0] < shares[1]
