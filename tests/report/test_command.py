"""Settings survive the trip through the file the page shows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attribound as ab
from attribound.auditing import read_settings
from attribound.basics.toml_files import read_toml
from attribound.report.command import command, to_toml
from report import cases

tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")

SMOOTHED = ab.SmoothGrad(samples=4, label='of "four"')
CHOICES = {
    "plain": {},
    "smooth": {"smooth": 20.0, "attacks": {}},
    "values in values": {
        "attributions": (SMOOTHED, ab.IntegratedGradients(baseline=torch.zeros(3))),
        "balls": (ab.LpBall(0.1, 3, low=torch.tensor([0.0, 0.5])), ab.LinfBall(0.01, high=1)),
        "claims": (ab.FirstOrder(dense=False, norm=None), ab.MeanValue(shells=2, attack=None)),
        "attacks": {"often": ab.attacks.PGD(steps=3).repeat(5)},
    },
}


@pytest.mark.parametrize("changes", CHOICES.values(), ids=CHOICES)
def test_the_settings_of_a_run_come_back(tmp_path, changes) -> None:
    chosen = cases.settings(**changes)
    run = cases.run(tmp_path / "run", chosen, claims=cases.FACTORS)
    lines = command(run).splitlines()
    assert lines[0] == "cat > audit.toml <<'END-OF-SETTINGS'"
    assert lines[-2:] == [
        "END-OF-SETTINGS",
        "attribound audit --config audit.toml --out runs/again",
    ]
    (tmp_path / "audit.toml").write_text("\n".join(lines[1:-2]))
    again = read_settings(read_toml(tmp_path / "audit.toml"))
    assert again.document() == read_settings(chosen.document()).document()


def test_what_is_usual_is_left_out(tmp_path) -> None:
    """Also what the protocol would fill in anyway."""
    document = {"model": "zoo:a", "data": "digits", "limit": 8, "balls": "l2:epsilon=(0.1,0.2)"}
    chosen = read_settings({**document, "protocol": "strong"})
    lines = command(cases.run(tmp_path / "run", chosen)).splitlines()
    assert lines[1:-2] == [
        'model = "zoo:a"',
        'data = "digits"',
        "limit = 8",
        'balls = [{kind = "l2", epsilon = 0.1}, {kind = "l2", epsilon = 0.2}]',
        'protocol = {kind = "strong"}',
    ]
    other = read_settings({**document, "protocol": "strong", "claims": "certified"})
    assert 'claims = [{kind = "certified"}]' in command(cases.run(tmp_path / "other", other))


def test_a_model_at_hand_is_audited_again_in_python(tmp_path, monkeypatch) -> None:
    chosen = cases.settings(model="given:Net", balls=(ab.LpBall(0.1, float("inf")),))
    text = command(cases.run(tmp_path / "run", chosen))
    called = []
    monkeypatch.setattr(
        ab, "audit", lambda *given, **options: called.append((given, options)), raising=False
    )
    exec(text, {"model": "the object"})
    ((given, options),) = called
    assert given == ("the object", "fashion-mnist")
    assert options.pop("out") == "runs/again"
    again = read_settings({**options, "model": "given:Net", "data": "fashion-mnist"})
    assert again.document() == read_settings(chosen.document()).document()


def test_values_that_cannot_be_imported_are_written_as_they_were_stored(tmp_path) -> None:
    ball = {"kind": "nowhere.balls:Frozen", "epsilon": 0.1, "low": None}
    run = cases.run(tmp_path / "run", document={"balls": [ball]})
    document = tomllib.loads("\n".join(command(run).splitlines()[1:-2]))
    assert document["balls"] == [{"kind": "nowhere.balls:Frozen", "epsilon": 0.1}]
    assert document["model"] == "zoo:fashion-mnist/at"


scalars = st.text() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.booleans()
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(), values, max_size=4))
def test_anything_comes_back(document) -> None:
    text = to_toml(document)
    assert tomllib.loads(text) == document
    assert text.count("\n") == max(len(document) - 1, 0)


def test_a_value_that_is_no_setting_is_our_mistake() -> None:
    with pytest.raises(TypeError, match="no setting is a set"):
        to_toml({"x": set()})
