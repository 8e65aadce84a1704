"""A machine with one instruction for a sum and the relu behind it, as residual networks have them.

Both inputs are scaled to the steps of the result, added, and cut at zero before the one rounding.
"""

import lockstep
from accel.machine.intrinsics import SHIPPED
from compiler import te
from compiler.ops.integers.fixed_point import add_multipliers


def body(a, b, ma, mb, s, zp, lo, hi):
    """lo and hi are the zero points of the inputs, zp that of the result; ma and mb scale."""
    x = (a - lo.astype("int32")).astype("int64") * ma.astype("int64")
    y = (b - hi.astype("int32")).astype("int64") * mb.astype("int64")
    steps = te.rshift_rne(te.maximum(x + y, 0), (s & 63).astype("int64")) + zp.astype("int64")
    return te.clamp(steps, -128, 127).astype("int32")


def immediates(x, y, out):
    ma, mb, s = add_multipliers(x.scale / out.scale, y.scale / out.scale)
    return {"ma": ma, "mb": mb, "s": s, "zp": out.zp, "lo": x.zp, "hi": y.zp}


addrelu = lockstep.vector_op("addrelu", body, a=("res",), b=("res",),
                             matches=lambda x, y: te.maximum(x + y, 0.0), immediates=immediates)
machine = lockstep.Machine(lockstep.preset("tiny-1x4x4"), (*SHIPPED, addrelu))
