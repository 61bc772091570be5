"""Largest singular values, matrix-free."""

from attribound.spectral.solver import SpectralSolver

__all__ = ["SpectralSolver"]
