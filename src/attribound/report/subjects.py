"""What the networks of a run are called, wherever it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attribound.auditing.rows import AVERAGED
from attribound.auditing.rows import YOURS as OWN
from attribound.results import AVERAGED as OF_AVERAGED
from attribound.results import YOURS, copy_title

#: Where only rows are known: they don't have the beta.
A_COPY = "its smooth copy"


def copy_of(settings: Mapping[str, Any]) -> str:
    """What the smooth copy of a run is called, by the settings of the run.

    >>> copy_of({"smooth": 20.0}), copy_of({})
    ('its smooth copy, β = 20', 'its smooth copy')
    """
    beta = settings.get("smooth")
    return copy_title(beta) if isinstance(beta, (int, float)) else A_COPY


def network(subject: str | None, copy: str) -> str:
    """What the network that a record speaks of is called.

    >>> network("yours", "its smooth copy, β = 20"), network("copy", "its smooth copy, β = 20")
    ('your network', 'its smooth copy, β = 20')
    >>> network("averaged", "its smooth copy, β = 20")
    'the averaged map of your network'
    """
    if subject == AVERAGED:
        return OF_AVERAGED
    return YOURS if subject == OWN else copy


def aside(title: str) -> str:
    """The name of a network inside a sentence, which goes on after it.

    >>> aside("your network"), aside("its smooth copy, β = 20")
    ('your network', 'its smooth copy, β = 20,')
    """
    return f"{title}," if "," in title else title


def headed(title: str) -> str:
    """The name of a network as a heading."""
    return f"{title[:1].upper()}{title[1:]}"
