"""The report, from stored rows alone."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from attribound.auditing.rows import COPY
from attribound.basics.tables import cell as number
from attribound.basics.tables import render
from claims.report import settings_told
from relu.networks import NETWORKS
from relu.plan import COPIES
from relu.scores import STAGES, Score, Scored, fraction, pool, scored

_SUBJECTS = {COPY: "the copy"}  # anything else is the network itself
_ROWS = 20  # of a table


def report(rows: pa.Table) -> str:
    """What claims are worth for the networks, fidelity, attacks, every cell, costs, settings."""
    found = scored(rows)
    if not found:
        return "Nothing is measured yet."
    networks = [*dict.fromkeys(each.network for each in found)]
    parts = [_networks(found), _whole(found), *_by_network(found), _fidelity(found)]
    parts += [_stages(found), _winners(found)]
    for name in networks:
        parts += _cells([each for each in found if each.network == name])
    parts += [_refusals(found), _costs(found), settings_told(rows["settings"].unique())]
    return "\n\n".join(part for part in parts if part)


def _claims(found: Sequence[Scored]) -> list[str]:
    return [*dict.fromkeys(claim for each in found for claim in each.scores)]


def _pooled(found: Sequence[Scored], claim: str, smooth: str) -> Score | None:
    have = [e.scores[claim] for e in found if e.smooth == smooth and claim in e.scores]
    return pool(have) if have else None


def _networks(found: Sequence[Scored]) -> str:
    shown = []
    for name in dict.fromkeys(each.network for each in found):
        own = [each for each in found if each.network == name]
        tests = [len(each.test) for each in own]
        others = max(len(each.calibration or ()) for each in own)
        accuracy = float(own[0].test.numbers("accuracy")[0])
        count = f"{min(tests)} to {max(tests)}" if min(tests) < max(tests) else str(max(tests))
        cells = len({(each.attribution, each.ball) for each in own})
        about = NETWORKS[name].about if name in NETWORKS else ""
        shown.append([name, about, f"{accuracy:.1%}", cells, count, others or "-"])
    header = ["", "", "test accuracy", "cells", "examples a cell", "to calibrate"]
    return render("Networks, all with ReLU", header, shown)


_HEADER = ["subject", "pairs", "useful", "slack", "exceeded", "exceeded on the network"]
_HEADER += ["median", "at worst"]


def _columns(score: Score) -> list[object]:
    subject = _SUBJECTS.get(score.subject, "the network")
    return [
        subject,
        score.count,
        f"{score.useful:.0%}",
        number(score.slack),
        f"{score.exceeded / score.count:.0%}",
        f"{score.own_exceeded} ({score.own_exceeded / score.count:.0%})",
        f"{score.median_over:.2f}",
        f"{score.worst_over:.3g}",
    ]


def _whole(found: Sequence[Scored]) -> str:
    shown: list[list[object]] = []
    for claim in _claims(found):
        for smooth in COPIES:
            score = _pooled(found, claim, smooth)
            if score is not None:
                shown.append([_words(claim), smooth, *_columns(score)])
    title = (
        "All networks, attributions and balls: useful (angle below 30 degrees), median of\n"
        "bound / attack on the subject, exceeded on the subject and on the network itself, and\n"
        "attack on the network / bound"
    )
    return _render(title, ["claim", "beta", *_HEADER], shown)


def _by_network(found: Sequence[Scored]) -> list[str]:
    """One table a claim: every network, every copy."""
    parts = []
    for claim in _claims(found):
        shown = []
        for name in dict.fromkeys(each.network for each in found):
            own = [each for each in found if each.network == name]
            scores = [_pooled(own, claim, smooth) for smooth in COPIES]
            if any(scores):
                shown.append([name, *map(_short, scores)])
        title = (
            f"{_words(claim).capitalize()}: useful, exceeded on the network itself, attack on the\n"
            "network / bound in the median and at worst"
        )
        parts.append(_render(title, ["", *_betas()], shown))
    return parts


def _short(score: Score | None) -> str:
    if score is None:
        return "-"
    over = f"{score.median_over:.2f} {score.worst_over:.3g}"
    return f"{score.useful:.0%}, {score.own_exceeded}/{score.count}, {over}"


def _betas() -> list[str]:
    return [f"beta {smooth}" for smooth in COPIES]


def _fidelity(found: Sequence[Scored]) -> str:
    """How far the maps of copies are from those of their networks."""
    shown: list[list[object]] = []
    pairs = dict.fromkeys((each.network, each.attribution) for each in found)
    for network, attribution in pairs:
        own = [e for e in found if (e.network, e.attribution) == (network, attribution)]
        row: list[object] = [network, attribution]
        for smooth in COPIES:
            same = [each for each in own if each.smooth == smooth]
            angles = [
                np.concatenate([each.test.fidelity(name) for each in same])
                for name in ("degrees", "ball_degrees")
                if same
            ]
            beta = f"{same[0].beta:g}: " if same and COPIES[smooth] is None else ""
            row.append(beta + " ".join(f"{np.nanmedian(a):.1f}" for a in angles) if same else "-")
        tried = [text for e in own for text in e.test.rows["tried"].to_pylist() if text]
        row.append(_missed(tried[0]) if tried else "-")
        shown.append(row)
    title = (
        "Fidelity: median angle in degrees between the maps of copy and network, at x and at the\n"
        "furthest of three random points of the ball; for auto the beta that was chosen"
    )
    return _render(title, ["", "", *_betas(), "auto is close"], shown)


def _missed(text: str) -> str:
    return "yes" if json.loads(text)["close"] else "no"


def _stages(found: Sequence[Scored]) -> str:
    """What every attack on the network itself adds."""
    shown: list[list[object]] = []
    for network, attribution in dict.fromkeys((e.network, e.attribution) for e in found):
        own = [e for e in found if (e.network, e.attribution) == (network, attribution)]
        far = fraction([each.stages for each in own])
        shown.append([network, attribution, *(f"{far[name]:.3f}" for name in STAGES)])
        beyond = dict.fromkeys(STAGES, 0)
        total = 0
        for each in own:
            bound = each.test.bound("first_order")
            total += int((~np.isnan(bound)).sum())
            for name, moved in each.stages.items():
                beyond[name] += int((moved > bound).sum())
        shown[-1] += [f"{beyond[name]}" for name in STAGES]
        shown[-1].append(total)
    title = (
        "Attacks on the network itself, added one after the other: mean deviation, of the\n"
        "furthest found, and how many first-order bounds of copies that exceeds"
    )
    names = ["transferred", "+ ascents", "+ kinks", "+ noise"]
    return _render(title, ["", "", *names, *names, "of"], shown)


def _winners(found: Sequence[Scored]) -> str:
    """Which attack went furthest, over all."""
    by = [text for each in found for text in _by(each)]
    counts = {name: by.count(name) for name in STAGES}
    told = ", ".join(f"{name} {count}" for name, count in counts.items())
    return f"Furthest on the network itself, of {len(by)}: {told}."


def _by(each: Scored) -> list[str]:
    return [row["by"] for row in each.test.rows["yours"].to_pylist() if row and row["by"]]


def _cells(members: Sequence[Scored]) -> list[str]:
    """One network, one table an attribution: every ball and claim."""
    parts = []
    for attribution in dict.fromkeys(each.attribution for each in members):
        own = [each for each in members if each.attribution == attribution]
        shown = []
        for ball in dict.fromkeys(each.ball for each in own):
            here = [each for each in own if each.ball == ball]
            for claim in _claims(here):
                scores = [_pooled(here, claim, smooth) for smooth in COPIES]
                shown.append([ball, _words(claim), *map(_full, scores)])
        title = (
            f"{members[0].network}, {attribution}: useful, slack on the subject, exceeded on the "
            "subject, exceeded on the\nnetwork itself, attack on the network / bound in the "
            "median and at worst"
        )
        parts.append(_render(title, ["ball", "claim", *_betas()], shown))
    return parts


def _full(score: Score | None) -> str:
    if score is None:
        return "-"
    exceeded = f"{score.exceeded}/{score.count} {score.own_exceeded}/{score.count}"
    over = f"{score.median_over:.2f} {score.worst_over:.2g}"
    return f"{score.useful:.0%} {score.slack:.3g} {exceeded} {over}"


def _refusals(found: Sequence[Scored]) -> str:
    """Claims that do not apply, and examples that failed."""
    lines = [
        f"{claim} does not apply to {each.network}, {each.attribution}: {why}"
        for each in found
        for claim, why in each.not_applied.items()
    ]
    lines += [
        f"{each.network}, {each.attribution}, {each.ball}, beta {each.smooth}: {why}"
        for each in found
        for why in each.failed
    ]
    return "\n".join(dict.fromkeys(lines))


def _costs(found: Sequence[Scored]) -> str:
    """What an example costs, by network and attribution, with the first copy."""
    shown: list[list[object]] = []
    first = next(iter(COPIES))  # attacks on the network itself are made once for all copies
    for network, attribution in dict.fromkeys((e.network, e.attribution) for e in found):
        key = (network, attribution, first)
        own = [each.test for each in found if (each.network, each.attribution, each.smooth) == key]
        bounds, attacks = ("first_order", "mean_value", "certified"), ("ascent", *STAGES[1:3])
        columns = [[each.bound(name, "seconds") for each in own] for name in bounds]
        columns += [[each.attack(name, "seconds") for each in own] for name in attacks]
        shown.append([network, attribution, *map(_average, columns)])
    header = ["", "", "first order", "mean value", "certified", "ascent, copy"]
    title = f"Seconds of one core an example and ball, beta {first}"
    return _render(title, [*header, "ascents, network", "kinks"], shown)


def _average(values: Sequence[object]) -> float | str:
    every = np.concatenate(values) if values else np.array([])
    known = every[~np.isnan(every)]
    return float(known.mean()) if len(known) else "-"


def _render(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; long ones in pieces."""
    pieces = [rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS)]
    return "\n\n".join(
        render(title if piece is pieces[0] else "(continued)", header, piece) for piece in pieces
    )


def _words(name: str) -> str:
    return name.replace("_", " ")
