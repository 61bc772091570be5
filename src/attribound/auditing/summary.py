"""What an audit found, one record per attribution, ball and radius."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribound.auditing.cells import Cell, Numbers, cells
from attribound.auditing.rows import AVERAGED, COPY, YOURS, long
from attribound.auditing.summary_records import (
    AttackSummary,
    ClaimSummary,
    CopySummary,
    ExceededShare,
    Summary,
)

#: What stands for an angle that nothing limits.
OPEN = 180.0


def summarise(rows: pa.Table) -> list[Summary]:
    """The rows of an audit in one record per attribution, ball and radius, in that order.

    Samples that failed are counted, and left out of everything else.
    """
    return [_summary(cell) for cell in cells(rows)]


def opposing(cell: Cell, claim: str, field: str = "deviation") -> Numbers:
    """A field of the strongest attack on what each bound under a claim speaks of."""
    own = np.array([text == YOURS for text in cell.bound_texts(claim, "subject")], dtype=bool)
    # Without a copy there is one network, and one strongest attack.
    chosen: Numbers = np.where(own & _copied(cell), cell.yours(field), cell.strongest(field))
    averaged = [text == AVERAGED for text in cell.bound_texts(claim, "subject")]
    return np.where(np.array(averaged, dtype=bool), cell.averaged(field), chosen)


def _copied(cell: Cell) -> npt.NDArray[np.bool_]:
    """Of which samples a smooth copy was bounded."""
    found: npt.NDArray[np.bool_] = pc.is_valid(cell.rows["fidelity"]).to_numpy()
    return found


def _summary(cell: Cell) -> Summary:
    fine = replace(cell, rows=cell.rows.filter(pc.is_null(cell.rows["error"])))
    attacks = {name: _attack(fine, name, subject) for name, subject in _attacked(fine).items()}
    bounded = COPY if fine.has_copy else YOURS
    best = _of("best", fine.strongest, bounded) if attacks else None
    yours = _of("best", fine.yours, YOURS) if attacks and fine.has_copy else None
    averaged = _of("best", fine.averaged, AVERAGED) if attacks else None
    return Summary(
        attribution=cell.attribution,
        ball=cell.ball,
        epsilon=cell.epsilon,
        n=len(cell),
        errors=len(cell) - len(fine),
        misclassified=int((_known(fine.numbers("correct")) == 0).sum()),
        open=best.open if best else 0,
        attribution_norm=_mean(_known(fine.numbers("attribution_norm"))),
        best=best if best and best.n else None,
        yours=yours if yours and yours.n else None,
        averaged=averaged if averaged and averaged.n else None,
        fidelity=fidelity_of([fine]),
        attacks=attacks,
        claims={name: _claim(fine, name) for name in fine.claims},
    )


def fidelity_of(cells: Sequence[Cell]) -> CopySummary | None:
    """How far a smooth copy is from its network over all these rows; None without a copy."""
    columns = [
        _known(np.concatenate([cell.fidelity(field) for cell in cells]))
        for field in ("label", "degrees", "ball_degrees")
        if cells
    ]
    if not columns or not all(len(values) for values in columns):
        return None
    labels, here, ball = columns
    return CopySummary(
        n=len(labels),
        labels=int(labels.sum()),
        degrees=float(np.median(here)),
        worst_degrees=float(here.max()),
        ball_degrees=float(np.median(ball)),
        worst_ball_degrees=float(ball.max()),
    )


def _claim(cell: Cell, name: str) -> ClaimSummary:
    bound, attack = cell.bound(name), opposing(cell, name)
    bounded = _known(bound)
    # Over the same samples as every other angle: where there is no bound nothing limits it either.
    angles = np.nan_to_num(cell.bound(name, "degrees"), nan=OPEN) if len(bounded) else bounded
    slack, factor = _ratios(bound, attack)
    own, yours = cell.bound(name, "exceeded"), cell.bound(name, "yours_exceeded")
    subjects = cell.subjects(name)
    about_plain = AVERAGED not in subjects
    return ClaimSummary(
        claim=name,
        n=len(bounded),
        mean=_mean(bounded),
        largest=_largest(bounded),
        degrees=_median(angles),
        worst_degrees=_largest(angles),
        open=int((angles >= OPEN).sum()),
        exceeded=_share(own),
        exceeded_degrees=_share(cell.bound(name, "degrees_exceeded")),
        slack=_mean(slack),
        worst=_largest(factor),
        products=_mean(_known(cell.bound(name, "products"))),
        seconds=float(_known(cell.bound(name, "seconds")).sum()),
        statuses=dict(Counter(map(str, cell.bound_texts(name, "status"))).most_common()),
        # Where some speak of the copy, nothing is said of the network.
        subject=(subjects.pop() if len(subjects) == 1 else COPY) if subjects else None,
        yours=_share(yours) if cell.has_copy and about_plain else None,
        yours_worst=_largest(_ratios(bound, cell.yours("deviation"))[1])
        if cell.has_copy and about_plain
        else None,
        either=_share(np.fmax(own, yours)),
    )


def _ratios(bound: Numbers, attack: Numbers) -> tuple[Numbers, Numbers]:
    """Bound / attack and attack / bound, where there is a bound and the attack moved anything."""
    moved = ~np.isnan(bound) & (attack > 0)
    with np.errstate(divide="ignore"):
        return bound[moved] / attack[moved], attack[moved] / bound[moved]


def _attacked(cell: Cell) -> dict[str, str]:
    """The attacks that were made, and whose maps they attacked."""
    pairs = long(cell.rows, "attacks").select(["attack", "subject"]).to_pylist()
    found = {each["attack"]: each["subject"] or YOURS for each in reversed(pairs)}
    return {name: found[name] for name in cell.attacks}


def _attack(cell: Cell, name: str, subject: str) -> AttackSummary:
    means = [
        float(np.mean([repeat["deviation"] for repeat in repeats]))
        for repeats in cell.repeats(name)
        if repeats
    ]
    return replace(
        _of(name, lambda field: cell.attack(name, field), subject),
        mean_of_means=_mean(np.array(means)),
        seconds=float(_known(cell.attack(name, "seconds")).sum()),
    )


def _of(name: str, column: Callable[[str], Numbers], subject: str) -> AttackSummary:
    deviation, angles = _known(column("deviation")), _known(column("degrees"))
    return AttackSummary(
        attack=name,
        n=len(deviation),
        mean=_mean(deviation),
        worst=_largest(deviation),
        mean_of_means=None,
        degrees=_median(angles),
        worst_degrees=_largest(angles),
        open=int((angles >= OPEN).sum()),
        labels_kept=_mean(_known(column("label_kept"))),
        kendall=_mean(_known(column("kendall"))),
        topk=_mean(_known(column("topk"))),
        seconds=None,
        subject=subject,
    )


def _share(flags: Numbers) -> ExceededShare | None:
    known = _known(flags)
    return ExceededShare.of(int(known.sum()), len(known))


def _known(values: Numbers) -> Numbers:
    """Without what is missing."""
    return values[~np.isnan(values)]


def _mean(values: Numbers) -> float | None:
    return float(values.mean()) if len(values) else None


def _median(values: Numbers) -> float | None:
    return float(np.median(values)) if len(values) else None


def _largest(values: Numbers) -> float | None:
    return float(values.max()) if len(values) else None


def totals(summaries: Sequence[Summary]) -> dict[str, ExceededShare | None]:
    """Of each claim how many bounds were exceeded over all attributions and balls.

    With a smooth copy a bound counts if an attack exceeded it on what it speaks of or on the
    user's own network: a network must not pass by what holds for its copy.
    """
    return _added(summaries, lambda claim: claim.either)


def yours_totals(summaries: Sequence[Summary]) -> dict[str, ExceededShare | None]:
    """The same by attacks on the user's own network only; None without a smooth copy."""
    return _added(summaries, lambda claim: claim.yours)


def _added(
    summaries: Sequence[Summary], read: Callable[[ClaimSummary], ExceededShare | None]
) -> dict[str, ExceededShare | None]:
    counts: dict[str, tuple[int, int]] = {}
    for summary in summaries:
        for name, claim in summary.claims.items():
            exceeded, n = counts.get(name, (0, 0))
            share = read(claim)
            if share is not None:
                exceeded, n = exceeded + share.count, n + share.n
            counts[name] = (exceeded, n)
    return {name: ExceededShare.of(*both) for name, both in counts.items()}
