"""Everything of the paper that can be made, by name."""

from __future__ import annotations

from reproduction.paper import cost, tables, verdicts
from reproduction.paper.figures import items as figures
from reproduction.paper.items import Item, RunSpec

__all__ = ["ITEMS", "Item", "RunSpec"]

_FIRST = "table1"  # made of pictures

ITEMS: dict[str, Item] = {
    _FIRST: figures.ITEMS[_FIRST],
    **tables.ITEMS,
    cost.ITEM.name: cost.ITEM,
    **figures.ITEMS,
    verdicts.ITEM.name: verdicts.ITEM,
}
