from __future__ import annotations

import pytest

import attribound as ab
from attribound.attacks import IFIA, PGD, AttributionAscent, OnlyIn, Repeated
from attribound.auditing.protocols import Paper, Protocol, Quick, Strong
from attribound.auditing.settings import AuditSettings, complete
from attribound.values import from_spec, names

BALLS = (ab.L2Ball(0.1), ab.LinfBall(0.01), ab.LpBall(1.0, 1))


@pytest.mark.parametrize("name", names(Protocol))
def test_every_protocol_claims_and_attacks_in_every_ball(name) -> None:
    protocol = from_spec(name, Protocol)
    claims, attacks = protocol.claims(), protocol.attacks(BALLS)
    assert all(method.ready for method in claims)
    assert len({method.claim.name for method in claims}) == len(claims) > 0
    for ball in BALLS:
        assert any(attack.applies(ball) for attack in attacks.values()), ball


def test_the_papers_attacks_go_to_the_papers_balls() -> None:
    assert Paper().claims() == (ab.FirstOrder(), ab.Adjusted())
    assert Paper().attacks(BALLS) == {
        "ifia": OnlyIn(Repeated(IFIA(steps=200), 20), ("linf",)),
        "pgd": OnlyIn(Repeated(PGD(steps=20), 20), ("l2", "l1")),
    }
    assert list(Paper().attacks(BALLS[:1])) == ["pgd"]
    assert list(Paper().attacks(BALLS[1:2])) == ["ifia"]
    attacks = Paper().attacks(BALLS)
    assert [attacks["pgd"].applies(ball) for ball in BALLS] == [True, False, True]
    assert [attacks["ifia"].applies(ball) for ball in BALLS] == [False, True, False]


def test_the_papers_theorems_are_about_whole_balls() -> None:
    assert (Paper().value_range, Quick().value_range, Strong().value_range) == (
        "none",
        "data",
        "data",
    )


def test_strong_claims_all_about_slopes_that_needs_no_more_settings() -> None:
    made = {type(method) for method in Strong().claims()}
    known = {claim.method for claim in ab.claims() if claim.method is not None}
    assert {kind for kind in known if kind().ready and kind.needs_slopes} == made
    assert ab.Calibrated not in made


@pytest.mark.parametrize("protocol", [Quick(), Paper(), Strong()])
def test_calibrated_is_claimed_with_a_calibration_only(protocol) -> None:
    assert ab.Calibrated() not in protocol.claims()
    given = AuditSettings("m", "d", methods=(ab.Calibrated("c"),), protocol=protocol)
    assert ab.Calibrated("c") in complete(given).claims


@pytest.mark.parametrize("protocol", [Quick(), Strong()])
def test_attacks_do_not_start_where_the_mean_value_search_does(protocol) -> None:
    """Else the bound would know the attack it is held against."""
    whole = complete(AuditSettings("m", "d", protocol=protocol))
    (method,) = (each for each in whole.claims if isinstance(each, ab.MeanValue))

    def random_starts(attack) -> set[int]:
        return {attack.seed + 1000 * i for i in range(getattr(attack, "random_starts", 0))}

    assert random_starts(method.attack) == {1000 * i for i in range(8)}
    for seed in (0, 1, 7):
        attacks = AuditSettings("m", "d", attacks=whole.attacks, seed=seed).made_attacks
        ascents = [each for each in attacks.values() if isinstance(each, AttributionAscent)]
        assert any(random_starts(attack) for attack in ascents)
        for attack in ascents:
            assert not random_starts(attack) & random_starts(method.attack)
