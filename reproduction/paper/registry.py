"""Everything of the paper that can be made, by name."""

from __future__ import annotations

from reproduction.paper import cost, effort, holding, rules, tables, verdicts
from reproduction.paper.figures import items as figures
from reproduction.paper.items import Item, RunSpec

__all__ = ["ITEMS", "Item", "RunSpec"]

_FIRST = "table1"  # made of pictures

ITEMS: dict[str, Item] = {
    _FIRST: figures.ITEMS[_FIRST],
    **tables.ITEMS,
    holding.ITEM.name: holding.ITEM,
    **rules.ITEMS,
    cost.ITEM.name: cost.ITEM,
    effort.ITEM.name: effort.ITEM,
    **figures.ITEMS,
    verdicts.ITEM.name: verdicts.ITEM,
}
