"""Settings survive the trip through the file the page shows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribound.auditing.settings import dump_settings, parse_settings
from attribound.report.command import command, to_toml
from report import cases

tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")


def test_the_settings_of_a_run_come_back(tmp_path) -> None:
    chosen = cases.settings(smooth=20.0, attacks={})
    run = cases.run(tmp_path / "run", chosen)
    lines = command(run).splitlines()
    assert lines[0] == "cat > audit.toml <<'END-OF-SETTINGS'"
    assert lines[-2:] == [
        "END-OF-SETTINGS",
        "attribound audit --config audit.toml --out runs/again",
    ]
    document = tomllib.loads("\n".join(lines[1:-2]))
    assert dump_settings(parse_settings(document)) == dump_settings(chosen)


def test_a_model_at_hand_is_audited_again_in_python(tmp_path) -> None:
    chosen = cases.settings(model="given:Net")
    lines = command(cases.run(tmp_path / "run", chosen)).splitlines()
    assert lines[-1] == (
        'audit(model, "fashion-mnist", out="runs/again", **read_toml("audit.toml"))'
    )
    document = tomllib.loads("\n".join(lines[1 : lines.index("END-OF-SETTINGS")]))
    assert not {"model", "data"} & document.keys()
    whole = parse_settings({**document, "model": "given:Net", "data": "fashion-mnist"})
    assert dump_settings(whole) == dump_settings(chosen)


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
