"""The instructions that every machine has. Opcodes follow the order of this list: append only."""

from accel.machine.config import AccelConfig
from compiler import te
from compiler.ops.arithmetic import PARAM, add_scaled, requantize
from compiler.te import Axis, Var
from compiler.tensorize import Immediate, Intrinsic, Operand

from .declare import Declaration, vector_op

__all__ = ["SHIPPED"]


def _gemm(config: AccelConfig) -> tuple[Intrinsic, ...]:
    """``acc[b, o] += sum over i of inp[b, i] * wgt[o, i]``."""
    b, o = Axis(Var("lane_b"), config.batch), Axis(Var("lane_o"), config.block_out)
    i = te.reduce_axis(config.block_in, "lane_i")
    inp = te.placeholder((b.extent, i.extent), "int8", "inp")
    wgt = te.placeholder((o.extent, i.extent), "int8", "wgt")
    product = inp[b.var, i.var].astype("int32") * wgt[o.var, i.var].astype("int32")
    return (Intrinsic(
        "gemm", "gemm", Operand("dst", (b.extent, o.extent), "int32", (("acc", "int32"),)),
        (Operand("inp", inp.shape, "int8", (("inp", "int8"),)),
         Operand("wgt", wgt.shape, "int8", (("wgt", "int8"),))),
        (b, o), te.sum(product, i), "sum", loops=6),)


def _copy(name: str, sources: tuple[str, ...], destinations: tuple[str, ...], dtype: str,
          padded: bool = False) -> Intrinsic:
    """Copies one element; the instruction's loops and byte run are around it."""
    value = te.placeholder((), dtype, "src")[()]
    immediates: tuple[Immediate, ...] = ()
    if padded:
        immediates = (Immediate("valid", "bool"), Immediate("pad", dtype, -128, 127))
        value = te.select(immediates[0].var, value, immediates[1].var)
    return Intrinsic(
        name, name, Operand("dst", (), dtype, tuple((scope, dtype) for scope in destinations)),
        (Operand("src", (), dtype, tuple((scope, dtype) for scope in sources)),), (),
        value, "assign", immediates, loops=4)


def _load(config: AccelConfig) -> tuple[Intrinsic, ...]:
    tiles = ("inp", "wgt", "res", "tab")
    return (_copy("load", ("global",), tiles, "int8"),
            _copy("load", ("global",), tiles, "int8", padded=True),
            _copy("load", ("global",), ("par",), PARAM))


def _store(config: AccelConfig) -> tuple[Intrinsic, ...]:
    return (_copy("store", ("out",), ("global",), "int8"),)


SHIPPED = (
    Declaration("load", "load", _load),
    Declaration("store", "store", _store),
    Declaration("gemm", "gemm", _gemm),
    vector_op("add", lambda a, b: a + b),
    vector_op("sub", lambda a, b: a - b),
    vector_op("max", lambda a, b: te.maximum(a, b)),
    vector_op("min", lambda a, b: te.minimum(a, b)),
    vector_op("mul", lambda a, b: a * b.astype("int16").astype("int32")),
    vector_op("shr", lambda a, b: a >> (b & 31)),
    vector_op("clamp", lambda a, lo, hi: te.clamp(a, lo.astype("int32"), hi.astype("int32"))),
    vector_op("copy", lambda b: b),
    vector_op("requantize", lambda a, bias, mult, shift, zp, lo, hi:
              requantize(a, bias, mult, shift, zp, lo, hi)),
    vector_op("add_scaled", lambda a, b, ma, mb, imm, s, zp, lo, hi:
              add_scaled(a, b, ma, mb, imm, s, zp, lo, hi), b=("res",)),
    vector_op("reduce_add", lambda a: a, update="sum"),
    vector_op("reduce_max", lambda a: a, update="max"),
    vector_op("reduce_min", lambda a: a, update="min"),
    vector_op("lookup", lambda a, table: table[a & 255]),
)
