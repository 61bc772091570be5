"""Largest singular values and operator norms, matrix-free."""

from attribound.spectral.norm_solver import NormSolver
from attribound.spectral.solver import SpectralSolver

__all__ = ["NormSolver", "SpectralSolver"]
