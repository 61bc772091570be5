"""A user's network as linear pieces and pointwise functions, differentiated without autograd."""

from attribound.networks.structured.choosing import Result, Structures
from attribound.networks.structured.network import (
    LinearisedGradient,
    StructuredNetwork,
    UnstructuredError,
)
from attribound.networks.structured.stem import LinearisedPath, Stem, stem_of
from attribound.networks.structured.tracing import trace
from attribound.networks.structured.unchanged import Unchanged

__all__ = [
    "LinearisedGradient",
    "LinearisedPath",
    "Result",
    "Stem",
    "StructuredNetwork",
    "Structures",
    "Unchanged",
    "UnstructuredError",
    "stem_of",
    "trace",
]
