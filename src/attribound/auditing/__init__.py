"""Audits: bounds and attacks for every sample of a data set, in rows that can be kept."""

from attribound.auditing.audit import audit
from attribound.auditing.calibrating import FromRun
from attribound.auditing.cells import Cell, cells
from attribound.auditing.engines import Engine, LocalEngine, RayEngine, Work
from attribound.auditing.protocols import Protocol
from attribound.auditing.settings import AuditSettings, read_settings
from attribound.auditing.sources import chosen, load_data, load_model
from attribound.auditing.store import Run, is_run
from attribound.auditing.summary import summarise, totals
from attribound.auditing.summary_records import wilson
from attribound.auditing.tables import FeatureMoments, TableSettings, ball_in_units, inner_scaler

__all__ = [
    "AuditSettings",
    "Cell",
    "Engine",
    "FeatureMoments",
    "FromRun",
    "LocalEngine",
    "Protocol",
    "RayEngine",
    "Run",
    "TableSettings",
    "Work",
    "audit",
    "ball_in_units",
    "cells",
    "chosen",
    "inner_scaler",
    "is_run",
    "load_data",
    "load_model",
    "read_settings",
    "summarise",
    "totals",
    "wilson",
]
