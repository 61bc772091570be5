"""Audits: bounds and attacks for every sample of a data set, in rows that can be kept."""

from attribound.auditing.at_work import AtWork, Listener, heard_by, listener, nobody
from attribound.auditing.audit import audit
from attribound.auditing.calibrating import FromRun
from attribound.auditing.cells import Cell, cells
from attribound.auditing.engines import Engine, LocalEngine, RayEngine, Work
from attribound.auditing.progress import meanwhile
from attribound.auditing.protocols import Protocol
from attribound.auditing.settings import AuditSettings, read_settings
from attribound.auditing.sources import chosen, load_data, load_model
from attribound.auditing.store import Run, is_run
from attribound.auditing.summary import summarise, totals
from attribound.auditing.summary_records import wilson
from attribound.auditing.tables import FeatureMoments, TableSettings, ball_in_units, inner_scaler

__all__ = [
    "AtWork",
    "AuditSettings",
    "Cell",
    "Engine",
    "FeatureMoments",
    "FromRun",
    "Listener",
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
    "heard_by",
    "inner_scaler",
    "is_run",
    "listener",
    "load_data",
    "load_model",
    "meanwhile",
    "nobody",
    "read_settings",
    "summarise",
    "totals",
    "wilson",
]
