"""Where audits get their models and data from: names, files and factories, never pickled code."""

from attribound.auditing.sources.data import chosen, load_data
from attribound.auditing.sources.factory import with_features
from attribound.auditing.sources.loaded import LoadedModel
from attribound.auditing.sources.model import load_model

__all__ = ["LoadedModel", "chosen", "load_data", "load_model", "with_features"]
