from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields

from attribound.values import NO_SETTING
from attribound.values.fields import default, settings


@dataclass
class Example:
    needed: int
    usual: int = 3
    made: list[int] = field(default_factory=lambda: [1])
    shown: bool = field(default=False, metadata=NO_SETTING)
    derived: int = field(default=0, init=False)


def test_settings_are_what_a_user_gives() -> None:
    assert [each.name for each in settings(Example)] == ["needed", "usual", "made"]


def test_defaults_are_made_anew() -> None:
    by_name = {each.name: each for each in fields(Example)}
    assert default(by_name["needed"]) is MISSING
    assert default(by_name["usual"]) == 3
    assert default(by_name["made"]) == [1]
    assert default(by_name["made"]) is not default(by_name["made"])
