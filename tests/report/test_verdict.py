from __future__ import annotations

import pytest

import attribound as ab
from attribound.report.groups import groups
from attribound.report.verdict import verdict
from report import cases


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return groups(cases.run(tmp_path_factory.mktemp("verdict") / "run").rows())


def by_title(found):
    (part,) = verdict(found).parts
    assert part.title == ""
    return {claim.title: claim for claim in part.claims}


def test_exceeded_and_kept_claims_are_counted(found) -> None:
    count = sum(cell.exceeded("first_order").sum() for group in found for cell in group.cells)
    first = by_title(found)["first-order"]
    assert f"exceeded {count} of {23 * 8} bounds" in first.text
    assert first.tone == "bad"
    certified = by_title(found)["certified"]
    assert certified.text.startswith(f"no attack exceeded it ({23 * 8} bounds). It is proved")
    assert certified.tone == "neutral"  # one map is zero, one sample failed


def test_good_is_a_proof_with_no_bad_row_behind_it(tmp_path, monkeypatch) -> None:
    """A failed sample, an open direction, a bound that is missing: each takes the green away."""
    ball = cases.settings(balls=(ab.L2Ball(0.05),))
    monkeypatch.setitem(cases.FACTORS, "certified", 1.3)

    def tones(name: str, **changes: int) -> dict[str, str]:
        with monkeypatch.context() as patch:
            for constant in ("FAILED", "ZERO"):
                patch.setattr(cases, constant, changes.get(constant, -1))
            made = groups(cases.run(tmp_path / name, ball).rows())
        return {title: claim.tone for title, claim in by_title(made).items()}

    good = tones("good")
    assert good["certified"] == "good"
    assert good["mean-value (searched)"] != "good"  # not exceeded either, but no proof
    assert tones("failed", FAILED=3)["certified"] == "neutral"
    assert tones("open", ZERO=5)["certified"] == "neutral"
    monkeypatch.setitem(cases.FACTORS, "certified", 99.0)
    empty = by_title(groups(cases.run(tmp_path / "empty", ball).rows()))["certified"]
    assert empty.text == "it says nothing: all 46 bounds leave the direction open (180°)."
    assert empty.tone == "neutral"


def test_an_exceeded_certificate_is_called_an_error(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(cases.FACTORS, "certified", 0.5)
    claims = by_title(groups(cases.run(tmp_path / "run").rows()))
    assert "must not happen" in claims["certified"].text
    assert claims["certified"].tone == "bad"


def test_the_worst_angle_is_a_defined_one(found) -> None:
    angles = [
        (angle, sample)
        for group in found
        for cell in group.cells
        for angle, sample in zip(cell.strongest("degrees"), cell.samples, strict=True)
        if angle < 180
    ]
    angle, sample = max(angles)
    (paragraph,) = verdict(found).parts[0].paragraphs
    assert f"sample {sample} by {angle:.1f}°" in paragraph


def test_notes_name_what_limits_the_evidence(found) -> None:
    notes = " ".join(verdict(found, missing=4).notes)
    assert "samples missing: 4" in notes
    assert f"1 ({100 + 10 * cases.FAILED}); most often because of ModelError" in notes
    assert "is zero: 8." in notes
    assert "misclassified to begin with: 1." in notes


def test_without_attacks_nothing_is_concluded(tmp_path) -> None:
    said = verdict(groups(cases.run(tmp_path / "run", cases.settings(attacks={})).rows()))
    (part,) = said.parts
    assert part.paragraphs == ("No attack was made, so that nothing was held against the bounds.",)
    assert part.claims[0].text.startswith("not held against any attack.")
    assert part.claims[0].tone == "neutral"
