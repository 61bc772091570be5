"""Calibrated bounds: a base bound times a factor that holds for most samples."""

from attribound.calibration.calibration import Calibration
from attribound.calibration.procedure import SplitConformal, calibrate
from attribound.calibration.provenance import Provenance

__all__ = ["Calibration", "Provenance", "SplitConformal", "calibrate"]
