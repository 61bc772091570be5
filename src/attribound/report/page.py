"""``report.html``: one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from attribound.auditing import Run, summarise
from attribound.basics.packages import package
from attribound.basics.terminal import visible
from attribound.basics.whole_files import store_whole, storing
from attribound.report.answers import answers
from attribound.report.auditor import dossier
from attribound.report.command import command, without_none
from attribound.report.conditions import conditions
from attribound.report.gallery import Exhibit, exhibits, features, gallery
from attribound.report.groups import Group, groups
from attribound.report.page_data import page_data, script_json
from attribound.report.radius import between
from attribound.report.reasons import called, lists
from attribound.report.subjects import copy_of
from attribound.report.summary_table import summary_table
from attribound.results import ATTAINED, YOURS
from attribound.values import spec_text

_PURPOSE = "a report as a page"
#: Characters of one setting, and of the lines that repeat a run; masks of balls may be longer.
_SETTING, _COMMAND = 1000, 100_000


def write_html(run: Run, path: str | os.PathLike[str] | None = None) -> Path:
    """Write the report of ``run``, by default to ``report.html`` in its folder.

    The file makes no request and runs no script but its own: names from the data are
    escaped, and its policy lets only scripts with the right digest run.

    Raises:
        InputError: jinja2, plotly or matplotlib is not installed.
        StorageError: the system refused to write.
    """
    place = run.path / "report.html" if path is None else Path(path)
    with storing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
    store_whole(place, render(run).encode())
    return place


def render(run: Run) -> str:
    """The report of ``run`` as HTML."""
    rows, manifest = run.rows(), run.manifest
    found = groups(rows)
    classes = [str(name) for name in manifest.data.get("classes") or ()]
    maps, known = run.maps(), features(manifest.settings)
    cards = gallery(found, maps, classes, known=known)
    # As they will stand in the page: the policy allows these scripts and no others.
    script = visible("".join(map(asset, ("radius.js", "lists.js", "page.js"))))
    plotly = visible(_plotly())
    listed = lists(run)
    copy = copy_of(manifest.settings)
    both = any(group.has_copy for group in found)
    filed = dossier(run)
    wanted = [(each.cell, each.sample) for each in filed.counterexamples]
    jinja = package("jinja2", extra="audit", purpose=_PURPOSE)
    safe = package("markupsafe", extra="audit", purpose=_PURPOSE).Markup
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    html: str = environment.from_string(asset("page.html.j2")).render(
        title=f"Attributions of {manifest.model.get('name', 'a model')} under attack",
        subtitle=_subtitle(run),
        policy=policy([plotly, script]),
        answers=answers(run),
        lists=listed,
        called=called(run),
        table=summary_table(summarise(rows), copy),
        networks=[YOURS, copy] if both else [],
        groups=found,
        between=" ".join(between(found)),
        cards=_blocks(cards, found, copy),
        gallery_note=_gallery_note(run, copy if both else None),
        filed=filed,
        shown=exhibits(found, maps, wanted, classes, known),
        attained=ATTAINED,
        command=_command(run),
        settings=_settings(run),
        footer=f"Written by attribound {manifest.versions.get('attribound', '')}.",
        # The only parts that are not escaped: our own files, and JSON made safe for scripts.
        css=safe(asset("page.css")),
        data=safe(
            script_json(
                {
                    **page_data(found, classes, copy=copy),
                    "lists": [each.data for each in listed],
                }
            )
        ),
        plotly=safe(plotly),
        script=safe(script),
    )
    return visible(html)


def _subtitle(run: Run) -> str:
    manifest = run.manifest
    data, protocol = manifest.data.get("name", "data"), manifest.settings.get("protocol")
    kind = f", protocol {spec_text(protocol)}" if protocol else ""
    begun = f"{manifest.samples} samples of {data}{kind}, begun {_when(manifest.created)}"
    return "; ".join([begun, *conditions(manifest)])


def _when(created: str) -> str:
    """A time as people write it; what is none stays as it is.

    >>> _when("2026-01-02T03:04:05+00:00")
    '2026-01-02 03:04 UTC'
    """
    try:
        begun = datetime.fromisoformat(created)
    except ValueError:
        return created
    return begun.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _gallery_note(run: Run, copy: str | None) -> str:
    kept = run.manifest.settings.get("maps")
    whose = "" if copy is None else f"Maps and attacks are of what was bounded: {copy}. "
    note = f"{whose}Chosen at the largest radius among the samples whose maps were stored"
    return f"{note} (maps = {kept})." if kept else f"{note}."


def _blocks(cards: Sequence[Exhibit], found: Sequence[Group], copy: str) -> list[dict[str, Any]]:
    blocks = []
    for number, members in groupby(cards, key=lambda card: card.group):
        chosen = [*members]
        whose = f": {copy}" if found[number].has_copy else ""
        title = f"{found[number].title}, ε = {chosen[0].epsilon:g}{whose}"
        blocks.append({"group": number, "title": title, "cards": chosen})
    return blocks


def _command(run: Run) -> str:
    lines = command(run)
    short = len(lines) <= _COMMAND
    return lines if short else "The settings are too long for a page; run.json of the run has them."


def _settings(run: Run) -> list[tuple[str, str]]:
    """Every setting, and what model and data are, without what stands elsewhere on the page.

    What is unset is left out. Nested ones by path, but a value with all its settings is one text.
    """
    manifest = run.manifest
    told = ("classes", "fingerprint", "sha256", "kind")
    parts = {
        "settings": manifest.settings,
        "model": {name: value for name, value in manifest.model.items() if name not in told},
        "data": {name: value for name, value in manifest.data.items() if name not in told},
    }
    return [pair for name, part in parts.items() for pair in _leaves(name, part)]


def _leaves(name: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict) and "kind" in value:
        return [(name, _cut(spec_text(without_none(value))))]
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _leaves(f"{name}.{key}", item)]
    if isinstance(value, (list, tuple)) and any(isinstance(item, dict) for item in value):
        numbered = enumerate(value, 1)
        return [pair for number, item in numbered for pair in _leaves(f"{name} {number}", item)]
    if isinstance(value, (list, tuple)):
        return [(name, _cut(", ".join(str(item) for item in value)))] if value else []
    return [] if value is None else [(name, _cut(str(value)))]


def _cut(text: str) -> str:
    return text if len(text) <= _SETTING else f"{text[:_SETTING]} ..."


def policy(scripts: Sequence[str]) -> str:
    """A content security policy under which nothing is requested and only these scripts run."""
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def asset(name: str) -> str:
    """A file of the page, as text."""
    return (resources.files("attribound.report") / "assets" / name).read_text(encoding="utf-8")


def _plotly() -> str:
    text: str = package("plotly.offline", extra="audit", purpose=_PURPOSE).get_plotlyjs()
    # It would end the script element; then a page without plots is better than a broken one.
    assert "</script" not in text.lower()
    return text
