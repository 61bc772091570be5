"""The largest eigenvalue of a matrix of second moments, from above."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackError, eigsh

from attribound.attributions.noise import Array

_SMALL = 200  # rows: below that all eigenvalues are cheap
_MARGIN = 1e-4  # first distance from the Ritz value at which a factorisation is tried


def eigenvalue_above(matrix: Array) -> float:
    """A number not below the largest eigenvalue of a symmetric, non-negative matrix.

    An iteration finds a value from below; the proof is a Cholesky factorisation of
    ``value * I - matrix``, which exists only if no eigenvalue is larger. What its rounding can
    hide is added. Only the lower triangle is read.
    """
    size = len(matrix)
    trace = float(np.trace(matrix))
    hidden = 4 * size * float(np.finfo(np.float64).eps) * trace
    if size <= _SMALL:
        return min(float(np.linalg.eigvalsh(matrix, UPLO="L")[-1]) + hidden, trace + hidden)
    whole = np.tril(matrix) + np.tril(matrix, -1).T
    try:
        start = np.random.default_rng(0).standard_normal(size)
        (ritz,) = eigsh(whole, k=1, tol=1e-5, v0=start, return_eigenvectors=False)
    except ArpackError:
        return trace + hidden  # always true
    margin = _MARGIN
    while (value := float(ritz) * (1 + margin)) < trace:
        try:
            scipy.linalg.cholesky(
                value * np.eye(size) - whole, lower=True, overwrite_a=True, check_finite=False
            )
        except np.linalg.LinAlgError:
            margin *= 4
            continue
        return value + hidden
    return trace + hidden
