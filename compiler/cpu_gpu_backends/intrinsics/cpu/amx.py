"""Products of tiles of bytes or bfloat16 in the tile registers of AMX.

Eight registers of 16 rows of 64 bytes: a block of the destination stays in up to six of them while
the product runs along its depth, 64 bytes a step::

    for k:  a0 a1 = a[0:16, k], a[16:32, k]
            b0 b1 = b[k, 0:16], b[k, 16:32]
            dst00 += a0 * b0    dst01 += a0 * b1    dst10 += a1 * b0    dst11 += a1 * b1
"""

from collections.abc import Callable

from compiler.cpu_gpu_backends.llvm.emitting.amx import WHOLE
from compiler.cpu_gpu_backends.llvm.emitting.llvm_calls import LlvmCall
from compiler.cpu_gpu_backends.llvm.emitting.writer import LlvmType
from compiler.cpu_gpu_backends.llvm.instruction_sets import AMX_BFLOAT16, AMX_BYTES
from compiler.te import bits, is_signed
from compiler.tensorize import Intrinsic

from .vectors import grouped_product, operand

_REGISTERS, _SIDE, _STEP = 8, 16, 64


def amx(rows: int, columns: int, depth: int, a_dtype: str = "int8",
        b_dtype: str = "int8") -> Intrinsic:
    """``dst: int32[rows, columns] += a[rows, depth] * b[depth // 4, columns, 4]``, bytes.

    Rows and columns are multiples of 16 whose blocks fit the eight registers (32 by 32 is best),
    the depth is a multiple of 64. Each operand is int8 or uint8.
    """
    _check(rows, columns, depth, _STEP)
    for dtype in (a_dtype, b_dtype):
        if dtype not in ("int8", "uint8"):
            raise ValueError(f"Operands must be int8 or uint8, not {dtype}")
    signs = "".join("s" if is_signed(dtype) else "u" for dtype in (a_dtype, b_dtype))
    return Intrinsic(f"amx_{a_dtype}_{b_dtype}_{rows}x{columns}x{depth}", "tiles",
                     operand("dst", (rows, columns), "int32"),
                     *grouped_product(rows, columns, depth, a_dtype, b_dtype, "int32"), "sum",
                     needs=AMX_BYTES,
                     lower=_rule(rows, columns, depth // _STEP, f"llvm.x86.tdpb{signs}d"))


def amx_bf16(rows: int, columns: int, depth: int) -> Intrinsic:
    """``dst: float32[rows, columns] += a[rows, depth] * b[depth // 2, columns, 2]``, bfloat16.

    As `amx`; the depth is a multiple of 32. Products are exact; even and odd steps are added
    apart, 32 at a time, and what is subnormal is taken as zero. So it stays within the bound of a
    sum in any order, ``depth * eps * sum(|a * b|)``, and is used only in kernels that are built
    with ``contract``.
    """
    _check(rows, columns, depth, _STEP // 2)
    return Intrinsic(f"amx_bf16_{rows}x{columns}x{depth}", "tiles",
                     operand("dst", (rows, columns), "float32"),
                     *grouped_product(rows, columns, depth, "bfloat16", "bfloat16", "float32"),
                     "sum", needs=AMX_BFLOAT16,
                     lower=_rule(rows, columns, depth // (_STEP // 2), "llvm.x86.tdpbf16ps"))


def _check(rows: int, columns: int, depth: int, step: int) -> None:
    high, wide = rows // _SIDE, columns // _SIDE
    if rows % _SIDE or columns % _SIDE or high * wide + high + wide > _REGISTERS:
        raise ValueError(f"Rows and columns must be multiples of {_SIDE} that fill at most "
                         f"{_REGISTERS} registers, not {rows} and {columns}")
    if depth % step:
        raise ValueError(f"Depth must be a multiple of {step}, not {depth}")


def _rule(rows: int, columns: int, steps: int, product: str) -> Callable[[LlvmCall], bool]:
    """`steps` of 64 bytes each."""
    high, wide = rows // _SIDE, columns // _SIDE
    blocks = [(i, j) for i in range(high) for j in range(wide)]
    number = {block: register for register, block in enumerate(blocks)}
    first_a, first_b = len(blocks), len(blocks) + high

    def lower(call: LlvmCall) -> bool:
        size = bits(call.tiles["a"].dtype) // 8
        if (call.tiles["dst"].pitches[1] != 1 or call.tiles["a"].pitches[1] != 1
                or call.tiles["b"].pitches[1:] != (4 // size, 1)
                or call.tiles["dst"].dtype == "float32" and not call.contract):
            return False
        if not call.prepare("amx", WHOLE):
            return False
        _begin(call, number)

        def step(k: str, _: list[str]) -> list[str]:
            column = call.w.op(f"mul nsw i64 {k}, {_STEP // size}")
            row = call.w.op(f"mul nsw i64 {k}, {_STEP // 4}")
            _expect_stores(call, k, steps, high, wide)
            for i in range(high):
                _move(call, "tileloadd64", first_a + i, "a", i * _SIDE, column)
            for j in range(wide):
                _move(call, "tileloadd64", first_b + j, "b", row, j * _SIDE, 0)
            for i, j in blocks:
                call.w.call_void(product, ("i8", str(number[i, j])), ("i8", str(first_a + i)),
                                 ("i8", str(first_b + j)))
            return []

        call.fold(steps, LlvmType("int32"), [], step)
        for (i, j), register in number.items():
            _move(call, "tilestored64", register, "dst", i * _SIDE, j * _SIDE)
        return True

    return lower


def _begin(call: LlvmCall, number: dict[tuple[int, int], int]) -> None:
    """Tiles of the destination: zero where the reduction begins, else what is in memory."""
    def zero() -> None:
        for register in number.values():
            call.w.call_void("llvm.x86.tilezero", ("i8", str(register)))

    def load() -> None:
        for (i, j), register in number.items():
            _move(call, "tileloadd64", register, "dst", i * _SIDE, j * _SIDE)

    call.either(zero, load)


def _expect_stores(call: LlvmCall, k: str, steps: int, high: int, wide: int) -> None:
    """Fetch some rows of the destination each step, so that its tiles are stored without a wait.

    Rows of a large destination lie in pages of their own: measured, waiting for them costs as much
    as the product.
    """
    rows = -(-high * _SIDE // steps)
    first = call.w.op(f"mul nsw i64 {k}, {rows}")
    for row in range(rows):
        place = call.w.op(f"add nsw i64 {first}, {row}")
        place = call.w.call("llvm.umin.i64", "i64", ("i64", place), ("i64", str(high * _SIDE - 1)))
        for j in range(wide):
            call.w.call_void("llvm.prefetch.p0", ("ptr", call.at("dst", place, j * _SIDE)),
                             ("i32", "1"), ("i32", "3"), ("i32", "1"))


def _move(call: LlvmCall, how: str, register: int, name: str, *indices: int | str) -> None:
    tile = call.tiles[name]
    stride = tile.pitches[0] * bits(tile.dtype) // 8
    call.w.call_void(f"llvm.x86.{how}", ("i8", str(register)), ("ptr", call.at(name, *indices)),
                     ("i64", str(stride)))
