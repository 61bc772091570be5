"""The plan of all runs: data, models, radii and effort, read from TOML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import attribound as ab
from attribound.auditing import AuditSettings, read_settings
from attribound.basics import read_toml
from attribound.values import Record, from_spec
from reproduction.paper.items import AUDITS, RECORDS, RunSpec

#: The plan that is used unless another is named.
SHIPPED = Path(__file__).with_name("plan.toml")
_BALLS = {"l2": ab.L2Ball, "linf": ab.LinfBall}


@dataclass(frozen=True)
class Radii(Record):
    """The balls that something is measured in, by their radii."""

    l2: tuple[float, ...] = ()
    linf: tuple[float, ...] = ()

    def balls(self, norms: tuple[str, ...] = tuple(_BALLS)) -> tuple[ab.Ball, ...]:
        """Those of some norms."""
        return tuple(_BALLS[norm](epsilon) for norm in norms for epsilon in getattr(self, norm))

    def __bool__(self) -> bool:
        return bool(self.balls())


@dataclass(frozen=True)
class Kind(Record):
    """One kind of measurement, with sample sizes of its own: costs differ between columns.

    Attributes:
        settings: of its audits.
        part: of the tables that it fills, one of ``AUDITS`` or ``RECORDS``; default: its name.
        norms: of the balls that it is made in.
        first: whether only the smallest ball of each norm is looked at.
        papers_bound: whether the bound is what ``paper_bound`` of the data says.
        attacks_only: whether its bounds, without which there is no audit, count for nothing.
        through: names of its attacks that climb the ``climbed`` of the data, and are judged
            on its ``attribution``.
        beside: attributions that are measured beside that of the data.
        cheap: whether the attribution is the ``climbed`` of the data.
        block: at most so many samples are stored at once.
    """

    settings: dict[str, Any]
    part: str | None = None
    norms: tuple[str, ...] = tuple(_BALLS)
    first: bool = False
    papers_bound: bool = False
    attacks_only: bool = False
    through: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    cheap: bool = False
    block: int | None = None

    def __post_init__(self) -> None:
        """Refuse norms that no ball of the paper has."""
        for norm in self.norms:
            _check("norms", norm, norm in _BALLS, f"of {', '.join(_BALLS)}")
        for name in self.through:
            there = name in self.settings.get("attacks", {})
            _check("through", name, there, "the name of an attack of the kind")


@dataclass(frozen=True)
class ModelPlan(Record):
    """One model.

    Attributes:
        model: as an audit takes it.
        weights: file; if not absolute, from the folder of the plan or else of the data.
        smooth: beta of its smooth copy, if it has kinks.
        samples: of each kind, instead of those of the data.
        balls: instead of those of the data.
        awaited: what its row says as long as nobody has its weights.
    """

    model: str
    weights: str | None = None
    smooth: float | None = None
    samples: dict[str, int] = field(default_factory=dict)
    balls: Radii = field(default_factory=Radii)
    awaited: str | None = None


@dataclass(frozen=True)
class DataPlan(Record):
    """One data set.

    Attributes:
        title: what the paper calls it.
        samples: of each kind; one that is not there is not measured.
        balls: of all kinds but those of other attributions.
        models: by key, in the order of the tables.
        attribution: that of all kinds that name none.
        climbed: a cheaper rule for it, which attacks may climb; itself if there is none.
        methods_balls: those for the attributions of Table 2, if it has them.
        k: of top-k.
        name: of the data, if not its key.
        paper_bound: effort of the first-order bound in tables with the paper's attacks.
        batch: samples computed together, if not the common number.
        maps: whether any are kept.
        block: samples that are stored at once, if not the common number.
    """

    title: str
    samples: dict[str, int]
    balls: Radii
    models: dict[str, ModelPlan]
    attribution: str = "ig"
    climbed: str | None = None
    methods_balls: Radii = field(default_factory=Radii)
    k: int | None = None
    name: str | None = None
    paper_bound: dict[str, Any] = field(default_factory=dict)
    batch: int | None = None
    maps: bool = True
    block: int | None = None


@dataclass(frozen=True)
class Portion:
    """Some samples of one kind of one run: what is measured and stored at once.

    Attributes:
        spec: what it belongs to.
        kind: of the plan.
        settings: of these samples, complete.
    """

    spec: RunSpec
    kind: str
    settings: AuditSettings

    @property
    def name(self) -> str:
        """For messages, e.g. ``mnist/at/paper: samples 0 to 1``."""
        first = self.settings.skip
        last = first + (self.settings.limit or 0) - 1
        which = f"sample {first}" if first == last else f"samples {first} to {last}"
        return f"{self.spec.data}/{self.spec.model}/{self.kind}: {which}"


@dataclass(frozen=True)
class Plan(Record):
    """All runs.

    Attributes:
        common: settings of every audit.
        kinds: what is measured.
        data: by key.
        block: samples that are stored at once; more samples are more of these.
        folder: of the file it was read from.
    """

    common: dict[str, Any]
    kinds: dict[str, Kind]
    data: dict[str, DataPlan]
    block: int = 4
    folder: str | None = None

    def __post_init__(self) -> None:
        """Refuse parts that nobody shows, and empty blocks."""
        blocks = [each.block for each in self.data.values()]
        blocks += [each.block for each in self.kinds.values()]
        for block in (self.block, *blocks):
            _check("block", block, block is None or block >= 1, "1 or more")
        known = (*AUDITS, *RECORDS)
        for name, kind in self.kinds.items():
            part = kind.part or name
            _check("part of a kind", part, part in known, f"of {', '.join(known)}")

    @classmethod
    def read(cls, path: Path = SHIPPED) -> Plan:
        """The plan in a TOML file.

        Raises:
            InputError: it is missing, or has other keys.
        """
        return from_spec({**read_toml(path), "folder": str(path.parent.resolve())}, cls)

    def kinds_of(self, spec: RunSpec) -> tuple[str, ...]:
        """The kinds that are planned for a run."""
        data = self.data.get(spec.data)
        if data is None or spec.model not in data.models:
            return ()
        own = (name for name, kind in self.kinds.items() if (kind.part or name) == spec.part)
        return tuple(k for k in own if self._balls(spec, k) and self.samples(spec, k) > 0)

    def has(self, spec: RunSpec) -> bool:
        """Whether this run is planned."""
        return bool(self.kinds_of(spec))

    def samples(self, spec: RunSpec, kind: str | None = None, most: int | None = None) -> int:
        """How many samples a kind takes, at most ``most``."""
        data = self.data[spec.data]
        numbers = {**data.samples, **data.models[spec.model].samples}
        names = (kind or spec.part, spec.part)
        planned = next((numbers[name] for name in names if name in numbers), 0)
        return planned if most is None else min(planned, most)

    def portions(self, spec: RunSpec, most: int | None = None) -> tuple[Portion, ...]:
        """All samples of a run in blocks, so that others can be added later; the first ones first.

        Only the first of each kind keeps maps, for Table 1 shows a sample.
        """
        usual = self.data[spec.data].block or self.block
        found = [
            Portion(spec, kind, part)
            for kind in self.kinds_of(spec)
            for part in _cut(
                self.settings(spec, kind, most), min(usual, self.kinds[kind].block or usual)
            )
        ]
        return tuple(sorted(found, key=lambda portion: portion.settings.skip))

    def settings(
        self, spec: RunSpec, kind: str | None = None, most: int | None = None
    ) -> AuditSettings:
        """The complete settings of all samples of a kind; of the only one, if none is named.

        Raises:
            InputError: something in the plan is unknown to audits.
        """
        if kind is None:
            (kind,) = self.kinds_of(spec)
        data = self.data[spec.data]
        model = data.models[spec.model]
        document: dict[str, Any] = {
            **self.common,
            "data": data.name or spec.data,
            "model": model.model,
            "weights": self._weights(model.weights),
            "smooth": model.smooth,
            "limit": self.samples(spec, kind, most),
            "balls": self._balls(spec, kind),
            "k": data.k,
        }
        if data.batch is not None:
            document["batch"] = data.batch
        own = self.kinds[kind]
        if own.papers_bound and data.paper_bound:
            document["first_order"] = data.paper_bound
        rule = data.climbed if own.cheap and data.climbed else data.attribution
        document["attributions"] = list(dict.fromkeys((rule, *own.beside)))
        document |= own.settings
        if data.climbed is not None:
            attacks = dict(document.get("attacks", {}))
            climbing = {name: _through(attacks[name], data.climbed) for name in own.through}
            document |= {"attacks": attacks | climbing} if climbing else {}
        if not data.maps:
            document["maps"] = "none"
        return read_settings(document)

    def _balls(self, spec: RunSpec, kind: str) -> tuple[ab.Ball, ...]:
        """Where a kind is made."""
        data, own = self.data[spec.data], self.kinds[kind]
        if spec.part.startswith("methods"):
            return data.methods_balls.balls(own.norms)
        radii = data.models[spec.model].balls or data.balls
        if own.first:
            return tuple(ball for norm in own.norms for ball in radii.balls((norm,))[:1])
        return radii.balls(own.norms)

    def _weights(self, name: str | None) -> str | None:
        if name is None:
            return None
        beside = None if self.folder is None else Path(self.folder) / name
        there = beside is not None and beside.is_file()
        return str(beside if there else ab.data.data_directory() / name)

    def of_data(self, data: str, parts: tuple[str, ...]) -> tuple[RunSpec, ...]:
        """The planned runs of these parts for all models of some data."""
        models = self.data[data].models if data in self.data else {}
        specs = (RunSpec(data, model, part) for model in models for part in parts)
        return tuple(spec for spec in specs if self.has(spec))


def _through(attack: Any, climbed: str) -> dict[str, Any]:
    """The same attack, on another rule; what it is made in and how often stays outermost."""
    return {"kind": "through", "attack": attack, "recipe": climbed}


def _cut(whole: AuditSettings, block: int) -> Iterator[AuditSettings]:
    """What is worked on at once, as much again, twice that, and so on up to whole blocks.

    So every cell has its first samples early, and few blocks in the end.
    """
    samples, first = whole.limit or 0, 0
    while first < samples:
        size = min(max(first, whole.batch), block, samples - first)
        yield replace(whole, skip=first, limit=size, maps="none" if first else whole.maps)
        first += size


def _check(subject: str, value: object, fine: bool, expected: str) -> None:
    if not fine:
        raise ab.InputError(subject, expected=expected, got=repr(value), remedy="check the plan")
