"""The limit of memory of a certificate."""

from __future__ import annotations

from attribound.basics.errors import MemoryLimitError


def check_memory(needed: int, limit: int, of: str) -> None:
    """Refuse to take more memory than the limit, before it is taken."""
    if needed > limit:
        raise MemoryLimitError(
            "certificate",
            expected=f"at most {limit / 2**30:.3g} GiB",
            got=f"{needed / 2**30:.3g} GiB for {of}",
            remedy="raise Certified(memory_limit=...), use a smaller ball, or another bound",
        )
