"""Which scores are among the largest, by the votes of the draws.

Each draw votes for the k largest absolute scores of its map. The share of votes p of a score at x
says that at x + delta it is between Phi(Phi^-1(p) - t) and Phi(Phi^-1(p) + t), t the length of
the shift in standard deviations of the noise (Neyman and Pearson): so are pixels certified by
Anani et al. (ICML 2025), and ranks by Levine et al. (2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri
from scipy.stats import beta

from attribound.attributions.noise import Array

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Votes:
    """Shares of votes for each score, from below and above, all true together with 1 - alpha.

    Attributes:
        lower, upper: of the shares at x, ``(scores,)``.
        k: scores that each draw votes for.
        share: as counted.
    """

    lower: Array
    upper: Array
    k: int
    share: Array

    @classmethod
    def counted(cls, counts: Array, draws: int, k: int, alpha: float) -> Votes:
        """Clopper and Pearson for every score, each end with ``alpha / (2 scores)``."""
        failure = alpha / (2 * counts.size)
        lower = np.where(counts > 0, beta.ppf(failure, counts, draws - counts + 1), 0.0)
        upper = np.where(counts < draws, beta.ppf(1 - failure, counts + 1, draws - counts), 1.0)
        return cls(lower, upper, k, counts / draws)

    def certain(self, t: float) -> tuple[Flags, Flags]:
        """Scores that a majority votes for, and those that it does not, at every shift up to t."""
        return self.lower > ndtr(t), self.upper < 1 - ndtr(t)

    def overlap(self, t: float) -> int:
        """How many of the k scores with the most votes keep that rank at every shift up to t.

        At least i do if the i-th largest lower value among them exceeds the (k - i + 1)-th
        largest upper value of the others: only so many others could be above it.
        """
        order = np.argsort(-self.share, kind="stable")
        inside, outside = order[: self.k], order[self.k :]
        lower = np.sort(ndtr(ndtri(self.lower[inside]) - t))[::-1]
        upper = np.sort(ndtr(ndtri(self.upper[outside]) + t))[::-1]
        for i in range(self.k, 0, -1):
            rival = self.k - i  # position of the (k - i + 1)-th
            if rival >= len(upper) or lower[i - 1] > upper[rival]:
                return i
        return 0
