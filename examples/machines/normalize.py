"""A machine on which softmax and layer normalization stay: docs/normalize.md.

Six instructions beside the shipped ones. Four of them give one number for a whole row: they compute
an expression of each element, reduce it over the lanes of an entry, and go on over the blocks of
the row. Two serve what is then computed from such numbers: their exponent, and shifts to the left.
"""

import lockstep
from accel.machine.intrinsics import SHIPPED
from compiler.ops.integers.arithmetic import exponent_of

DECLARATIONS = (
    lockstep.vector_op("row_max", lambda a: a, lanes="max", update="max", a=("res",)),
    lockstep.vector_op("row_sum", lambda a: a, lanes="sum", update="sum", a=("res",)),
    lockstep.vector_op("row_squares", lambda a: a * a, lanes="sum", update="sum", a=("res",)),
    lockstep.vector_op("row_lookup", lambda a, table: table[a & 255], lanes="sum", update="sum",
                       a=("res",)),
    lockstep.vector_op("exponent", lambda a: exponent_of(a)),
    lockstep.vector_op("shl", lambda a, b: a << (b & 31)),
)

machine = lockstep.Machine(lockstep.preset("pynq-1x16x16"), (*SHIPPED, *DECLARATIONS))
