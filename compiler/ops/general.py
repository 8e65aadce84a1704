"""Operators on tensors of any shape and element type: the table.

What they mean stands with them; the operators of `compiler.ops.nchw` are those that also have a
form on the accelerator, or parameters that are constants.
"""

from compiler.ops.elementwise import ELEMENTWISE
from compiler.ops.movement import MOVEMENT
from compiler.ops.operator import Operator
from compiler.ops.products import PRODUCTS
from compiler.ops.reductions import REDUCTIONS

__all__ = ["GENERAL"]

GENERAL: dict[str, Operator] = ELEMENTWISE | REDUCTIONS | MOVEMENT | PRODUCTS
