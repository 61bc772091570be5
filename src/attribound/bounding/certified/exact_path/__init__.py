"""The certificate of exact integrated gradients of ReLU networks."""

from attribound.bounding.certified.exact_path.bound import (
    SOURCE,
    ProvedPaths,
    certify_exact,
    is_exact,
    without_offsets,
)
from attribound.bounding.certified.exact_path.certificate import PathCertificate

__all__ = [
    "SOURCE",
    "PathCertificate",
    "ProvedPaths",
    "certify_exact",
    "is_exact",
    "without_offsets",
]
