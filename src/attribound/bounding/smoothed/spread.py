"""How far vectors spread in their worst direction, from a stream of them in bounded memory."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg.blas import dsyrk

from attribound.attributions.noise import Array
from attribound.bounding.smoothed.eigenvalue import eigenvalue_above

#: Scores up to which the matrix of second moments is kept whole (128 MiB).
WHOLE = 4096
_SKETCH_BYTES = 2**29
_MOST_ROWS = 512


class Spread(Protocol):
    """Sums ``y y^T`` over rows ``y``; memory does not depend on how many there are."""

    def add(self, rows: Array) -> None:
        """Take more of them, ``(rows, scores)``."""

    def largest(self, without: Array | None = None) -> float:
        """Not below the largest eigenvalue of the sum.

        With a unit vector ``without``: of the sum over the rows projected orthogonally to it.
        """


class WholeSpread:
    """All second moments."""

    def __init__(self, scores: int) -> None:
        self._sum = np.zeros((scores, scores), order="F")

    def add(self, rows: Array) -> None:
        """``sum += rows^T rows``, lower triangle only."""
        self._sum = dsyrk(1.0, rows.T, beta=1.0, c=self._sum, overwrite_c=1, lower=1)

    def largest(self, without: Array | None = None) -> float:
        """By factorisation."""
        if without is None:
            return eigenvalue_above(self._sum)
        whole = np.tril(self._sum) + np.tril(self._sum, -1).T
        image = whole @ without
        whole -= np.outer(without, image) + np.outer(image, without)
        whole += (without @ image) * np.outer(without, without)
        return max(eigenvalue_above(whole), 0.0)


class SketchedSpread:
    """Frequent directions (Liberty 2013): few rows B with ``B^T B <= sum <= B^T B + lost I``.

    ``lost`` is known, so that the upper value is certain, not only likely; as long as all
    rows fit it is zero.
    """

    def __init__(self, scores: int, rows: int | None = None) -> None:
        affordable = max(2, _SKETCH_BYTES // (16 * scores))
        self._keep = min(_MOST_ROWS, affordable) if rows is None else rows
        self._rows = np.zeros((2 * self._keep, scores))
        self._used = 0
        self.lost = 0.0

    def add(self, rows: Array) -> None:
        """Fill the buffer, shrink it when it is full."""
        start = 0
        while start < len(rows):
            taken = rows[start : start + len(self._rows) - self._used]
            self._rows[self._used : self._used + len(taken)] = taken
            self._used += len(taken)
            start += len(taken)
            if self._used == len(self._rows):
                self._shrink()

    def _shrink(self) -> None:
        values, vectors = np.linalg.eigh(self._rows @ self._rows.T)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        cut = float(values[self._keep])
        kept = values[: self._keep]
        factor = np.sqrt(np.maximum(kept - cut, 0.0) / np.where(kept > 0, kept, 1.0))
        self._rows[: self._keep] = factor[:, None] * (vectors[:, : self._keep].T @ self._rows)
        self._rows[self._keep :] = 0.0
        self._used = self._keep
        self.lost += cut

    def largest(self, without: Array | None = None) -> float:
        """That of the rows kept, plus what was lost."""
        gram = self._rows @ self._rows.T
        if without is not None:
            along = self._rows @ without
            gram = gram - np.outer(along, along)
        rounding = 1e-9 * float(np.trace(gram)) if self.lost else 0.0
        return max(eigenvalue_above(gram), 0.0) + self.lost + rounding


def spread_of(scores: int) -> Spread:
    """Whole where that fits, else a sketch."""
    return WholeSpread(scores) if scores <= WHOLE else SketchedSpread(scores)
