"""``mma.sync``: products of tiles by the tensor cores, of a whole warp.

One instruction multiplies 16 x K by K x 8, K as long as 32 bytes hold; b is stored by columns, that
is as ``b[column, k]``. Each thread loads the elements of its fragments from shared memory, where
the PTX ISA (section "Matrix Fragments for mma") wants them; ``emulation.h`` has the layout in one
rule. Sums of floats are float32, in an order that the hardware does not tell; integers are exact.
"""

from dataclasses import dataclass

from compiler import te
from compiler.cpu_gpu_backends.simt.tiles import IntrinsicCall
from compiler.te import Axis, Expr, Var
from compiler.tensorize import Intrinsic, Operand

__all__ = ["COLUMNS", "MMA", "ROWS", "mma", "mma_fill", "mma_store"]

ROWS, COLUMNS = 16, 8


@dataclass(frozen=True, slots=True)
class Mma:
    """Element types of operands and sum, and steps of one instruction."""

    dtype: str
    total: str
    depth: int


MMA = {"f16": Mma("float16", "float32", 16), "bf16": Mma("bfloat16", "float32", 16),
       "tf32": Mma("float32", "float32", 8), "s8": Mma("int8", "int32", 32)}
"""Kinds of `mma`. Operands of ``tf32`` are rounded, as `te.tf32` does."""


def mma(kind: str) -> Intrinsic:
    """``d[i, j] += sum(a[i, k] * b[j, k])`` over 16 x 8 x K."""
    if kind not in MMA:
        raise ValueError(f"Kind of mma must be one of {', '.join(MMA)}, not {kind!r}")
    mma = MMA[kind]
    a = te.placeholder((ROWS, mma.depth), mma.dtype, name="a")
    b = te.placeholder((COLUMNS, mma.depth), mma.dtype, name="b")
    i, j, k = Axis(Var("i"), ROWS), Axis(Var("j"), COLUMNS), te.reduce_axis(mma.depth, name="k")

    def taken(value: Expr) -> Expr:
        return te.tf32(value) if kind == "tf32" else value.astype(mma.total)

    name = f"mma_m16n8k{mma.depth}_{kind}"
    return Intrinsic(name, "warp", _fragment(mma.total),
                     tuple(Operand(t.name, t.shape, mma.dtype, (("shared", mma.dtype),),
                                   window=True) for t in (a, b)),
                     (i, j), te.sum(taken(a[i, k]) * taken(b[j, k]), k), "sum",
                     lower=lambda call: _multiply(call, name))


def _fragment(dtype: str, name: str = "d") -> Operand:
    return Operand(name, (ROWS, COLUMNS), dtype, (("fragment", dtype),), window=True)


def _multiply(call: IntrinsicCall, name: str) -> list[str]:
    call.needs(name)
    call.needs("mma_tile")
    d, a, b = (call.tiles[tile] for tile in "dab")
    product = (f"mma_tile<{name}, {a.pitches[0]}, {b.pitches[0]}>"
               f"({d.element}, {a.address}, {b.address});")
    if call.begins == "false":
        return [product]
    call.needs("mma_fill")
    first = f"mma_fill({d.element});"
    return [first if call.begins == "true" else f"if ({call.begins}) {first}", product]


def mma_fill(dtype: str = "float32") -> Intrinsic:
    """``d[i, j] = 0``."""
    i, j = Axis(Var("i"), ROWS), Axis(Var("j"), COLUMNS)

    def lower(call: IntrinsicCall) -> list[str]:
        call.needs("mma_fill")
        return [f"mma_fill({call.tiles['d'].element});"]

    return Intrinsic(f"mma_fill_{dtype}", "warp", _fragment(dtype), (), (i, j),
                     te.neutral("sum", dtype), lower=lower)


def mma_store(dtype: str = "float32") -> Intrinsic:
    """``dst[i, j] = d[i, j]``, a window of memory."""
    d = te.placeholder((ROWS, COLUMNS), dtype, name="d")
    i, j = Axis(Var("i"), ROWS), Axis(Var("j"), COLUMNS)
    memory = (("global", dtype), ("shared", dtype))

    def lower(call: IntrinsicCall) -> list[str]:
        call.needs("mma_store")
        dst = call.tiles["dst"]
        return [f"mma_store<{dst.pitches[0]}>({dst.address}, {call.tiles['d'].element});"]

    return Intrinsic(f"mma_store_{dtype}", "warp",
                     Operand("dst", (ROWS, COLUMNS), dtype, memory, window=True),
                     (_fragment(dtype),), (i, j), d[i, j], lower=lower)
