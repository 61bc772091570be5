"""Where the batches are computed: processes of this machine, or a Ray cluster."""

from attribound.evaluation.engines.local import LocalEngine
from attribound.evaluation.engines.ray import RayEngine
from attribound.evaluation.engines.work import Engine, Work

__all__ = ["Engine", "LocalEngine", "RayEngine", "Work"]
