"""A user's network as linear pieces and pointwise functions, differentiated without autograd."""

from attribound.networks.structured.choosing import Structures
from attribound.networks.structured.network import (
    LinearisedGradient,
    StructuredNetwork,
    UnstructuredError,
)
from attribound.networks.structured.tracing import trace

__all__ = ["LinearisedGradient", "StructuredNetwork", "Structures", "UnstructuredError", "trace"]
