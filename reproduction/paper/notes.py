"""What a reader of the tables must know: how numbers were made, from the plan itself."""

from __future__ import annotations

from collections.abc import Collection

from attribound.attacks import IFIA, PGD, Attack, OnlyIn, Repeated, Through
from reproduction.paper.plan import Plan

#: Of the norms, in headings.
NORMS = {"l2": "l2", "linf": "l∞"}
STRONG = (
    "The same samples under our strongest attacks: T̂ is the furthest of each sample by any of "
    "them or the paper's, brackets are the share of samples beyond the bound before them. In "
    "parentheses what the paper prints for its own attacks."
)
ERRORS = (
    "± is the standard error over samples; intervals in brackets are Wilson's, 95 %, of samples: "
    "repeats of one sample are not independent."
)
LABEL = "Only perturbations that keep the label count; the bound is the same with and without."
SCALE = "T_e scales with the logits of a network; T_e / |g| is in the JSON file as “relative”."
ANGLES = (
    "T_c is the mean of the angles that are limited at all (T_e < |g|; the others are counted as "
    "“undefined” in the JSON file). The paper's is the arc sine of one ratio of means, which is "
    "“T_c of means” here."
)
STILL = (
    "Where IFIA finds nothing that keeps the label it stays at the input: such samples are in no "
    "number of the attack, and counted as “still” in the JSON file."
)
CUBE = (
    "T_e in l∞ is Theorem 2, or Corollary 1 where that is smaller, of the samples whose dense "
    "Jacobian was made; “certificate” is our tighter dual certificate of more samples. Where "
    "there is no Theorem 2, T_e is that certificate. Their ratio is in the JSON file as "
    "“theorem_by_certificate”."
)


def rules_of(plan: Plan) -> str:
    """Which attribution the tables have, and what attacks on it climb."""
    parts = []
    for data in plan.data.values():
        climbed = f", {data.climbed} where attacks climb a cheaper rule" if data.climbed else ""
        parts.append(f"{data.title} {data.attribution}{climbed}")
    return (
        "Attributions, on which everything is judged: "
        f"{'; '.join(dict.fromkeys(parts))}. How far these are from the integral, and what an "
        "attack loses that climbs the cheaper rule, is measured in “rules” and “cheaper”."
    )


def protocol_of(plan: Plan) -> str:
    """How the numbers of a table with the paper's attacks were made, from the plan itself."""
    specs = [spec for data in plan.data for spec in plan.of_data(data, ("paper",))]
    settings = [plan.settings(specs[0], kind) for kind in plan.kinds_of(specs[0])]
    made = dict.fromkeys(
        _described(attack, {ball.name for ball in each.balls})
        for each in settings
        for attack in (each.attacks or {}).values()
    )
    return (
        "Each number is ours, with the paper's in parentheses; n are our samples, those "
        "attacked before those with a bound where these are more. T̂ are means over "
        f"{' or '.join(sorted(made, reverse=True))}, brackets the share of repeats beyond T_e."
    )


def _described(attack: Attack, norms: Collection[str]) -> str:
    """An attack of the paper in words."""
    if isinstance(attack, Through):
        attack = attack.attack
    if isinstance(attack, OnlyIn):
        norms, attack = attack.balls, attack.attack
    where = f" ({', '.join(NORMS[norm] for norm in norms)})"
    times = 1
    if isinstance(attack, Repeated):
        times, attack = attack.times, attack.attack
    how = type(attack).__name__
    if isinstance(attack, PGD):
        how = f"PGD-{attack.steps}"
    elif isinstance(attack, IFIA):
        how = f"{attack.steps} steps of IFIA"
    return f"{times} repeat{'s' * (times != 1)} of {how}{where}"
