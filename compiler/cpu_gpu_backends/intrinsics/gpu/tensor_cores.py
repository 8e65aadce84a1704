"""``mma.sync``: products of tiles by the tensor cores, of a whole warp.

One instruction multiplies 16 x K by K x 8, K as long as 32 bytes hold; b is stored by columns, that
is as ``b[column, k]``. Operands are fragments, which ``ldmatrix`` loads from shared memory as the
PTX ISA (sections "Matrix Fragments for mma" and "ldmatrix") lays them out; ``emulation.h`` has the
layouts. Sums of floats are float32, in an order that the hardware does not tell; integers are
exact.
"""

from dataclasses import dataclass

from compiler import te
from compiler.cpu_gpu_backends.simt.simt_calls import SimtCall
from compiler.te import Axis, Expr, Var, numpy_dtype
from compiler.tensorize import Intrinsic, Operand

ROWS, COLUMNS = 16, 8
CHUNK_BYTES = 16


@dataclass(frozen=True, slots=True)
class Mma:
    """Element types of operands and sum, and steps of one instruction."""

    dtype: str
    total: str
    depth: int


MMA = {"f16": Mma("float16", "float32", 16), "bf16": Mma("bfloat16", "float32", 16),
       "tf32": Mma("float32", "float32", 8), "s8": Mma("int8", "int32", 32)}
"""Kinds of `mma`. Operands of ``tf32`` are rounded, as `te.tf32` does."""


def _kind(kind: str) -> Mma:
    if kind not in MMA:
        raise ValueError(f"Kind of mma must be one of {', '.join(MMA)}, not {kind!r}")
    return MMA[kind]


def mma(kind: str) -> Intrinsic:
    """``d[i, j] += sum(a[i, k] * b[j, k])`` over 16 x 8 x K."""
    mma = _kind(kind)
    a = te.placeholder((ROWS, mma.depth), mma.dtype, name="a")
    b = te.placeholder((COLUMNS, mma.depth), mma.dtype, name="b")
    i, j, k = Axis(Var("i"), ROWS), Axis(Var("j"), COLUMNS), te.reduce_axis(mma.depth, name="k")

    def taken(value: Expr) -> Expr:
        return te.tf32(value) if kind == "tf32" else value.astype(mma.total)

    name = f"mma_m16n8k{mma.depth}_{kind}"
    return Intrinsic(name, "warp", _sums(mma.total),
                     tuple(Operand(t.name, t.shape, mma.dtype, ((f"fragment_{t.name}", mma.dtype),),
                                   window=True) for t in (a, b)),
                     (i, j), te.sum(taken(a[i, k]) * taken(b[j, k]), k), "sum",
                     lower=lambda call: _multiply(call, name))


def _sums(dtype: str) -> Operand:
    return Operand("d", (ROWS, COLUMNS), dtype, (("fragment", dtype),), window=True)


def _multiply(call: SimtCall, name: str) -> list[str]:
    call.needs(name)
    d, a, b = (call.tiles[tile].element for tile in "dab")
    product = f"{name}({d}, {a}, {b});"
    if call.begins == "false":
        return [product]
    call.needs("mma_fill")
    first = f"mma_fill({d});"
    return [first if call.begins == "true" else f"if ({call.begins}) {first}", product]


def load_fragment(kind: str, operand: str, transposed: bool = False) -> Intrinsic:
    """``dst[i, k] = src[i, k]``, or of ``src[k, i]``: a tile of operand ``a``, or two of ``b`` that
    lie below each other, 16 x K in both cases. The rows of `src` begin at multiples of 16 bytes.

    Only numbers of 16 bits can be transposed.
    """
    mma = _kind(kind)
    width = numpy_dtype(mma.dtype).itemsize
    if operand not in ("a", "b"):
        raise ValueError(f"Operand of mma must be a or b, not {operand!r}")
    if transposed and width != 2:
        raise ValueError(f"Operands that are transposed must have 16 bits, not {8 * width}")
    shape = (mma.depth, ROWS) if transposed else (ROWS, mma.depth)
    src = te.placeholder(shape, mma.dtype, name="src")
    i, k = Axis(Var("i"), ROWS), Axis(Var("k"), mma.depth)
    across = "true" if (operand == "b") != transposed else "false"

    def lower(call: SimtCall) -> list[str]:
        call.needs("load_fragment")
        tile, d = call.tiles["src"], call.tiles["dst"].element
        _, rows, chunks = tile.swizzle
        row, column = tile.place
        chunk = column if column == "0" else f"({column}) / {CHUNK_BYTES // width}"
        form = ", ".join(map(str, (str(transposed).lower(), across, tile.pitches[0] * width, rows,
                                   chunks)))
        lines = [f"load_fragment<{form}>({d}, {tile.address}, {row}, {chunk});"]
        if kind == "tf32":
            call.needs("round_fragment")
            lines.append(f"round_fragment({d});")
        return lines

    suffix = "_transposed" if transposed else ""
    return Intrinsic(f"load_fragment_{operand}_{kind}{suffix}", "warp",
                     Operand("dst", (ROWS, mma.depth), mma.dtype,
                             ((f"fragment_{operand}", mma.dtype),), window=True),
                     (Operand("src", shape, mma.dtype, (("shared", mma.dtype),), window=True),),
                     (i, k), src[k, i] if transposed else src[i, k], lower=lower)


def mma_fill(dtype: str = "float32") -> Intrinsic:
    """``d[i, j] = 0``."""
    i, j = Axis(Var("i"), ROWS), Axis(Var("j"), COLUMNS)

    def lower(call: SimtCall) -> list[str]:
        call.needs("mma_fill")
        return [f"mma_fill({call.tiles['d'].element});"]

    return Intrinsic(f"mma_fill_{dtype}", "warp", _sums(dtype), (), (i, j),
                     te.neutral("sum", dtype), lower=lower)


def turn_bytes() -> Intrinsic:
    """``dst[i, k] = src[k, i]``: 4 x 4 int8 of a thread's own array to shared memory."""
    src = te.placeholder((4, 4), "int8", name="src")
    i, k = Axis(Var("i"), 4), Axis(Var("k"), 4)

    def lower(call: SimtCall) -> list[str]:
        call.needs("turn_bytes")
        dst, (_, rows, chunks) = call.tiles["dst"], call.tiles["dst"].swizzle
        return [f"turn_bytes<{dst.pitches[0]}, {rows}, {chunks}>({dst.address}, "
                f"{', '.join(dst.place)}, {call.tiles['src'].address});"]

    return Intrinsic("turn_bytes", "thread",
                     Operand("dst", (4, 4), "int8", (("shared", "int8"),), window=True),
                     (Operand("src", (4, 4), "int8", (("local", "int8"),)),), (i, k), src[k, i],
                     lower=lower)


TENSOR_CORES = (
    turn_bytes(), *map(mma, MMA), *map(mma_fill, ("float32", "int32")),
    *(load_fragment(kind, operand) for kind in MMA for operand in "ab"),
    *(load_fragment(kind, operand, True) for kind in ("f16", "bf16") for operand in "ab"))
"""All of them, for schedules that are replayed."""
