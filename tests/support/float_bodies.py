"""Bodies on floats, and their operands as bits."""

from collections.abc import Callable

import numpy as np

from accel.sim.meaning.evaluate import evaluate
from compiler import te
from compiler.te import Axis, Expr, Var, bits, numpy_dtype
from compiler.tensorize import Intrinsic, Operand

__all__ = ["BODIES", "elementwise", "meaning_of", "product_sum"]


def elementwise(name: str, value: Callable[..., Expr], types: tuple[str, str], lanes: int = 2,
                ) -> Intrinsic:
    """A body on operands `a` and `b` of these types, for each of some lanes."""
    axis = Axis(Var("lane"), lanes)
    a, b = (te.placeholder((lanes,), dtype, operand) for operand, dtype in zip("ab", types))
    result = value(a[axis.var], b[axis.var])
    operands = tuple(Operand(operand, (lanes,), dtype, (("res", dtype),))
                     for operand, dtype in zip("ab", types))
    return Intrinsic(name, "vector", Operand("dst", (lanes,), result.dtype, (
        ("acc", result.dtype),)), operands, (axis,), result, "assign", (), loops=5)


def product_sum(dtype: str, batch: int, block_out: int, block_in: int) -> Intrinsic:
    """``sum over i of inp[b, i] * wgt[o, i]`` in float32, of operands of a type."""
    b, o = Axis(Var("lane_b"), batch), Axis(Var("lane_o"), block_out)
    i = te.reduce_axis(block_in, "lane_i")
    inp = te.placeholder((batch, block_in), dtype, "inp")
    wgt = te.placeholder((block_out, block_in), dtype, "wgt")
    product = inp[b.var, i.var].astype("float32") * wgt[o.var, i.var].astype("float32")
    return Intrinsic(
        "gemm", "gemm", Operand("dst", (batch, block_out), "float32", (("acc", "float32"),)),
        (Operand("inp", inp.shape, dtype, (("inp", dtype),)),
         Operand("wgt", wgt.shape, dtype, (("wgt", dtype),))),
        (b, o), te.sum(product, i), "sum", loops=6)


def _cast(dtype: str):
    return lambda a, b: te.select(b < a, a, b).astype(dtype)


SINGLE, HALF, BRAIN = (("float32",) * 2, ("float16",) * 2, ("bfloat16",) * 2)

BODIES = {name: elementwise(name, value, types) for name, value, types in (
    ("sum", lambda a, b: a + b, SINGLE),
    ("difference", lambda a, b: a - b, SINGLE),
    ("product", lambda a, b: a * b, SINGLE),
    ("product_of_bfloat16", lambda a, b: a.astype("float32") * b.astype("float32"), BRAIN),
    ("product_of_float16", lambda a, b: a.astype("float32") * b.astype("float32"), HALF),
    ("mixed", lambda a, b: a.astype("float32") * b, ("bfloat16", "float32")),
    ("in_bfloat16", lambda a, b: a * b - b, BRAIN),
    ("in_float16", lambda a, b: (a + b) * a, HALF),
    ("to_bfloat16", _cast("bfloat16"), SINGLE),
    ("to_float16", _cast("float16"), SINGLE),
    ("from_float16", _cast("float32"), HALF),
    ("to_int8", lambda a, b: (a * b).astype("int8").astype("int32"), SINGLE),
    ("to_int32", lambda a, b: te.maximum(a, b).astype("int32"), SINGLE),
    ("from_int32", lambda a, b: a.astype("float32") - b.astype("float32"), ("int32", "int8")),
    ("order", lambda a, b: te.minimum(te.abs(a), te.select(a.not_equal(b), b, te.maximum(
        te.const(1.5, "float32"), b))), SINGLE),
    ("truth", lambda a, b: ((a <= b) ^ (a > -b) ^ a.astype("bool")).astype("int32"), SINGLE),
)}
"""By name."""


def meaning_of(body: Intrinsic, operands: dict[str, np.ndarray]) -> np.ndarray:
    """Bits (int32) of the values of many elements, by NumPy; operands are integers or bits."""
    tiles, types = {}, {operand.name: operand.dtype for operand in body.operands}
    for name, raw in operands.items():
        dtype = types[name]
        tiles[name] = (raw.astype(f"uint{bits(dtype)}").view(numpy_dtype(dtype))
                       if te.is_float(dtype) else raw.astype(dtype))
    count = len(next(iter(operands.values())))
    value = np.ascontiguousarray(evaluate(body.value, body.axes, tiles, {}, count))
    if te.is_float(value.dtype.name):
        value = value.view(f"uint{value.dtype.itemsize * 8}")
    return value.astype(np.uint32).view(np.int32)
