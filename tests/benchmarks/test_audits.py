"""``make bench-audits``: what it says of two sides, and that it goes on where it was."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import audits
from audits import PLAN, Audited, compared, stored, write


def side(seconds: float, bound: float, attack: float, delta: list[float]) -> Audited:
    return Audited(seconds, [({"mean_value": bound}, {"weak": 0.1, "strong": attack}, delta)])


def test_both_sides_are_compared_image_by_image() -> None:
    before = [side(3.0, 2.0, 1.0, [0.0, 1.0]), side(6.0, 4.0, 1.0, [0.0, 1.0])]
    after = [side(2.0, 2.0, 1.0, [0.0, 1.0]), side(1.0, 3.0, 0.5, [0.25, 1.0])]
    found = compared(before, after)
    assert (found["images"], found["seconds"], found["before/now"]) == ("2", "1.5", "3.00")
    assert found["rounds"] == "1.50-6.00"
    assert (found["mean-value"], found["lowest"]) == ("-12.50%", "-25.00%")
    assert (found["attacks"], found["weakest"]) == ("-25.00%", "-50.00%")
    assert found["apart"] == "2e-01"


def test_an_attack_alone_has_no_bounds() -> None:
    both = [Audited(1.0, [({}, {"ifia": 1.0}, [0.0])])]
    found = compared(both, both)
    assert (found["mean-value"], found["lowest"], found["apart"]) == ("-", "-", "0e+00")


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(audits, "TEXT", tmp_path / "audits.txt")
    return tmp_path / "audits.txt"


def test_rows_are_read_as_they_were_written(text: Path) -> None:
    assert stored() == {}
    one = [side(2.0, 1.0, 1.0, [])]
    rows = {case: [*case, *compared(one, one).values()] for case in [*PLAN][:2]}
    write(rows, "fdd97a4")
    assert stored() == rows
    last = text.read_text().splitlines()[-1]
    assert last.startswith("not measured yet") == (max(PLAN.values()) > 1)


def test_it_goes_on_where_it_was(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both sides in turn, a few images at a time; what is there is not made again."""
    made: list[tuple[str, range]] = []

    def audited(root: Path, network: str, protocol: str, images: range) -> Audited:
        made.append((root.name, images))
        sample = side(1.0, 1.0, 1.0, []).samples
        return Audited(2.0 if root.name == "before" else 1.0, sample * len(images))

    monkeypatch.setattr(audits, "audited", audited)
    monkeypatch.setattr(audits.subprocess, "run", lambda *_, **__: None)
    asked = ["audits.py", "--networks", "SmallCNN", "--protocols", "quick", "--images", "6"]
    monkeypatch.setattr(sys, "argv", asked)
    audits.main()
    here = audits.ROOT.name
    assert made == [
        ("before", range(4)),
        (here, range(4)),
        ("before", range(4, 6)),
        (here, range(4, 6)),
    ]
    assert stored()["SmallCNN", "quick"][2:5] == ["6", "0.3", "2.00"]
    assert capsys.readouterr().out == text.read_text()
    audits.main()
    assert len(made) == 4
    monkeypatch.setattr(sys, "argv", [*asked, "--anew"])
    audits.main()
    assert len(made) == 8
