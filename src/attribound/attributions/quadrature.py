"""Quadrature rules on [0, 1] for integrated gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribound.basics.errors import InputError

Rule = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


def _riemann_right(steps: int) -> Rule:
    return np.arange(1, steps + 1) / steps, np.full(steps, 1 / steps)


def _midpoint(steps: int) -> Rule:
    return (np.arange(steps) + 0.5) / steps, np.full(steps, 1 / steps)


def _gauss_legendre(steps: int) -> Rule:
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return (nodes + 1) / 2, weights / 2


#: More would take minutes to count alone; nodes of Gauss are eigenvalues of a matrix of that size.
MOST_STEPS, _MOST_NODES = 2**20, 2**11
RULES: dict[str, Callable[[int], Rule]] = {
    "riemann_right": _riemann_right,
    "midpoint": _midpoint,
    "gauss_legendre": _gauss_legendre,
}


def rule(name: str, steps: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights (summing to one) of a rule, in double precision.

    >>> rule("riemann_right", 2)[0].tolist()
    [0.5, 1.0]
    """
    if name not in RULES:
        raise InputError(
            "quadrature",
            expected=f"one of {', '.join(RULES)}",
            got=repr(name),
            remedy="riemann_right is the paper's, gauss_legendre the most accurate",
        )
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise InputError(
            "steps", expected="a whole number of at least 1", got=repr(steps), remedy="use e.g. 20"
        )
    most = MOST_STEPS if name != "gauss_legendre" else _MOST_NODES
    if steps > most:
        raise InputError(
            "steps",
            expected=f"at most {most:,} of the quadrature {name}",
            got=f"{steps:,}",
            remedy="800 steps of gauss_legendre are plenty for most networks",
        )
    nodes, weights = RULES[name](steps)
    return torch.from_numpy(nodes), torch.from_numpy(weights)
