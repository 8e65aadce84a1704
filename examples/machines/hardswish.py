"""A machine that computes hard-swish in one instruction, and has no tables: docs/hardswish.md.

    lockstep check --machine examples/machines/hardswish.py --count 300

x clip(x + 3, 0, 6) / 6 is a parabola between two straight lines, so integers compute it within a
step: one product for the gate, one for the scale. The shipped machine looks it up in a table of 256
numbers, which load fetches for every layer and each lane keeps in a memory of its own; with 16 bits
there is no table.
"""

import lockstep
from accel.machine.intrinsics import SHIPPED, Declaration
from compiler import te
from compiler.ops.integers.fixed_point import quantize_multiplier
from compiler.tensorize import Immediate

FRACTION = {"int8": 4, "int16": 0}
"""Bits behind the point of the gate x + 3, in steps of x."""
GATE = {"int8": 16, "int16": 20}
"""Bits of 3 in these steps: the more, the smaller the scale may be."""


def hard_swish(stored: str = "int8") -> Declaration:
    """The instruction, of numbers that are stored in 8 or 16 bits."""
    fraction, greatest = FRACTION[stored], (1 << GATE[stored]) - 1
    most = (1 << te.bits(stored) - 1) - 1
    fields = (Immediate("zero", "int8", -128, 127), Immediate("three", "int32", 0, greatest))

    def body(a, zero, three, ma, s, zp):
        """zero and zp are the zero points of x and of the result; ma / 2**s scales."""
        x = a.astype(stored).astype("int32") - zero.astype("int32")
        gate = te.clamp((x << fraction) + three, 0, three + three)
        product = x.astype("int64") * gate.astype("int64") * ma.astype("int64")
        steps = te.rshift_rne(product, (s & 63).astype("int64")) + zp.astype("int64")
        return te.clamp(steps, -most - 1, most).astype("int32")

    def immediates(x, y):
        three = round(3 * 2**fraction / x.scale)
        ma, s = quantize_multiplier(x.scale**2 / (6 * 2**fraction * y.scale))
        return {"zero": x.zp, "three": three, "ma": ma, "s": s, "zp": y.zp}

    return lockstep.vector_op("hswish", body, stored=stored, fields=fields, immediates=immediates,
                              matches=lambda x: x * te.clamp(x + 3, 0, 6) / 6)


machine = lockstep.Machine(lockstep.preset("pynq-1x16x16"), (
    *(shipped for shipped in SHIPPED if shipped.name != "lookup"), hard_swish()))
