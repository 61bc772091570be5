"""Audits of tables: which columns are what, in which units perturbations are counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from attribound.attributions import Attribution, Grouped, IntegratedGradients
from attribound.auditing.sources import load_model, with_features
from attribound.balls import Ball, LpBall
from attribound.basics.errors import InputError
from attribound.data import Columns, Examples, Layout, arrays, load
from attribound.models import Normalisation
from attribound.models.normalisation import Normalise, Normalised
from attribound.values import Record

if TYPE_CHECKING:
    from attribound.auditing.settings import AuditSettings

DATA = "data"


@dataclass(frozen=True)
class TableSettings(Record):
    """How a table is read, and what a radius means in it.

    Attributes:
        label, id, drop, categories: as of :class:`attribound.data.Layout`.
        scaler: what stands in front of a network that takes standardised inputs: mean and standard
            deviation of each column, of the ``data`` that is audited, of the table at a path, or
            given by column, ``{age = [35.5, 11.4]}``. It becomes part of the network, so that
            inputs, ``low`` and ``high`` are in the units of the columns. None: the network takes
            the columns as they are.
        unit: of radii: ``std`` for standard deviations of the columns (the scaler's, else those of
            a scaler in the network, else the data's), ``column`` for the units of the columns.
        scale: other units, by column: ``{age = 0, income = 500}``.
        freeze: columns that can't change. Categories can't unless they have a scale.
        low, high: limits by column.
        baseline: of integrated gradients without one: ``mean`` of the columns, or ``zero``.
        group: whether scores of the features of a category are summed.
    """

    label: str | None = None
    id: str | None = None
    drop: tuple[str, ...] = ()
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    scaler: str | Mapping[str, Sequence[float]] | None = None
    unit: Literal["std", "column"] = "std"
    scale: Mapping[str, float] = field(default_factory=dict)
    freeze: tuple[str, ...] = ()
    low: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)
    baseline: Literal["mean", "zero"] = "mean"
    group: bool = True

    def __post_init__(self) -> None:
        """Lists by column as tuples; refuse a scaler that has not two numbers for each."""
        for name in ("categories", "scaler"):
            given = getattr(self, name)
            if isinstance(given, Mapping):
                own = {key: tuple(values) for key, values in given.items()}
                object.__setattr__(self, name, own)
        if isinstance(self.scaler, Mapping) and any(len(v) != 2 for v in self.scaler.values()):
            raise InputError(
                "scaler",
                expected="mean and standard deviation of each column",
                got=repr(self.scaler),
                remedy="write e.g. {age = [35.5, 11.4]}",
            )

    @property
    def layout(self) -> Layout | None:
        """What the reader of the data is told; None if nothing."""
        categories = {name: tuple(values) for name, values in self.categories.items()}
        given = Layout(self.label, self.id, self.drop, categories)
        return None if given == Layout() else given

    @property
    def of_columns(self) -> bool:
        """Whether something is said of columns by name, which only a table has."""
        return bool(self.scaler or self.scale or self.freeze or self.low or self.high)


@dataclass(frozen=True)
class FeatureMoments:
    """Mean and standard deviation of each feature, ``(features,)``, in float64."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, examples: Examples) -> FeatureMoments:
        """Of all examples; 1 for features that are the same in all of them."""
        x = arrays(examples)[0].double()
        std = x.std(0, correction=0)
        return cls(x.mean(0), torch.where(std > 0, std, 1.0))


def tabled(settings: AuditSettings, module: nn.Module | None, examples: Examples) -> AuditSettings:
    """``settings`` of an audit of these examples: all that they leave to the data is written out.

    The factory of a network is told how many features there are, the scaler is given by feature,
    balls get the units of the columns and attributions their mean. Written out settings stay.

    Raises:
        InputError: a column is named that there is not, or columns of data that has none.
    """
    if module is None:
        size = torch.Size(examples.shape).numel()
        settings = replace(settings, model=with_features(settings.model, size))
    table = settings.table
    if examples.columns is None:
        if table.of_columns:
            raise _no_columns(examples)
        return settings
    scaler = scaler_of(table, examples)
    if scaler is not None:
        pairs = zip(scaler.mean, scaler.std, strict=True)
        by_feature = dict(zip(examples.columns.features, pairs, strict=True))
        settings = replace(settings, table=replace(table, scaler=by_feature))
    else:
        found = module or load_model(settings.model, settings.weights).model
        scaler = inner_scaler(found)
    return in_units(settings, examples, scaler)


def scaled(table: TableSettings, model: nn.Module) -> nn.Module:
    """``model`` behind the scaler of written out settings."""
    if not isinstance(table.scaler, Mapping):
        return model
    mean, std = zip(*table.scaler.values(), strict=True)
    return Normalised(Normalisation(mean, std), model)


def described(examples: Examples) -> dict[str, object]:
    """What the features are called, for ``run.json``: ``columns`` names scores that are summed."""
    columns = examples.columns
    if columns is None:
        return {}
    return {
        "columns": [*columns.names],
        "features": [*columns.features],
        "groups": [*columns.groups],
    }


def scaler_of(settings: TableSettings, examples: Examples) -> Normalisation | None:
    """What stands in front of the network, from the settings; None for nothing.

    Raises:
        InputError: it names other columns, or data that has others.
    """
    if settings.scaler is None:
        return None
    columns = examples.columns
    assert columns is not None
    if isinstance(settings.scaler, str):
        other = examples
        if settings.scaler != DATA:
            layout = replace(settings.layout or Layout(), categories=_known(columns, settings))
            other = load(settings.scaler, layout=layout)
        if other.columns is None or other.columns.features != columns.features:
            got = "no named columns" if other.columns is None else ", ".join(other.columns.features)
            raise InputError(
                "scaler",
                expected=f"data with the features {', '.join(columns.features)}",
                got=got,
                remedy="give the table that the network was trained on",
            )
        moments = FeatureMoments.of(other)
    else:
        size = len(columns.features)
        moments = FeatureMoments(torch.zeros(size).double(), torch.ones(size).double())
        for name, (mean, std) in settings.scaler.items():
            moments.mean[columns.of(name)], moments.std[columns.of(name)] = mean, std
    return Normalisation(moments.mean.tolist(), moments.std.tolist())


def _known(columns: Columns, settings: TableSettings) -> dict[str, tuple[str, ...]]:
    """Categories by name, so that another table is read alike."""
    given = {name: tuple(values) for name, values in settings.categories.items()}
    return {**columns.categories, **given}


def inner_scaler(model: nn.Module) -> Normalisation | None:
    """That of a network which has one in front."""
    if isinstance(model, Normalised):
        first = model[0]
        assert isinstance(first, Normalise)
        return first.normalisation
    return None


def in_units(
    settings: AuditSettings, examples: Examples, scaler: Normalisation | None
) -> AuditSettings:
    """``settings`` with balls in the units of the table, and attributions of its columns.

    Balls with a scale and attributions with a baseline or groups of their own stay as they are.

    Raises:
        InputError: a column is named that there is not.
    """
    table, columns = settings.table, examples.columns
    assert columns is not None
    attributions = _summed(settings, columns, examples.shape)
    if len(examples.shape) > 1:  # tokens have no units
        balls = settings.balls if examples.free is None else tuple(map(_freezing, settings.balls))
        return replace(settings, balls=balls, attributions=attributions)
    moments = (
        FeatureMoments.of(examples)
        if scaler is None
        else FeatureMoments(
            torch.tensor(scaler.mean, dtype=torch.float64),
            torch.tensor(scaler.std, dtype=torch.float64),
        )
    )
    balls = tuple(ball_in_units(ball, table, columns, moments) for ball in settings.balls)
    if table.baseline == "mean":
        attributions = tuple(_from_mean(each, moments.mean.float()) for each in attributions)
    return replace(settings, balls=balls, attributions=attributions)


def _freezing(ball: Ball) -> Ball:
    """``ball`` with a scale, as it has where padding is frozen."""
    return replace(ball, scale=1.0) if isinstance(ball, LpBall) and ball.scale is None else ball


def ball_in_units(
    ball: Ball, table: TableSettings, columns: Columns, moments: FeatureMoments
) -> Ball:
    """``ball`` in the units of a table, unless it has units of its own; categories frozen."""
    if not isinstance(ball, LpBall) or ball.scale is not None:
        return ball
    size = len(columns.features)
    scale = moments.std.clone() if table.unit == "std" else torch.ones(size).double()
    scale[torch.tensor(columns.switches)] = 0.0
    for name, unit in table.scale.items():
        scale[columns.of(name)] = unit
    for name in table.freeze:
        scale[columns.of(name)] = 0.0
    limits: dict[str, Any] = {}
    for end, named, default in (("low", table.low, -torch.inf), ("high", table.high, torch.inf)):
        if named and getattr(ball, end) is None:
            limits[end] = torch.full((size,), default).double()
            for name, value in named.items():
                limits[end][columns.of(name)] = value
    if not (scale == 1).all():
        limits["scale"] = scale
    return replace(ball, **limits)


def _from_mean(attribution: Attribution, mean: Tensor) -> Attribution:
    if isinstance(attribution, Grouped):
        return replace(attribution, base=_from_mean(attribution.base, mean))
    if not isinstance(attribution, IntegratedGradients):
        return attribution
    if isinstance(attribution.baseline, float) and attribution.baseline == 0.0:
        return replace(attribution, baseline=mean, label=attribution.name)
    return attribution


def _summed(
    settings: AuditSettings, columns: Columns, shape: tuple[int, ...]
) -> tuple[Attribution, ...]:
    if not (settings.table.group and columns.grouped):
        return settings.attributions
    labels = torch.tensor(columns.groups).view(shape)
    return tuple(
        each if isinstance(each, Grouped) else Grouped(each, labels)
        for each in settings.attributions
    )


def _no_columns(examples: Examples) -> InputError:
    return InputError(
        "table",
        expected="data with named columns, e.g. a .csv or .parquet file, for scaler, scale, "
        "freeze, low and high",
        got=f"{examples.name}, which has none",
        remedy="leave these out, or give balls with a scale of their own",
    )
