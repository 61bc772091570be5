"""Two or more runs on one page: what each says, what differs, the same samples side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from attribound.auditing import Cell, Run
from attribound.auditing.cells import Setting
from attribound.auditing.summary import OPEN
from attribound.basics.packages import package
from attribound.basics.terminal import visible
from attribound.basics.whole_files import store_whole, storing
from attribound.report.answers import answers, chosen_claim
from attribound.report.comparison import (
    Comparison,
    RunDifference,
    by_setting,
    compare,
)
from attribound.report.gallery import Exhibit, class_name, exhibits, features, stored_maps
from attribound.report.groups import groups
from attribound.report.page import asset, policy
from attribound.report.summary_table import angle, number

_PURPOSE = "a comparison as a page"
#: Samples in the table, and with pictures: those that differ most.
SAMPLES, PICTURED = 20, 4


@dataclass(frozen=True)
class Beside:
    """One sample in every run: the angle that attacks attained, and the one that is allowed."""

    sample: int
    called: str
    label: str
    angles: tuple[tuple[str, str], ...]
    apart: float


def write_comparison(runs: Sequence[Run], path: str | os.PathLike[str]) -> Path:
    """Write the page that compares ``runs``: one file that needs nothing else, without scripts.

    Raises:
        InputError: fewer than two runs, nothing in common, or jinja2 or matplotlib is missing.
        StorageError: the system refused to write.
    """
    place = Path(path)
    content = render_comparison(runs).encode()
    with storing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
    store_whole(place, content)
    return place


def render_comparison(runs: Sequence[Run]) -> str:
    """The comparison as HTML."""
    found = compare(runs)
    jinja = package("jinja2", extra="audit", purpose=_PURPOSE)
    safe = package("markupsafe", extra="audit", purpose=_PURPOSE).Markup
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    key, beside = _samples(runs)
    html: str = environment.from_string(asset("compare.html.j2")).render(
        policy=policy([]),
        css=safe(asset("page.css")),
        headline=headline(found),
        runs=[(_letter(at), run, answers(run)) for at, run in enumerate(runs)],
        letters=[_letter(at) for at in range(len(runs))],
        blocks=_blocks(found),
        notes=found.notes,
        number=number,
        legend=found.legend,
        differ=[_differ(runs[0], run) for run in runs[1:]],
        setting="" if key is None else key.title,
        samples=beside[:SAMPLES],
        total=len(beside),
        pictured=[] if key is None else _pictured(runs, key, beside),
    )
    return visible(html)


_ON_YOURS = "attack on your network °"


def headline(found: Comparison) -> str:
    """The one sentence: how many numbers clearly differ, and where attacks turn further."""
    clear = [each for each in found.differences if each.clear]
    said = (
        f"{len(clear)} of {len(found.differences)} numbers differ clearly: their 95 % interval "
        "leaves out zero"
    )
    turned: dict[str, list[RunDifference]] = {}
    for each in found.differences:
        if each.what in ("attack °", _ON_YOURS):
            turned.setdefault(each.run, []).append(each)
    letters = {name: _letter(at) for at, name in enumerate(found.others, 1)}
    return "; ".join([said, *(_turned(own, letters[name]) for name, own in turned.items())]) + "."


def _turned(found: Sequence[RunDifference], letter: str) -> str:
    """In how many settings attacks turn explanations less far or further than in the first run."""
    if not any(each.difference for each in found):
        return f"attacks turn explanations equally far in {letter}"
    parts = []
    for word, sign in (("less far", -1), ("further", 1)):
        own = [each for each in found if each.clear and each.difference * sign > 0]
        if own:
            most = max(own, key=lambda each: abs(each.difference))
            many = f" in {len(own)} of {len(found)} settings, most" if len(found) > 1 else ","
            by = f"by {abs(most.difference):.1f}° for {most.setting.title}"
            parts.append(f"clearly {word} in {letter}{many} {by}")
    if not parts:
        return f"how far attacks turn explanations does not differ clearly in {letter}"
    return f"attacks turn explanations {' and '.join(parts)} (means)"


def _letter(at: int) -> str:
    return chr(ord("A") + at) if at < 26 else str(at)


def _differ(first: Run, other: Run) -> list[str]:
    """What the runs are made of, where that differs."""
    return first.manifest.differences(other.manifest)[:30]


def _blocks(found: Comparison) -> list[dict[str, Any]]:
    """Differences by setting, each with its interval as a drawing from -1 to 1."""
    names = {name: _letter(at) for at, name in enumerate(found.others, 1)}
    blocks = []
    ordered = sorted(found.differences, key=lambda each: each.setting)
    for key, members in groupby(ordered, key=lambda each: each.setting):
        rows = [(each, names[each.run], _drawn(each)) for each in members]
        blocks.append({"title": key.title, "rows": rows})
    return blocks


def _drawn(each: RunDifference) -> tuple[float, float, float] | None:
    """Low, middle and high on a line whose ends are the furthest of them from zero."""
    ends = np.array([each.low, each.difference, each.high])
    size = float(np.abs(ends).max())
    if not np.isfinite(size):
        return None
    low, middle, high = (ends / (size or 1.0)).tolist()
    return low, middle, high


def _samples(runs: Sequence[Run]) -> tuple[Setting | None, list[Beside]]:
    """The samples of the largest ball that all runs have, those that differ most first.

    None if the runs have other samples.
    """
    prints = {run.manifest.data["fingerprint"] for run in runs}
    tables = [by_setting(run) for run in runs]
    common = [key for key in tables[0] if all(key in table for table in tables)]
    if len(prints) > 1 or not common:
        return None, []
    key = max(common, key=lambda each: each.epsilon)
    classes = [str(name) for name in runs[0].manifest.data.get("classes") or ()]
    return key, beside([table[key] for table in tables], classes)


def beside(found: Sequence[Cell], classes: Sequence[str]) -> list[Beside]:
    """Every sample that all cells have, those whose angles under attack differ most first."""
    columns = []
    for cell in found:
        claim = chosen_claim(cell)
        allowed = cell.bound(claim.name, "degrees") if claim else np.full(len(cell), np.nan)
        turned = (cell.yours if cell.has_copy else cell.strongest)("degrees")
        columns.append(dict(zip(cell.samples, zip(turned, allowed, strict=True), strict=True)))
    first = found[0]
    rows = []
    for at, sample in enumerate(first.samples):
        if not all(sample in column for column in columns):
            continue
        pairs = [column[sample] for column in columns]
        turned = np.array([min(one, OPEN) for one, _ in pairs])
        apart = float(np.ptp(turned)) if np.isfinite(turned).all() else -1.0
        name = first.rows["id"][at].as_py() or str(sample)
        label = class_name(first.rows["label"][at].as_py(), classes)
        texts = tuple((_angle(one), _angle(two)) for one, two in pairs)
        rows.append(Beside(sample, str(name), label, texts, apart))
    return sorted(rows, key=lambda each: -each.apart)


def _angle(value: float) -> str:
    return angle(None if np.isnan(value) else float(value))


def _pictured(
    runs: Sequence[Run], key: Setting, rows: Sequence[Beside]
) -> list[tuple[Beside, list[Exhibit | None]]]:
    """The samples that differ most and whose maps are stored, with a card of each run."""
    have = [{*stored_maps(run.maps()).get(key, {})} for run in runs]
    shared = [row for row in rows if all(row.sample in samples for samples in have)]
    shown = shared or [row for row in rows if any(row.sample in samples for samples in have)]
    shown = shown[:PICTURED]
    wanted = [(key, each.sample) for each in shown]
    cards = []
    for run in runs:
        classes = [str(name) for name in run.manifest.data.get("classes") or ()]
        known = features(run.manifest.settings)
        made = exhibits(groups(run.rows()), run.maps(), wanted, classes, known, most=PICTURED)
        cards.append({card.sample: card for card in made})
    return [(row, [made.get(row.sample) for made in cards]) for row in shown]
