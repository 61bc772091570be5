"""The plan of all runs: data, models, radii and effort, read from TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attribound.auditing.protocols import complete
from attribound.auditing.settings import AuditSettings, parse_settings
from attribound.auditing.strict import Strict, check, parse
from attribound.basics.errors import InputError
from attribound.basics.toml_files import read_toml
from attribound.data.places import data_directory
from reproduction.paper.items import AUDITS, COST, RECORDS, RunSpec

#: The plan that is used unless another is named.
SHIPPED = Path(__file__).with_name("plan.toml")
_PAPERS_BOUND = ("paper", "methods")
_DEFAULT_SAMPLES = 8


@dataclass(frozen=True)
class ModelPlan(Strict):
    """One model.

    Attributes:
        model: as an audit takes it.
        weights: file; if not absolute, from the folder of the plan or else of the data.
        smooth: beta of its smooth copy, if it has kinks.
        samples: of each kind of run, instead of those of the data.
        balls: radii of each norm, instead of those of the data.
    """

    model: str
    weights: str | None = None
    smooth: float | None = None
    samples: dict[str, int] = field(default_factory=dict)
    balls: dict[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class DataPlan(Strict):
    """One data set.

    Attributes:
        title: what the paper calls it.
        samples: of each kind of run; a kind that is not there has those of ``paper``.
        balls: radii of each norm.
        methods_balls: those for the attributions of Table 2, if it has them.
        models: by key, in the order of the tables.
        k: of top-k.
        name: of the data, if not its key.
        paper_bound: effort of the first-order bound in tables with the paper's attacks.
        batch: samples computed together, if not the common number.
        maps: whether any are kept.
        block: samples of one stored run, if not the common number.
    """

    title: str
    samples: dict[str, int]
    balls: dict[str, tuple[float, ...]]
    models: dict[str, ModelPlan]
    methods_balls: dict[str, tuple[float, ...]] = field(default_factory=dict)
    k: int | None = None
    name: str | None = None
    paper_bound: dict[str, Any] = field(default_factory=dict)
    batch: int | None = None
    maps: bool = True
    block: int | None = None


@dataclass(frozen=True)
class Plan(Strict):
    """All runs.

    Attributes:
        common: settings of every audit.
        kinds: settings of each kind of run.
        data: by key.
        block: samples of one stored run; more samples are more runs beside those that are there.
        folder: of the file it was read from.
    """

    common: dict[str, Any]
    kinds: dict[str, dict[str, Any]]
    data: dict[str, DataPlan]
    block: int = 4
    folder: Path | None = None

    def __post_init__(self) -> None:
        """Refuse kinds that nobody makes, and empty blocks."""
        for block in (self.block, *(data.block for data in self.data.values())):
            check("block", block, block is None or block >= 1, "1 or more", "use e.g. 4")
        known = (*AUDITS, *RECORDS)
        unknown = [kind for kind in self.kinds if kind not in known]
        if unknown:
            raise InputError(
                "kinds", expected=f"of {', '.join(known)}", got=unknown[0], remedy="check the plan"
            )

    @classmethod
    def read(cls, path: Path = SHIPPED) -> Plan:
        """The plan in a TOML file.

        Raises:
            InputError: it is missing, or has other keys.
        """
        document = {**read_toml(path), "folder": path.parent.resolve()}
        return parse(cls, document, f"plan {path}")

    def has(self, spec: RunSpec) -> bool:
        """Whether this run is planned."""
        data = self.data.get(spec.data)
        if data is None or spec.model not in data.models or spec.kind not in self.kinds:
            return False
        return bool(self._balls(spec)) and self.samples(spec) > 0

    def samples(self, spec: RunSpec, most: int | None = None) -> int:
        """How many samples it takes, at most ``most``."""
        data = self.data[spec.data]
        numbers = {**data.samples, **data.models[spec.model].samples}
        planned = numbers.get(spec.kind, numbers.get("paper", _DEFAULT_SAMPLES))
        return planned if most is None else min(planned, most)

    def blocks(self, spec: RunSpec, most: int | None = None) -> tuple[AuditSettings, ...]:
        """The same in runs of ``block`` samples, so that others can be added later.

        Only the first keeps maps, for Table 1 shows a sample.
        """
        whole, samples = self.settings(spec, most), self.samples(spec, most)
        block = self.data[spec.data].block or self.block
        return tuple(
            replace(
                whole,
                skip=first,
                limit=min(block, samples - first),
                maps="none" if first else whole.maps,
            )
            for first in range(0, samples, block)
        )

    def settings(self, spec: RunSpec, most: int | None = None) -> AuditSettings:
        """The complete settings of all samples of a run.

        Raises:
            InputError: something in the plan is unknown to audits.
        """
        data = self.data[spec.data]
        model = data.models[spec.model]
        document: dict[str, Any] = {
            **self.common,
            "data": data.name or spec.data,
            "model": model.model,
            "weights": self._weights(model.weights),
            "smooth": model.smooth,
            "limit": self.samples(spec, most),
            "balls": [{"norm": norm, "epsilons": list(each)} for norm, each in self._balls(spec)],
            "k": data.k,
        }
        if data.batch is not None:
            document["batch"] = data.batch
        if spec.kind in _PAPERS_BOUND and data.paper_bound:
            document["first_order"] = data.paper_bound
        document |= self.kinds[spec.kind]
        if not data.maps:
            document["maps"] = "none"
        return complete(parse_settings(document))

    def _balls(self, spec: RunSpec) -> list[tuple[str, tuple[float, ...]]]:
        """Radii of each norm; what the bound in l2 costs is the same at all of them."""
        data = self.data[spec.data]
        if spec.kind.startswith("methods"):
            return list(data.methods_balls.items())
        radii = data.models[spec.model].balls or data.balls
        if spec.kind == COST:
            return [(norm, each[:1]) for norm, each in radii.items() if norm == "l2"]
        return list(radii.items())

    def _weights(self, name: str | None) -> str | None:
        if name is None:
            return None
        beside = None if self.folder is None else self.folder / name
        there = beside is not None and beside.is_file()
        return str(beside if there else data_directory() / name)

    def of_data(self, data: str, kinds: tuple[str, ...]) -> tuple[RunSpec, ...]:
        """The planned runs of these kinds for all models of some data."""
        models: Mapping[str, ModelPlan] = self.data[data].models if data in self.data else {}
        specs = (RunSpec(data, model, kind) for model in models for kind in kinds)
        return tuple(spec for spec in specs if self.has(spec))
