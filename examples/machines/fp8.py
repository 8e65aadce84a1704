"""A machine that computes in floating point of 8 bits: products of float8, sums in float32.

gemm multiplies float8 and adds in float32, in the order that docs/machine.md states. acc holds
float32; res and out hold float8. Operations of vector compute in float32: those that end in a
conversion to float8 may write out, which store moves to memory. `affine` scales and shifts a sum
by two float32 of its channel, a record of par, and rounds it.

::

    inp float8 --+                              res float8 --+
                 +--> gemm --> acc float32 -----------------> vector --> out float8
    wgt float8 --+                  ^------ float32 ------------+
"""

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, gemm_op, vector_op
from accel.machine.machine import Machine
from compiler import te
from compiler.ops.records.stored_floats import AFFINE

MOVES = tuple(instruction for instruction in SHIPPED if instruction.unit in ("load", "store"))


def relu(value):
    return te.maximum(value, te.const(0.0, "float32"))


def instructions(stored: str, weight: str | None = None):
    """The instructions on activations of the float type `stored`, and on weights of the same or of
    another one."""
    return (
        *MOVES, gemm_op("gemm", stored, weight or stored),
        vector_op("affine", lambda a, scale, offset: (a * scale + offset).astype(stored),
                  stored=stored, record=AFFINE),
        vector_op("affine_relu", lambda a, scale, offset: relu(a * scale + offset).astype(stored),
                  stored=stored, record=AFFINE),
        vector_op("add", lambda a, b: a + b, stored=stored),
        vector_op("mul", lambda a, b: a * b, stored=stored),
        vector_op("max", lambda a, b: te.maximum(a, b), stored=stored),
        vector_op("round", lambda a: a.astype(stored), stored=stored),
    )


machine = Machine(preset("tiny-1x4x4"), instructions("float8_e4m3fn"))
