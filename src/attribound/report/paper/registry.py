"""Everything of the paper that can be made, by name."""

from __future__ import annotations

from attribound.report.paper.items import Item, RunSpec

__all__ = ["ITEMS", "Item", "RunSpec"]

ITEMS: dict[str, Item] = {}
