"""The paper's figures: PNG and PDF from runs and small stored measurements."""

from reproduction.paper.figures.items import ITEMS

__all__ = ["ITEMS"]
