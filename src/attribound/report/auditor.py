"""What an auditor files: domain, claims and what each covers, counts, counterexamples, hashes.

Words as in ISO/IEC 24029-2:2023 where they fit: a *domain* is the set of inputs that is spoken of,
*stability* that an output stays what it is over it; a method gives a *proof*, a *counterexample*,
or is *inconclusive*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attribound.auditing import Cell, Run, cells
from attribound.auditing.manifest import Manifest
from attribound.auditing.summary import OPEN, fidelity_of, opposing
from attribound.auditing.summary_records import wilson
from attribound.balls import Ball, LpBall
from attribound.report.conditions import limits
from attribound.report.groups import claim_record, records
from attribound.report.reasons import SettingLists, called, lists
from attribound.report.subjects import copy_of, network
from attribound.report.summary_table import apart, number
from attribound.values import from_spec, spec_text

#: Rows of counterexamples on a page, the worst first; the files of a run have all.
COUNTEREXAMPLES = 20
_UNITS = 12  # features whose unit is listed
Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Count:
    """Proofs, counterexamples and neither of one property in one setting, of ``n`` samples."""

    setting: str
    claim: str
    whose: str
    n: int
    proofs: int
    counterexamples: int

    @property
    def inconclusive(self) -> int:
        """Samples with neither."""
        return max(self.n - self.proofs - self.counterexamples, 0)

    @staticmethod
    def share(count: int, n: int) -> str:
        """A share with Wilson's 95 % interval.

        >>> Count.share(3, 6)
        '3 (50 %; 19 to 81 %)'
        """
        if not n:
            return "-"
        low, high = wilson(count, n)
        return f"{count} ({count / n:.0%}; {100 * low:.0f} to {high:.0%})".replace("%", " %")


@dataclass(frozen=True)
class Counterexample:
    """A sample at which an attack went beyond what a claim says, or changed a list of reasons."""

    cell: tuple[str, str, float]
    sample: int
    called: str
    setting: str
    against: str
    said: str
    factor: float


@dataclass(frozen=True)
class Dossier:
    """The part of a page that is printed on its own."""

    scope: Pairs
    domains: Pairs
    claims: tuple[Mapping[str, str], ...]
    fidelity: str
    counts: tuple[Count, ...]
    counterexamples: tuple[Counterexample, ...]
    found: int
    hashes: Pairs
    versions: Pairs


def dossier(run: Run) -> Dossier:
    """All of it, from the rows and the description of ``run``."""
    manifest = run.manifest
    copy = copy_of(manifest.settings)
    every = cells(run.rows())
    listed = lists(run)
    found = [*_changed(every, listed), *(one for cell in every for one in _exceeded(cell))]
    found.sort(key=lambda each: -each.factor)
    fidelity = fidelity_of(every)
    return Dossier(
        scope=_scope(run, every),
        domains=domains(manifest),
        claims=tuple(_claim(name, every, copy) for name in _made(every)),
        fidelity="" if fidelity is None else apart(fidelity, copy),
        counts=(*_list_counts(listed), *(one for cell in every for one in _counts(cell, copy))),
        counterexamples=tuple(found[:COUNTEREXAMPLES]),
        found=len(found),
        hashes=_hashes(manifest),
        versions=[(str(name), str(value)) for name, value in manifest.versions.items()],
    )


def _scope(run: Run, every: Sequence[Cell]) -> Pairs:
    manifest, settings = run.manifest, run.manifest.settings
    data = manifest.data.get("name", "data")
    attributions = ", ".join(dict.fromkeys(cell.attribution for cell in every)) or "-"
    lists_ = " and the list of its largest scores" if settings.get("keep") else ""
    return [
        ("network", str(manifest.model.get("name", "a model"))),
        ("samples", f"{run.measured} of {manifest.samples} {called(run)} of {data}"),
        ("explanation", attributions),
        (
            "property",
            f"stability: the direction of the explanation{lists_}, over each domain below",
        ),
        ("arithmetic", f"{settings.get('dtype', 'float32')} on {settings.get('device', 'cpu')}"),
        ("begun", manifest.created),
    ]


def domains(manifest: Manifest) -> Pairs:
    """The set of inputs that each ball is, and the unit of its radius."""
    found: dict[str, tuple[list[str], str]] = {}
    for plain in manifest.settings.get("balls", ()):
        try:
            ball = from_spec(plain, Ball)
            name, said = ball.name, _domain(ball, manifest)
        # A class of somebody else, which may be missing here or fail in any way.
        except Exception:
            name, said = str(plain.get("kind")), spec_text({**plain, "epsilon": "ε"})
        found.setdefault(name, ([], said))[0].append(f"{plain.get('epsilon'):g}")
    return [(f"{name}, ε = {', '.join(radii)}", said) for name, (radii, said) in found.items()]


def _domain(ball: Ball, manifest: Manifest) -> str:
    norm = f"L{ball.p:g} norm at most ε" if isinstance(ball, LpBall) else "inside the ball"
    scale = getattr(ball, "scale", None)
    said = f"perturbations of each sample, {norm.replace('inf', '∞')}, {limits(ball)}; "
    if not isinstance(scale, Tensor):
        return f"{said}ε in the units of the inputs, as the network is given them"
    values = scale.flatten().tolist()
    frozen = sum(value == 0 for value in values)
    tabled = (manifest.settings.get("table") or {}).get("unit") == "std" and manifest.data.get(
        "columns"
    )
    unit = "standard deviations of the columns" if tabled else "units of each feature"
    names = manifest.data.get("features") or manifest.data.get("columns") or ()
    own = [f"{name} {value:.4g}" for name, value in zip(names, values, strict=False) if value]
    more = ", ..." if len(own) > _UNITS else ""
    listed = (
        f" (one unit: {', '.join(own[:_UNITS])}{more})" if own and len(names) == len(values) else ""
    )
    kept = f"; {frozen} of {len(values)} features can't change" if frozen else ""
    return f"{said}ε in {unit}{listed}{kept}"


def _made(every: Sequence[Cell]) -> list[str]:
    return [claim.name for claim in records(name for cell in every for name in cell.claims)]


def _claim(name: str, every: Sequence[Cell], copy: str) -> Mapping[str, str]:
    claim = claim_record(name)
    subjects = {each for cell in every for each in cell.subjects(name)}
    return {
        "title": claim.title,
        "promise": claim.promise,
        "covers": " and ".join(network(each, copy) for each in sorted(subjects)) or "nothing",
        "kind": "a proof" if claim.proves else "evidence, no proof",
        "arithmetic": claim.arithmetic or "as evaluated; nothing is said of rounding",
    }


def _counts(cell: Cell, copy: str) -> list[Count]:
    setting = f"{cell.setting.title}: no further than a bound that limits the direction"
    found = []
    for claim in records(cell.claims):
        over = cell.either_exceeded(claim.name)
        limited = cell.bound(claim.name, "degrees") < OPEN
        proofs = int((limited & ~over).sum()) if claim.proves else 0
        whose = " and ".join(network(each, copy) for each in sorted(cell.subjects(claim.name)))
        found.append(Count(setting, claim.title, whose or "-", len(cell), proofs, int(over.sum())))
    return found


def _list_counts(listed: Sequence[SettingLists]) -> list[Count]:
    return [
        Count(
            f"{each.title}: the {one.k} largest scores stay",
            one.claim,
            one.whose,
            each.data["total"],
            one.sure if one.proves else 0,
            one.attacked,
        )
        for each in listed
        for one in each.claims
    ]


def _exceeded(cell: Cell) -> list[Counterexample]:
    """Bounds that an attack exceeded on what they speak of, or on the user's own network."""
    ids = cell.rows["id"].to_pylist()
    found = []
    for claim in records(cell.claims):
        bounds = cell.bound(claim.name)
        pairs = (
            (cell.exceeded(claim.name), opposing(cell, claim.name), ""),
            (
                cell.yours_exceeded(claim.name) & cell.has_copy,
                cell.yours("deviation"),
                " on your network",
            ),
        )
        for over, attacks, on in pairs:
            for at in over.nonzero()[0].tolist():
                bound, attack = float(bounds[at]), float(attacks[at])
                found.append(
                    Counterexample(
                        cell.setting,
                        cell.samples[at],
                        str(ids[at] or cell.samples[at]),
                        cell.setting.title,
                        f"{claim.title}{on}",
                        f"moved by {number(attack)}, the bound is {number(bound)}",
                        attack / bound if bound else float("inf"),
                    )
                )
    return found


