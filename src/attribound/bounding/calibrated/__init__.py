"""Calibrated bounds: a base bound times a factor that holds for most samples."""

from attribound.bounding.calibrated.calibrated_claim import CALIBRATED, Calibrated
from attribound.bounding.calibrated.calibration import Calibration
from attribound.bounding.calibrated.procedure import SplitConformal, calibrate
from attribound.bounding.calibrated.provenance import Provenance

__all__ = ["CALIBRATED", "Calibrated", "Calibration", "Provenance", "SplitConformal", "calibrate"]
