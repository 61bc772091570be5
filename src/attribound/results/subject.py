"""Of which network a number speaks."""

from __future__ import annotations

#: The network that a user runs.
YOURS = "your network"


def copy_title(beta: float) -> str:
    """What a smooth copy of it is called.

    >>> copy_title(20.0)
    'its smooth copy, β = 20'
    """
    return f"its smooth copy, β = {beta:g}"
