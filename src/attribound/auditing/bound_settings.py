"""With how much effort an audit computes bounds, as settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from attribound.attacks import AttributionAscent
from attribound.auditing.strict import Strict
from attribound.bounding.certified import Certified
from attribound.bounding.first_order import FirstOrder
from attribound.bounding.mean_value import MeanValue
from attribound.spectral import NormSolver, SpectralSolver


@dataclass(frozen=True)
class FirstOrderSettings(Strict):
    """As :class:`FirstOrder`, whose defaults these are.

    Attributes:
        tolerance, max_iterations: of the singular value.
        certificate: the certificate for p > 2, tighter than the paper's bounds.
        certificate_tolerance, certificate_iterations: of the certificate.
        dense: build the Jacobian for p = 1 and infinity; null: where that is cheap.
    """

    tolerance: float = SpectralSolver.tolerance
    max_iterations: int = SpectralSolver.max_iterations
    certificate: bool = True
    certificate_tolerance: float = field(default_factory=lambda: NormSolver().solver.tolerance)
    certificate_iterations: int = NormSolver.iterations
    dense: bool | None = None

    def build(self) -> FirstOrder:
        """The settings of the bound."""
        own = NormSolver().solver
        inside = SpectralSolver(
            self.certificate_tolerance,
            own.max_iterations,
            own.failure_probability,
            own.seed,
            own.stop,
        )
        norm = NormSolver(iterations=self.certificate_iterations, solver=inside)
        solver = SpectralSolver(self.tolerance, self.max_iterations)
        return FirstOrder(solver, norm if self.certificate else None, self.dense)


@dataclass(frozen=True)
class MeanValueSettings(Strict):
    """As :class:`MeanValue`. Its search is seeded by an ascent of its own.

    It is never shown the attacks that the audit holds against it: a bound that knows
    them cannot be broken by them, whatever it is worth.

    Attributes:
        shells, rounds, restarts: of the search for the supremum.
        ascent_steps, ascent_random_starts: of the ascent that seeds it.
    """

    shells: int = MeanValue.shells
    rounds: int = MeanValue.rounds
    restarts: int = MeanValue.restarts
    ascent_steps: int = AttributionAscent.steps
    ascent_random_starts: int = 2

    def build(self, first_order: FirstOrder) -> MeanValue:
        """The settings of the bound, which rests on the audit's own first-order bound."""
        ascent = AttributionAscent(steps=self.ascent_steps, random_starts=self.ascent_random_starts)
        return MeanValue(self.shells, self.rounds, self.restarts, ascent, first_order)


@dataclass(frozen=True)
class CertifiedSettings(Strict):
    """As :class:`Certified`.

    Attributes:
        memory_limit: bytes; a network that needs more has no certified bound.
        widest: layers of more neurons are treated more roughly.
    """

    memory_limit: int = Certified.memory_limit
    widest: int = Certified.widest

    def build(self) -> Certified:
        """The settings of the bound."""
        return Certified(self.memory_limit, self.widest)