def _changed(every: Sequence[Cell], listed: Sequence[SettingLists]) -> list[Counterexample]:
    """Lists that an attack changed."""
    titles = {cell.setting.title: cell for cell in every}
    found = []
    for each in listed:
        cell, names = titles[each.title], each.data["names"]
        ids = [
            str(one or sample)
            for one, sample in zip(cell.rows["id"].to_pylist(), cell.samples, strict=True)
        ]
        best = each.data["claims"][each.data["best"]]["rows"]
        for place, row in zip(each.data["samples"], best, strict=True):
            gone = (
                [] if row is None else [one for one in row["features"] if one not in row["there"]]
            )
            if row is None or not gone:
                continue
            came = [one for one in row["there"] if one not in row["features"]]
            at = ids.index(place)
            said = f"{_names(gone, names)} gave way to {_names(came, names)}"
            share = 1 + len(gone) / len(row["features"])
            found.append(
                Counterexample(
                    cell.setting,
                    cell.samples[at],
                    place,
                    each.title,
                    "the list stays",
                    said,
                    share,
                )
            )
    return found


def _names(places: Sequence[int], names: Mapping[int, str]) -> str:
    return " and ".join(names[place] for place in places)


def _hashes(manifest: Manifest) -> Pairs:
    """Of model, data, settings and other files."""
    found: list[tuple[str, Any]] = [
        ("model", manifest.model.get("fingerprint")),
        ("file of weights", manifest.model.get("sha256")),
        ("samples", manifest.data.get("fingerprint")),
        ("settings, model, data and versions (identity)", manifest.identity),
        ("run.json (checksum)", manifest.checksum),
        *((f"read with it: {name}", value) for name, value in manifest.inputs.items()),
    ]
    return [(str(name), str(value)) for name, value in found if value]
