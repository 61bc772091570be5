"""Labelled examples as a torch data set: one by one, or many in one go."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from attribound.basics.errors import InputError, MemoryLimitError
from attribound.data.columns import Columns

if TYPE_CHECKING:
    from typing_extensions import Self

_GIB = 2**30
#: More than any data set has: row numbers or times taken for labels are far above.
_MOST_CLASSES = 1_000_000
#: The label of examples of which none is known, as of applicants of today.
UNKNOWN = -1


class Examples(Dataset[tuple[Tensor, int]], ABC):
    """Pairs of a ``float32`` tensor and a label, all tensors of one ``shape``.

    Images are ``(channels, height, width)`` in [0, 1]; anything else is a row of
    features as it came. ``labels`` are all labels as one ``int64`` tensor, and
    ``classes[label]`` is the name of a class; all labels are ``UNKNOWN`` where there are none.

    Attributes:
        columns: what the features are called; None of images and bare numbers.
        ids: a name for each example; None if they have none.
        free: which features may change at all, ``(examples, *shape)``, e.g. no padding of a text;
            None for all.
    """

    columns: Columns | None = None
    ids: tuple[str, ...] | None = None
    free: Tensor | None = None

    def __init__(
        self, name: str, labels: Tensor, classes: Sequence[str], shape: Sequence[int]
    ) -> None:
        if labels.dim() != 1 or labels.dtype.is_floating_point or labels.dtype.is_complex:
            raise InputError(
                name,
                expected="one whole number per example as label",
                got=f"{str(labels.dtype).removeprefix('torch.')} labels of shape "
                f"{tuple(labels.shape)}",
                remedy="give integer labels of shape (examples,)",
            )
        self.name = name
        self.labels = labels.long()
        self.classes = tuple(classes)
        self.shape = tuple(shape)
        outside = self.labels[(self.labels < 0) | (self.labels >= len(self.classes))]
        if len(outside) and not bool((self.labels == UNKNOWN).all()):
            raise InputError(
                name,
                expected=f"labels from 0 to {len(self.classes) - 1}",
                got=f"{int(outside[0])} ({len(outside)} of {len(self.labels)} are outside)",
                remedy="the labels are wrong, or do not belong to these classes",
            )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self.name}: no example {index} among {len(self)}")
        at = torch.tensor([index % len(self)])
        return self.read(at)[0], int(self.labels[at])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}, {len(self)} examples of shape {self.shape}, "
            f"{len(self.classes)} classes)"
        )

    @abstractmethod
    def read(self, indices: Tensor) -> Tensor:
        """The examples at ``indices``, ``(len(indices), *shape)``."""

    def select(self, indices: Tensor) -> Self:
        """The same data set with only the examples at ``indices`` (or a mask), in that order."""
        chosen = copy.copy(self)
        chosen.labels = self.labels[indices]
        if self.free is not None:
            chosen.free = self.free[indices]
        if self.ids is not None:
            places = torch.arange(len(self.ids))[indices].tolist()
            chosen.ids = tuple(self.ids[place] for place in places)
        return chosen


class InMemory(Examples):
    """Examples held as one tensor; bytes are images, kept as bytes and scaled when read."""

    def __init__(self, name: str, values: Tensor, labels: Tensor, classes: Sequence[str]) -> None:
        if len(values) != len(labels):
            raise InputError(
                name,
                expected="as many labels as examples",
                got=f"{len(values)} examples and {len(labels)} labels",
                remedy="the files do not belong together, or one is incomplete",
            )
        super().__init__(name, labels, classes, values.shape[1:])
        self._values = values

    def read(self, indices: Tensor) -> Tensor:
        values = self._values[indices]
        return values.float() / 255 if values.dtype == torch.uint8 else values.float()

    def select(self, indices: Tensor) -> Self:
        chosen = super().select(indices)
        chosen._values = self._values[indices]
        return chosen


def numbered_classes(name: str, labels: Tensor) -> list[str]:
    """Names for classes that have none: their numbers, from 0 to the largest label.

    Raises:
        InputError: the labels are so large that they cannot be numbers of classes.
    """
    count = max(int(labels.max()) + 1, 0) if len(labels) else 0
    if count > _MOST_CLASSES:
        raise InputError(
            name,
            expected=f"labels that number the classes from 0, at most {_MOST_CLASSES}",
            got=str(count - 1),
            remedy="check that these are labels, and number the classes from 0",
        )
    return [str(number) for number in range(count)]


def arrays(dataset: Dataset[tuple[Tensor, int]], *, limit_gib: float = 4) -> tuple[Tensor, Tensor]:
    """Everything at once: ``(examples, *shape)`` in ``float32`` and the ``int64`` labels.

    For data of this package, and torch's ``Subset`` of it, without reading item
    by item; any other data set of ``(tensor, label)`` pairs is stacked.

    Raises:
        MemoryLimitError: the array would be larger than ``limit_gib``.
    """
    if isinstance(dataset, Subset) and isinstance(dataset.dataset, Examples):
        dataset = dataset.dataset.select(torch.as_tensor(list(dataset.indices), dtype=torch.int64))
    if not isinstance(dataset, Examples):
        # Subscripting until IndexError is the protocol of map-style data sets.
        pairs = list(cast("Iterable[tuple[Tensor, int]]", dataset))
        return torch.stack([x for x, _ in pairs]), torch.tensor([int(y) for _, y in pairs])
    size = 4 * len(dataset) * torch.Size(dataset.shape).numel() / _GIB
    if size > limit_gib:
        raise MemoryLimitError(
            dataset.name,
            expected=f"at most {limit_gib:g} GiB as one array",
            got=f"{size:.3g} GiB",
            remedy="read batches with torch.utils.data.DataLoader, take a part with "
            "attribound.data.split, or raise limit_gib",
        )
    return dataset.read(torch.arange(len(dataset))), dataset.labels.clone()
