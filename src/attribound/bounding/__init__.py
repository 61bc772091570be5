"""Every bound of the paper, one result a file."""

from attribound.bounding.first_order import bound
from attribound.bounding.max_epsilon import max_epsilon
from attribound.bounding.remainder import eta
from attribound.bounding.sensitivity import FirstOrder

__all__ = ["FirstOrder", "bound", "eta", "max_epsilon"]
