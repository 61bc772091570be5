"""What an audit is given, in whatever form, as settings, a model and examples."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from attribound.attributions import Attribution, Classifier, choose_beta
from attribound.auditing.batches import Batch
from attribound.auditing.settings import AuditSettings, complete, read_settings
from attribound.auditing.sources import chosen, load_data
from attribound.auditing.subject import Subject
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.limits import MOST_VALUES
from attribound.data import Examples
from attribound.data.examples import UNKNOWN, InMemory, numbered_classes
from attribound.networks.kinks import find_kinks
from attribound.values import Value
from attribound.values.fields import settings as value_settings

#: Examples that a beta is chosen on.
_PILOT = 16
#: Names in the settings that stand for objects a program has at hand.
GIVEN = "given:"
_AT_ONCE = 256  # examples read together for a fingerprint

Model = AuditSettings | str | nn.Module
Data = str | Examples | TensorDataset | Tensor | tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Samples:
    """The examples an audit takes, in a fixed order, cut into batches.

    Attributes:
        examples: all of the data.
        indices: of those that are taken.
        size: of a batch; the last has the rest.
    """

    examples: Examples
    indices: Tensor
    size: int

    def __len__(self) -> int:
        return len(self.indices)

    def batch(self, number: int) -> Batch:
        """Batch ``number``, read now."""
        own = self.indices[number * self.size : (number + 1) * self.size]
        every, masks = self.examples.ids, self.examples.free
        ids = None if every is None else tuple(every[i] for i in own.tolist())
        free = None if masks is None else masks[own]
        return Batch(number, own, self.examples.read(own), self.examples.labels[own], ids, free)

    @property
    def fingerprint(self) -> str:
        """Recognises the samples, however they are cut."""
        return data_fingerprint(self.examples.select(self.indices))


def data_fingerprint(examples: Examples) -> str:
    """``sha256:...`` of the shape, the labels and all values of these examples, in their order.

    Read piece by piece, so that it takes no memory to speak of. Names of data set and
    classes do not count.
    """
    digest = hashlib.sha256(f"{len(examples)} {examples.shape}".encode())
    digest.update(examples.labels.contiguous().numpy().data)
    # Fewer at once of large ones: the digest is the same.
    at_once = max(1, min(_AT_ONCE, MOST_VALUES // max(1, math.prod(examples.shape))))
    for start in range(0, len(examples), at_once):
        rows = torch.arange(start, min(start + at_once, len(examples)))
        digest.update(examples.read(rows).contiguous().numpy().data)
    return f"sha256:{digest.hexdigest()}"


def settings_of(model: Model, data: Data | None, options: Mapping[str, Any]) -> AuditSettings:
    """The complete settings; what is at hand as an object is named ``given:...`` there.

    Raises:
        InputError: they contradict each other, or something is unknown.
    """
    if isinstance(model, AuditSettings):
        if options:
            raise InputError(
                "settings",
                expected="complete settings, or single ones",
                got=f"complete ones and {', '.join(options)}",
                remedy="put these into the settings, by dataclasses.replace",
            )
        whole = complete(model if data is None else replace(model, data=_data_name(data)))
        return _usable(whole, model.model)
    if data is None:
        raise InputError(
            "data",
            expected="a name, a path, examples or a pair (x, labels)",
            got="nothing",
            remedy="say what to audit the model on",
        )
    name = f"{GIVEN}{type(model).__name__}" if isinstance(model, nn.Module) else str(model)
    options = dict(options)
    if _plain_balls(options.get("balls")):
        # Such a ball without limits says that there are none.
        options.setdefault("value_range", "none")
    return _usable(read_settings({"model": name, "data": _data_name(data), **options}), model)


def _usable(settings: AuditSettings, model: str | nn.Module) -> AuditSettings:
    """Settings with recipes in them, refused if they don't say everything.

    Two runs could not be told apart by them otherwise.
    """
    recipes = tuple(_recipe(each, model) for each in settings.attributions)
    for held in _undescribed((recipes, settings.balls, settings.claims, settings.attacks)):
        raise InputError(
            "settings",
            expected="values that are described by their settings",
            got=f"an object in {held}",
            remedy="leave it out, or store it and name the file, e.g. calibration.save('c.json') "
            "and Calibrated('c.json')",
        )
    return replace(settings, attributions=recipes)


def _undescribed(value: object) -> Iterator[str]:
    """Where values hold objects that are no settings."""
    if isinstance(value, Value):
        described = {each.name for each in value_settings(type(value))}
        for each in fields(value):  # type: ignore[arg-type]
            own = getattr(value, each.name)
            if each.name in described:
                yield from _undescribed(own)
            elif each.init and own is not None and not isinstance(own, bool):
                yield f"{type(value).__name__}.{each.name}"
    elif isinstance(value, Mapping):
        yield from _undescribed(tuple(value.values()))
    elif isinstance(value, tuple):
        for item in value:
            yield from _undescribed(item)


def _plain_balls(balls: object) -> bool:
    listed = balls if isinstance(balls, (list, tuple)) else [balls]
    return all(isinstance(ball, Ball) for ball in listed)


def _recipe(attribution: Attribution, model: str | nn.Module) -> Attribution:
    """The attribution without its model, which must be the one that is audited."""
    bound = getattr(attribution, "model", None)
    if bound is None:
        return attribution
    own = bound.model if isinstance(bound, Classifier) else bound
    if own is not model:
        raise InputError(
            f"attribution {attribution.name}",
            expected="one of the audited model, or a recipe",
            got=f"one of another {type(own).__name__}",
            remedy="leave its model out: the audit gives it the one that is audited",
        )
    return attribution.recipe()


def ranged(settings: AuditSettings, data: Data | None, samples: Samples) -> AuditSettings:
    """``settings`` with the range of the data in balls that could use one, if they ask for it.

    Known is that of images from :mod:`attribound.data`, which are in [0, 1]; tensors of a
    program and rows of features may have any value.
    """
    given = isinstance(data, (tuple, Tensor, TensorDataset))
    images = not given and len(samples.examples.shape) == 3
    if settings.value_range != "data" or not images:
        return settings
    return replace(settings, balls=tuple(ball.ranged(0.0, 1.0) for ball in settings.balls))


def sharpened(
    settings: AuditSettings, module: nn.Module | None, samples: Samples
) -> tuple[AuditSettings, dict[str, Any] | None]:
    """``settings`` with the beta that ``smooth = "auto"`` stands for, and how it was chosen.

    A network without kinks needs no copy, and neither do attributions that cross them.
    """
    if settings.smooth != "auto":
        return settings, None
    bare = replace(settings, smooth=None)
    if all(each.crosses_kinks for each in settings.attributions):
        return bare, {"beta": None, "reason": "the attributions need no smooth copy"}
    subject = subject_of(bare, module)
    x = subject.place(samples.examples.read(samples.indices[:_PILOT]))
    if not find_kinks(subject.model, x[:1]):
        return bare, {"beta": None, "reason": "the network has no kinks"}
    found = choose_beta(subject.model, x, settings.attributions)
    figures = [
        {"beta": beta, "labels": agree, "degrees": angle}
        for beta, (agree, angle) in found.tried.items()
    ]
    chosen = {"beta": found.beta, "close": found.close, "pilot": found.pilot, "tried": figures}
    return replace(settings, smooth=found.beta), chosen


def own_copy(model: nn.Module) -> nn.Module:
    """A copy to move and set to eval mode: what a program has at hand stays as it is."""
    return copy.deepcopy(model)


def samples_of(data: Data | None, settings: AuditSettings) -> Samples:
    """The samples that the settings take of the data.

    Raises:
        InputError: there are none, or the data is unusable.
    """
    if data is None or isinstance(data, str):
        if settings.data.startswith(GIVEN):
            raise _not_given("data", "a name or a path", settings.data)
        try:
            examples = load_data(
                settings.data, settings.split, settings.size, layout=settings.table.layout
            )
        except InputError as error:
            raise error.naming("pass size=", "add size=128, or --set size=128,") from None
    elif settings.split is not None or settings.size is not None:
        given = "size" if settings.split is None else "split"
        raise InputError(
            given,
            expected="none, with data that is given as an object",
            got=repr(getattr(settings, given)),
            remedy="give the part you want, in the size you want",
        )
    else:
        examples = data if isinstance(data, Examples) else _in_memory(data)
    indices = chosen(len(examples), settings.limit, settings.seed, settings.skip)
    if not len(indices):
        raise InputError(
            "data",
            expected="at least one example",
            got=f"none in {settings.data!r}"
            + (f" after skipping {settings.skip} of {len(examples)}" if settings.skip else ""),
            remedy="check the path, the split and skip",
        )
    return Samples(examples, indices, settings.batch)


def subject_of(settings: AuditSettings, module: nn.Module | None) -> Subject:
    """The model that was given as an object, or else the one the settings name.

    Raises:
        InputError: the settings name an object that is not there.
    """
    if module is not None:
        return Subject.of(settings, module, settings.model.removeprefix(GIVEN))
    refuse_gone(settings)
    return Subject.load(settings)


def refuse_gone(settings: AuditSettings) -> None:
    """Refuse a model that was an object, and is not given."""
    if settings.model.startswith(GIVEN):
        raise _not_given("model", "a name, a factory or a file", settings.model)


def _not_given(subject: str, expected: str, name: str) -> InputError:
    remedy = "this was an object in a program: give the same object again"
    return InputError(subject, expected=expected, got=repr(name), remedy=remedy)


def _data_name(data: Data) -> str:
    if isinstance(data, str):
        return data
    return f"{GIVEN}{data.name if isinstance(data, Examples) else 'tensors'}"


def _in_memory(data: object) -> InMemory:
    """Tensors of a program as examples; ``x`` alone has no labels."""
    if isinstance(data, Tensor):
        data = (data, torch.full((len(data),), UNKNOWN))
    if isinstance(data, TensorDataset):
        data = data.tensors
    given = data if isinstance(data, tuple) else ()
    if len(given) != 2 or not all(isinstance(each, Tensor) for each in given):
        got = f"a {type(data).__name__}" + (f" of {len(given)}" if given else "")
        raise InputError(
            "data",
            expected="a name, a path, examples, a tensor x, or x and labels as a pair or "
            "TensorDataset",
            got=got,
            remedy="give x of shape (batch, *features) and integer labels of shape (batch,)",
        )
    x, labels = (each.detach().cpu() for each in given)
    return InMemory("tensors", x, labels, numbered_classes("labels", labels))
