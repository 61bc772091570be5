"""Every bound of the paper, one result a file."""

from attribound.bounding.first_order import first_order, first_order_in_balls
from attribound.bounding.max_epsilon import max_epsilon
from attribound.bounding.remainder import eta
from attribound.bounding.restate import restate
from attribound.bounding.sensitivity import FirstOrder

__all__ = ["FirstOrder", "eta", "first_order", "first_order_in_balls", "max_epsilon", "restate"]
