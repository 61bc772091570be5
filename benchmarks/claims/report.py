"""The report, from stored rows alone."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attribound.auditing.cells import Numbers
from attribound.basics.tables import cell as number
from attribound.basics.tables import render
from claims import goals
from claims.plan import LARGE
from claims.scores import CLAIMS, Score, Scored, pool, scored

_AT_X = "l-infinity at x: norm solver against Theorem 2"
_FURTHER = 1.001  # less may be rounding: passes that end at the same point do not agree exactly


def report(rows: pa.Table, linear: pa.Table) -> str:
    """Goals first, then what the second pass added, every cell, costs and settings."""
    found = scored(rows)
    parts = [_goals(found, linear), _passes(found)]
    networks = dict.fromkeys(cell.network for cell in found)
    parts += [_claims([cell for cell in found if cell.network == name]) for name in networks]
    parts += [_linear(linear), _costs(found)]
    parts += [settings_told([*linear["settings"].unique(), *rows["settings"].unique()])]
    return "\n\n".join(part for part in parts if part)


def _goals(found: Sequence[Scored], linear: pa.Table) -> str:
    groups = {
        "Mean-value bounds": goals.mean_value(found),
        "Calibrated first-order bounds, alpha .05": goals.calibrated(found),
        "Calibrated mean-value bounds, alpha .05": goals.calibrated(found, "calibrated_mean_value"),
        "Certified bounds": goals.certified(found),
        f"{_AT_X}, 784 features": goals.linear(linear, 784),
        **{f"{_AT_X}, 3072 features, {name}": goals.linear(linear, 3072, name) for name in LARGE},
    }
    return "\n\n".join(
        render(
            title,
            ["", "measured", "goal", ""],
            [[goal.text, goal.measured, goal.goal, goal.verdict] for goal in members],
        )
        for title, members in groups.items()
    )


def _passes(found: Sequence[Scored]) -> str:
    """What the second pass of attacks exceeded alone."""
    both = [each for cell in found for each in cell.measured]
    further = [each.attack("second") > _FURTHER * each.attack("first") for each in both]
    text = [
        "Every pair of image and ball is attacked in two passes and the larger deviation counts,",
        "in tests and in calibration. The second starts at random points that neither the bounds",
        "nor the first have seen; it went further than the first, by more than 0.1 %,",
        f"on {sum(int(each.sum()) for each in further)} of {sum(map(len, both))} pairs.",
    ]
    shown = []
    for claim in CLAIMS:
        have = [cell.scores[claim] for cell in found if claim in cell.scores]
        if have:
            whole = pool(have)
            shown.append([_words(claim), whole.count, whole.exceeded, whole.only_second])
    title = "Exceeded by the second pass alone, of pairs of test image and ball"
    header = ["", "pairs", "exceeded", "only by the second pass"]
    return "\n".join([*text, "", render(title, header, shown)] if shown else text)


def _claims(members: Sequence[Scored]) -> str:
    """One network: share of images with an exceeded bound, and mean slack, for each claim."""
    rows = []
    for cell in members:
        most = max(score.count for score in cell.scores.values())
        shown = [_shown(cell.scores.get(claim), most) for claim in CLAIMS]
        rows.append([cell.attribution, cell.ball, f"{most}+{cell.calibrations}", *shown])
    title = (
        f"{members[0].network}: share of images whose bound was exceeded, mean of bound / attack"
    )
    return render(title, ["", "ball", "images", *map(_words, CLAIMS)], rows)


def _shown(score: Score | None, most: int) -> str:
    if score is None:
        return "-"
    fewer = f" ({score.count})" if score.count < most else ""
    return f"{score.share:.0%} {number(score.slack)}{fewer}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _linear(rows: pa.Table) -> str:
    """The l-infinity problem at x by network and attribution."""
    shown = []
    keys = zip(rows["network"].to_pylist(), rows["attribution"].to_pylist(), strict=True)
    for network, attribution in dict.fromkeys(keys):
        same = pc.and_(
            pc.equal(rows["network"], network), pc.equal(rows["attribution"], attribution)
        )
        own = {name: np.asarray(values) for name, values in rows.filter(same).to_pydict().items()}
        tight, gap = own["norm_upper"] / own["theorem2"], own["norm_upper"] / own["norm_lower"]
        costs = [own[name] for name in ("norm_products", "norm_seconds", "theorem2_seconds")]
        means = [float(each.mean()) for each in (tight, gap, *costs)]
        sizes = [int(own["features"][0]), len(tight)]
        shown.append([network, attribution, *sizes, means[0], float(tight.max()), *means[1:]])
    header = ["", "", "features", "images", "upper / Theorem 2", "largest", "upper / lower"]
    header += ["products", "seconds", "seconds, Theorem 2"]
    return render("max |J delta| over the cube, by the norm solver", header, shown) if shown else ""


def _costs(found: Sequence[Scored]) -> str:
    """What an image costs, by network and attribution."""
    shown = []
    for network, attribution in dict.fromkeys((cell.network, cell.attribution) for cell in found):
        same = [c for c in found if (c.network, c.attribution) == (network, attribution)]
        cells = [each for cell in same for each in cell.measured]
        names, counted = ("first_order", "mean_value", "certified"), ("first_order", "mean_value")
        columns = [
            *([each.attack(name, "seconds") for each in cells] for name in ("second", "first")),
            *([each.bound(name, "seconds") for each in cells] for name in names),
            *([each.bound(name, "products") for each in cells] for name in counted),
        ]
        shown.append([network, attribution, *(_average(np.concatenate(own)) for own in columns)])
    header = ["", "", "second attack", "attack", "first order", "mean value", "certified"]
    header += ["products, first order", "products, mean value"]
    title = "Seconds of one core an image, mean over balls; mean value includes its own attack"
    return render(title, header, shown) if shown else ""


def _average(values: Numbers) -> float | str:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else "-"


def settings_told(texts: Sequence[pa.Scalar]) -> str:
    """Every setting the rows were computed with; more than one value is shown as such."""
    values: dict[str, dict[str, None]] = {}
    for text in texts:
        told = json.loads(text.as_py())
        told |= {method["kind"]: method for method in told.pop("claims", ())}
        told |= {f"{name} attack": attack for name, attack in told.pop("attacks", {}).items()}
        told |= {f"own {name}": attack for name, attack in told.pop("own_attacks", {}).items()}
        for key in told.keys() - {"network", "attributions", "balls", "smooth"}:
            values.setdefault(key, {})[json.dumps(told[key])] = None
    return "\n".join(
        ["Settings", *(f"  {key}: {' | '.join(values[key])}" for key in sorted(values))]
    )
