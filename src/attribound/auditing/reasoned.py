"""What stays of the largest scores of some samples in one ball, under every claim."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from attribound.attributions import Attribution
from attribound.auditing.at_work import Say, silent
from attribound.auditing.bounded import Fields, called, whose
from attribound.auditing.rows import AVERAGED
from attribound.auditing.settings import AuditSettings
from attribound.basics.errors import AttriboundError
from attribound.bounding.method import Method, Question
from attribound.bounding.reasons.asking import answer
from attribound.bounding.reasons.attained import attack, attained, perturbations
from attribound.bounding.reasons.record import Displacement, Reasons


@dataclass
class Lists:
    """The lists of reasons of a batch in one ball; what was found on one is tried on the others.

    Attributes:
        settings: how many reasons, ranked how.
        deltas: perturbations of the ball that are known already.
    """

    settings: AuditSettings
    deltas: list[Tensor]
    _attacked: list[Attribution] = field(default_factory=list)

    def records(
        self,
        asked: Sequence[Question],
        methods: Sequence[Method],
        bounds: Sequence[Sequence[Fields]],
        say: Say = silent,
    ) -> list[list[Fields]]:
        """A record a claim, for each sample; claims without a bound say why, as their bound does.

        No claim knows of these attacks: one that does can't be contradicted by them. All that
        people run is attacked before anything is judged.
        """
        keep, by = self.settings.keep, self.settings.keep_by or "value"
        assert keep is not None
        made: list[tuple[Method, Question, Tensor, Reasons, float] | str] = []
        for at, (method, question) in enumerate(zip(methods, asked, strict=True)):
            if any(row[at].get("euclidean") is None for row in bounds):
                made.append(str(bounds[0][at].get("status")))
                continue
            say(f"reasons, {called(method)}")
            self._attack(question, keep)
            start = time.perf_counter()
            clean = question.attribution(question.x, question.target)
            try:
                found = answer(method, question, clean, keep, by)
            except AttriboundError as error:
                if not method.may_not_apply:
                    raise
                made.append(f"does not apply: {error}")
                continue
            made.append((method, question, clean, found, time.perf_counter() - start))
        left: dict[tuple[int, bool], Displacement] = {}
        by_claim = []
        for unsaid, one in zip(methods, made, strict=True):
            if isinstance(one, str):
                by_claim.append([{"claim": unsaid.claim.name, "status": one} for _ in bounds])
                continue
            method, question, clean, found, spent = one
            key = id(question.attribution), method.opponent() is not None
            if key not in left:
                left[key] = attained(method, question, clean, self.deltas, keep, by)
            by_claim.append(_records(method, question, found, left[key], spent))
        return [list(records) for records in zip(*by_claim, strict=True)]

    def _attack(self, question: Question, keep: int) -> None:
        """Once for each map."""
        if any(question.attribution is each for each in self._attacked):
            return
        self._attacked.append(question.attribution)
        by = self.settings.keep_by or "value"
        found = attack(question, keep, by, seed=1_000_003 * self.settings.seed)
        self.deltas += perturbations(found)


def _records(
    method: Method, question: Question, found: Reasons, left: Displacement, spent: float
) -> list[Fields]:
    averaged = method.opponent() is not None
    columns = {
        "features": found.features,
        "values": found.values,
        "low": found.low,
        "high": found.high,
        "sign_kept": found.sign_kept,
        "stays": found.stays,
        "kept": found.kept,
        "order_kept": found.order_kept,
        "attacked_kept": left.kept,
        "attacked_features": left.features,
        "attacked_values": left.map.flatten(1).gather(1, found.features),
        "exceeded": replace(found, attained=left).exceeded,
    }
    lists = {name: column.detach().cpu().tolist() for name, column in columns.items()}
    return [
        {
            "claim": method.claim.name,
            "subject": AVERAGED if averaged else whose(question.attribution.subject),
            **{name: values[row] for name, values in lists.items()},
            "seconds": spent / len(found),
        }
        for row in range(len(found))
    ]
