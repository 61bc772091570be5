"""Several claims about the same examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from attribound.basics.tables import cell, render
from attribound.results.bound import Bound
from attribound.results.claims import Claim, claim_named


@dataclass(frozen=True, eq=False, repr=False)
class Bounds(Mapping[str, Bound]):
    """The bound of every claim, e.g. ``bounds["mean_value"]``, and what each cost.

    Attributes:
        by_claim: the bounds, by the name of their claim.
        seconds: time spent on each beyond what it shares with those before it.
    """

    by_claim: dict[str, Bound]
    seconds: dict[str, float]

    def __getitem__(self, claim: str | Claim) -> Bound:
        """The bound under ``claim``."""
        return self.by_claim[claim_named(claim).name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_claim)

    def __len__(self) -> int:
        return len(self.by_claim)

    def __repr__(self) -> str:
        rows = []
        for name, bound in self.by_claim.items():
            status = Counter(str(each) for each in bound.status).most_common()
            rows.append(
                [
                    str(bound.claim),
                    _mean(bound.euclidean),
                    _mean(bound.degrees),
                    _mean(bound.products),
                    self.seconds[name],
                    ", ".join(f"{count} {text}" for text, count in status),
                ]
            )
        some = next(iter(self.by_claim.values()))
        title = (
            f"Bounds on the attribution deviation of {some.subject}, {len(some)} examples, "
            f"{some.ball.name} ball of "
            f"radius {cell(some.epsilon)}, means"
        )
        return render(title, ["claim", "T_e", "degrees", "products", "seconds", "status"], rows)


def _mean(values: Tensor) -> float:
    return values.double().mean().item()
