"""Attack averaged maps, where a bound of an audit speaks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attribound.auditing.at_work import Say
from attribound.auditing.attacked import Found, Prey, attack_all
from attribound.auditing.bounded import Fields
from attribound.auditing.rows import AVERAGED
from attribound.auditing.settings import ON_AVERAGED, AuditSettings
from attribound.balls import Ball


def on_averaged(
    settings: AuditSettings,
    own: Prey,
    ball: Ball,
    bounds: Sequence[Sequence[Fields]],
    say: Say,
) -> Found:
    """Attack the averaged map of the user's network, where a bound speaks of it."""
    spoken = {
        each["claim"] for records in bounds for each in records if each.get("subject") == AVERAGED
    }
    for method in settings.claims or ():
        attack = method.opponent()
        if method.claim.name in spoken and attack is not None:
            about = method.speaks_of(own.attribution, own.x, ball)
            prey = replace(own, attribution=about, clean=about(own.x, own.target))
            attack = attack.seeded(1_000_003 * settings.seed)
            return attack_all(prey, ball, {ON_AVERAGED: attack}, AVERAGED, say)
    return attack_all(own, ball, {}, AVERAGED)
