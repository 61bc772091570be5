"""Where the batches are computed: processes of this machine, or a Ray cluster."""

from attribound.auditing.engines.local import LocalEngine
from attribound.auditing.engines.ray import RayEngine
from attribound.auditing.engines.work import Engine, Work

__all__ = ["Engine", "LocalEngine", "RayEngine", "Work"]
