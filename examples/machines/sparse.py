"""A machine that multiplies 2:4 sparse weights, beside one with all of them.

Of each four neighbours in a row of weights two are kept, with a code of two bits that says which
they were. An entry of wgt begins with the values, then has four codes in a byte, and is 5/8 of a
dense one; load moves no more. Each multiplier takes one of four inputs, by its code, and `sparse`
needs half as many multipliers as `gemm`::

    inp[b, 4p ... 4p + 3]    values and codes of a row of weights
          |                             |
     one of four  <---- code ----   j = 2p, 2p + 1
          |                             |
          +--------> multiply <-- value +          sum over all j, into acc[b, o]

The shipped `gemm` stands beside it and shares its multipliers. Without it (`halved.py`) a layer
whose weights are not sparse takes two passes, of two weights in four each.
"""

from accel.machine.config import AccelConfig, preset
from accel.machine.intrinsics import SHIPPED, Declaration
from accel.machine.machine import Machine
from compiler import te
from compiler.te import INDEX, Axis, Var
from compiler.tensorize import Intrinsic, Operand

CODES = 4           # in a byte


def build(config: AccelConfig) -> tuple[Intrinsic, ...]:
    """``acc[b, o] += sum over j of value[j, o] * inp[b, 4 * (j // 2) + code[j, o]]``."""
    b, o = Axis(Var("lane_b"), config.batch), Axis(Var("lane_o"), config.block_out)
    j = te.reduce_axis(config.block_in // 2, "lane_j")
    rows = j.extent + -(-j.extent // CODES)
    inp = te.placeholder((b.extent, config.block_in), "int8", "inp")
    wgt = te.placeholder((rows, o.extent), "int8", "wgt")

    codes = wgt[j.extent + j.var // CODES, o.var].astype("int32")
    code = codes >> (2 * (j.var % CODES)).astype("int32") & 3
    chosen = inp[b.var, 4 * (j.var // 2) + code.astype(INDEX)]
    product = chosen.astype("int32") * wgt[j.var, o.var].astype("int32")
    return (Intrinsic(
        "sparse", "gemm", Operand("dst", (b.extent, o.extent), "int32", (("acc", "int32"),)),
        (Operand("inp", inp.shape, "int8", (("inp", "int8"),)),
         Operand("wgt", wgt.shape, "int8", (("wgt", "int8"),))),
        (b, o), te.sum(product, j), "sum", loops=6),)


SPARSE = Declaration("sparse", "gemm", build)

machine = Machine(preset("pynq-1x16x16"), (*SHIPPED, SPARSE))
