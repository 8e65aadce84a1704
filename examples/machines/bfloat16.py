"""A machine that computes in floating point: products of bfloat16, sums in float32.

gemm multiplies bfloat16 and adds in float32, in the order that docs/machine.md states. acc holds
float32; res and out hold bfloat16. The operations of vector compute in float32: those that end in
a conversion to bfloat16 may write out, which store moves to memory.

::

    inp bfloat16 --+                              res bfloat16 --+
                   +--> gemm --> acc float32 -----------------> vector --> out bfloat16
    wgt bfloat16 --+                  ^------ float32 ------------+
"""

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, gemm_op, vector_op
from accel.machine.machine import Machine
from compiler import te

STORED = "bfloat16"
MOVES = tuple(instruction for instruction in SHIPPED if instruction.unit in ("load", "store"))


def relu(value):
    return te.maximum(value, te.const(0.0, "float32"))


INSTRUCTIONS = (
    *MOVES, gemm_op("gemm", STORED, STORED),
    vector_op("add", lambda a, b: a + b, stored=STORED),
    vector_op("mul", lambda a, b: a * b, stored=STORED),
    vector_op("max", lambda a, b: te.maximum(a, b), stored=STORED),
    vector_op("round", lambda a: a.astype(STORED), stored=STORED),
    vector_op("add_round", lambda a, b: (a + b).astype(STORED), stored=STORED),
    vector_op("add_relu", lambda a, b: relu(a + b).astype(STORED), stored=STORED),
)

machine = Machine(preset("tiny-1x4x4"), INSTRUCTIONS)
