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


def averaged_title(subject: str) -> str:
    """What the noise-averaged map of a network is called; no number of the plain map is of it.

    >>> averaged_title(YOURS)
    'the averaged map of your network'
    """
    return f"the averaged map of {subject}"


#: What certificates by noise speak of.
AVERAGED = averaged_title(YOURS)
