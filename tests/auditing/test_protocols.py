from __future__ import annotations

import pytest

from attribound.auditing.protocols import PRESETS, complete
from attribound.auditing.settings import (
    PROTOCOLS,
    AuditSettings,
    BallSettings,
    IFIASettings,
    PGDSettings,
)

BALLS = (BallSettings("l2", (0.1,)), BallSettings("linf", (0.01,)), BallSettings("l1", (1.0,)))


def test_every_protocol_has_a_preset() -> None:
    assert tuple(PRESETS) == PROTOCOLS


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_complete_leaves_nothing_open_and_complete_settings_alone(protocol) -> None:
    whole = complete(AuditSettings("m", "d", protocol=protocol))
    names = ("claims", "attacks", "first_order", "mean_value", "certified")
    assert all(getattr(whole, name) is not None for name in names)
    assert complete(whole) == whole


def test_what_is_given_stays() -> None:
    given = AuditSettings("m", "d", claims=("certified", "first_order"), attacks={})
    whole = complete(given)
    assert whole.claims == ("first_order", "certified")  # in the order of tables
    assert whole.attacks == {}


def test_the_papers_attacks_go_to_the_papers_balls() -> None:
    whole = complete(AuditSettings("m", "d", balls=BALLS, protocol="paper"))
    assert whole.claims == ("first_order",)
    assert whole.attacks == {
        "ifia": IFIASettings(steps=200, repeats=20, norms=("linf",)),
        "pgd": PGDSettings(steps=20, repeats=20, norms=("l2", "l1")),
    }
    only = complete(AuditSettings("m", "d", balls=BALLS[:1], protocol="paper"))
    assert list(only.attacks) == ["pgd"]


def test_calibrated_is_claimed_with_a_calibration_only() -> None:
    assert "calibrated" not in complete(AuditSettings("m", "d", protocol="strong")).claims
    for protocol in PROTOCOLS:
        settings = AuditSettings("m", "d", calibration="c.json", protocol=protocol)
        assert "calibrated" in complete(settings).claims


@pytest.mark.parametrize("protocol", ["quick", "strong"])
def test_attacks_do_not_start_where_the_mean_value_search_does(protocol) -> None:
    """Else the bound would know the attack it is held against."""
    whole = complete(AuditSettings("m", "d", protocol=protocol))
    inside = whole.mean_value.build(whole.first_order.build()).attack

    def random_starts(attack) -> set[int]:
        return {attack.seed + 1000 * i for i in range(getattr(attack, "random_starts", 0))}

    assert random_starts(inside) == {0, 1000}
    for seed in (0, 1, 7):
        ascents = [each.build(9, seed) for each in whole.attacks.values() if each.kind == "ascent"]
        assert any(random_starts(attack) for attack in ascents)
        for attack in ascents:
            assert not random_starts(attack) & random_starts(inside)
