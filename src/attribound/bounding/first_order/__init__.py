"""Every bound of the paper, one result a file."""

from attribound.bounding.first_order.adjusted_claim import ADJUSTED, Adjusted
from attribound.bounding.first_order.first_order import (
    FIRST_ORDER,
    FirstOrder,
    first_order,
    first_order_in_balls,
)
from attribound.bounding.first_order.max_epsilon import largest_epsilon, unit_ball
from attribound.bounding.first_order.remainder import eta

__all__ = [
    "ADJUSTED",
    "FIRST_ORDER",
    "Adjusted",
    "FirstOrder",
    "eta",
    "first_order",
    "first_order_in_balls",
    "largest_epsilon",
    "unit_ball",
]
