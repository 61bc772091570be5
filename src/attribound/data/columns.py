"""What the features of an example are called, and which of them belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attribound.basics.errors import InputError


@dataclass(frozen=True)
class Columns:
    """The columns of a table, or the tokens of a text, and the features they became.

    Attributes:
        names: of the columns.
        groups: the number of the column of each feature, in the order of the flattened example.
        features: names of the features: ``age``, or ``housing=own`` of a category.
        categories: of the columns that were texts, their values in the order of the features.
    """

    names: tuple[str, ...]
    groups: tuple[int, ...]
    features: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def plain(cls, names: Sequence[str]) -> Columns:
        """A feature a column."""
        return cls(tuple(names), tuple(range(len(names))), tuple(names))

    @classmethod
    def tokens(cls, names: Sequence[str], channels: int) -> Columns:
        """Embedded tokens ``(tokens, channels)``: all channels of a token belong together."""
        numbers = [number for number in range(len(names)) for _ in range(channels)]
        features = [f"{name} [{channel}]" for name in names for channel in range(channels)]
        return cls(tuple(names), tuple(numbers), tuple(features))

    @property
    def grouped(self) -> bool:
        """Whether a column has several features."""
        return len(self.names) < len(self.features)

    @property
    def switches(self) -> tuple[bool, ...]:
        """Of each feature whether it is one of a category: 0 or 1, never in between."""
        return tuple(self.names[group] in self.categories for group in self.groups)

    def of(self, name: str) -> list[int]:
        """The features that ``name`` stands for: those of a column, or one.

        Raises:
            InputError: there is no such column.
        """
        if name in self.names:
            number = self.names.index(name)
            return [feature for feature, group in enumerate(self.groups) if group == number]
        if name in self.features:
            return [self.features.index(name)]
        raise InputError(
            "column",
            expected=f"one of {', '.join(self.names)}",
            got=repr(name),
            remedy="check the spelling",
        )

    def called(self, scores: int) -> tuple[str, ...] | None:
        """Names for a map of so many scores: of the features, or of columns if it is summed."""
        if scores == len(self.features):
            return self.features
        return self.names if scores == len(self.names) else None
