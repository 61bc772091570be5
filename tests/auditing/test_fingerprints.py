from __future__ import annotations

import torch

from attribound.auditing import fingerprints
from attribound.auditing.fingerprints import data_fingerprint
from attribound.data.examples import InMemory


def examples(values, labels) -> InMemory:
    return InMemory("some", torch.tensor(values), torch.tensor(labels), ["a", "b"])


def test_values_labels_and_order_count_and_names_do_not(monkeypatch) -> None:
    values, labels = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [0, 1, 1]
    first = data_fingerprint(examples(values, labels))
    assert first.startswith("sha256:")
    renamed = InMemory("other", torch.tensor(values), torch.tensor(labels), ["x", "y", "z"])
    assert data_fingerprint(renamed) == first
    others = [
        examples([[1.0, 2.0], [3.0, 4.5], [5.0, 6.0]], labels),
        examples(values, [0, 0, 1]),
        examples(values[::-1], labels),
        examples(values[:2], labels[:2]),
    ]
    assert len({first, *map(data_fingerprint, others)}) == 5
    monkeypatch.setattr(fingerprints, "_AT_ONCE", 2)  # pieces make no difference
    assert data_fingerprint(examples(values, labels)) == first
