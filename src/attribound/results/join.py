"""Results of groups of examples as one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from attribound.results.claims import Claim
from attribound.values import Value


def join(parts: list[Any]) -> Any:
    """Results of groups of examples as one result: per-example fields are concatenated.

    Claims and values, such as balls, are those of all groups.
    """
    first = parts[0]
    if len(parts) == 1 or first is None or isinstance(first, (Claim, Value)):
        return first
    if isinstance(first, Tensor):
        return torch.cat(parts)
    if isinstance(first, tuple):
        return tuple(item for part in parts for item in part)
    if isinstance(first, dict):
        return {key: join([part[key] for part in parts]) for key in first}
    if hasattr(first, "__dataclass_fields__"):
        return type(first)(
            **{f.name: join([getattr(part, f.name) for part in parts]) for f in fields(first)}
        )
    return first
