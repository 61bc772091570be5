from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackError

from attribound.bounding.smoothed import eigenvalue, spread
from attribound.bounding.smoothed.eigenvalue import eigenvalue_above
from attribound.bounding.smoothed.spread import SketchedSpread, WholeSpread, spread_of


def rows(count: int = 400, scores: int = 30) -> np.ndarray:
    """With some directions that are much longer than others."""
    generator = np.random.default_rng(0)
    return generator.standard_normal((count, scores)) * 0.9 ** np.arange(scores)


def dense(vectors: np.ndarray, without: np.ndarray | None = None) -> float:
    if without is not None:
        vectors = vectors - np.outer(vectors @ without, without)
    return float(np.linalg.svd(vectors, compute_uv=False)[0] ** 2)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("chunk", [7, 400])
def test_whole(across: bool, chunk: int) -> None:
    vectors = rows()
    without = np.ones(30) / np.sqrt(30) if across else None
    made = WholeSpread(30)
    for start in range(0, len(vectors), chunk):
        made.add(vectors[start : start + chunk])
    assert made.largest(without) == pytest.approx(dense(vectors, without), rel=1e-9)
    assert made.largest(without) >= dense(vectors, without)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("kept", [2, 5, 20])
def test_a_sketch_is_never_below_and_never_far_above(kept: int, across: bool) -> None:
    vectors = rows()
    without = np.ones(30) / np.sqrt(30) if across else None
    made = SketchedSpread(30, kept)
    for start in range(0, len(vectors), 7):
        made.add(vectors[start : start + 7])
    truth = dense(vectors, without)
    total = float((vectors**2).sum())
    assert truth * (1 - 1e-12) <= made.largest(without) <= truth + total / kept
    assert made.lost > 0


def test_a_sketch_that_holds_everything_is_exact() -> None:
    vectors = rows(20)
    made = SketchedSpread(30, 20)
    made.add(vectors)
    assert made.lost == 0
    assert made.largest() == pytest.approx(dense(vectors), rel=1e-9)


def test_memory_does_not_grow_with_the_rows() -> None:
    made = SketchedSpread(1000, 8)
    size = made._rows.nbytes
    for _ in range(20):
        made.add(np.random.default_rng(0).standard_normal((50, 1000)))
    assert made._rows.nbytes == size


def test_large_maps_are_sketched() -> None:
    assert isinstance(spread_of(spread.WHOLE), WholeSpread)
    sketch = spread_of(150_528)
    assert isinstance(sketch, SketchedSpread)
    assert sketch._rows.nbytes <= 2**29


class TestEigenvalue:
    def matrix(self, size: int = 300) -> tuple[np.ndarray, float]:
        vectors = np.random.default_rng(0).standard_normal((50, size))
        whole = vectors.T @ vectors
        return whole, float(np.linalg.eigvalsh(whole)[-1])

    def test_from_above(self) -> None:
        whole, truth = self.matrix()
        assert truth <= eigenvalue_above(whole) <= truth * 1.001
        assert truth <= eigenvalue_above(np.tril(whole)) <= truth * 1.001

    def test_a_ritz_value_that_is_too_small_is_not_believed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The factorisation is the proof, not the iteration."""
        whole, truth = self.matrix()
        monkeypatch.setattr(eigenvalue, "eigsh", lambda *_, **__: [0.5 * truth])
        assert truth <= eigenvalue_above(whole) <= np.trace(whole) * 1.001
        monkeypatch.setattr(eigenvalue, "eigsh", lambda *_, **__: [1e-9 * truth])
        assert truth <= eigenvalue_above(whole) <= np.trace(whole) * 1.001

    def test_an_iteration_that_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise ArpackError(-1)

        whole, truth = self.matrix()
        monkeypatch.setattr(eigenvalue, "eigsh", fail)
        assert eigenvalue_above(whole) >= truth

    def test_zero(self) -> None:
        assert eigenvalue_above(np.zeros((300, 300))) == 0
        assert eigenvalue_above(np.zeros((3, 3))) == 0
