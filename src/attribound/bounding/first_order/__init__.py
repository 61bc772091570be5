"""Every bound of the paper, one result a file."""

from attribound.bounding.first_order.first_order import first_order, first_order_in_balls
from attribound.bounding.first_order.max_epsilon import max_epsilon
from attribound.bounding.first_order.remainder import eta
from attribound.bounding.first_order.sensitivity import FirstOrder
from attribound.bounding.restate import restate

__all__ = ["FirstOrder", "eta", "first_order", "first_order_in_balls", "max_epsilon", "restate"]
