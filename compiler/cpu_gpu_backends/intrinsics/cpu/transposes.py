"""Squares that are transposed in vector registers.

A vector holds a row of the source. Each step takes two vectors apart and puts their elements, or
groups of these, side by side; after as many steps as the square has bits of its size, a vector
holds a column. Of AVX2's eight numbers::

    row 0, row 1   ->   00 10 01 11 04 14 05 15   02 12 03 13 06 16 07 17
    these, rows 2, 3    00 10 20 30 04 14 24 34   01 11 21 31 05 15 25 35   ...
    these, rows 4 to 7  00 10 20 30 40 50 60 70   ...

Pieces of 128 bits are the last to change places, since that takes longest.
"""

from collections.abc import Callable, Sequence

from compiler import te
from compiler.cpu_gpu_backends.llvm.emitting.llvm_calls import LlvmCall
from compiler.cpu_gpu_backends.llvm.emitting.writer import LlvmType, Writer
from compiler.cpu_gpu_backends.llvm.instruction_sets import INSTRUCTION_SETS
from compiler.te import Axis, Var, bits
from compiler.tensorize import Intrinsic

from .vectors import operand

_EVERYWHERE = 4         # lanes that all processors have
_NEEDS = {**{(dtype, one.lanes): one.needs if one.lanes > _EVERYWHERE else ()
             for dtype in ("float32", "int32", "uint32") for one in INSTRUCTION_SETS},
          ("int8", 16): (), ("uint8", 16): ()}
PIECE = 128             # bits that instructions move elements within


def transpose(dtype: str, lanes: int) -> Intrinsic:
    """``dst[i, j] = src[j, i]``, both [lanes, lanes].

    `lanes` of 32 bits are 16 (AVX-512), 8 (AVX2) or 4 (all processors), of 8 bits 16.
    """
    if (dtype, lanes) not in _NEEDS:
        raise ValueError("dtype and lanes must be one of "
                         f"{', '.join(f'{d} {n}' for d, n in _NEEDS)}, not {dtype} {lanes}")
    src, i, j = te.placeholder((lanes, lanes), dtype, "src"), *(Axis(Var(v), lanes) for v in "ij")
    return Intrinsic(f"transpose_{dtype}_{lanes}", "vectors",
                     operand("dst", (lanes, lanes), dtype), (operand("src", src.shape, dtype),),
                     (i, j), src[j, i], needs=_NEEDS[dtype, lanes],
                     lower=_rule(lanes, LlvmType(f"int{bits(dtype)}", lanes)))


def _rule(lanes: int, kind: LlvmType) -> Callable[[LlvmCall], bool]:
    size = bits(kind.dtype) // 8

    def lower(call: LlvmCall) -> bool:
        if any(call.tiles[name].pitches[-1] != 1 for name in ("dst", "src")):
            return False
        w = call.w
        rows = [w.op(f"load {kind}, ptr {call.at('src', row, 0)}, align {size}")
                for row in range(lanes)]
        for column, value in enumerate(transposed(w, kind, rows)):
            w.do(f"store {kind} {value}, ptr {call.at('dst', column, 0)}, align {size}")
        return True

    return lower


def transposed(w: Writer, kind: LlvmType, rows: Sequence[str]) -> list[str]:
    """The columns of a square whose rows are these vectors."""
    count, piece = kind.lanes, PIECE // bits(kind.dtype)
    vectors = [(row, [(number, column) for column in range(count)])
               for number, row in enumerate(rows)]
    distance, width = 1, 1
    while distance < count:
        masks = _side_by_side(count, width, piece) if width < piece else _pieces(count, piece)
        pairs = [(first, first + distance) for first in range(count) if not first & distance]
        for one, other in pairs:
            (a, places_a), (b, places_b) = vectors[one], vectors[other]
            for number, mask in zip((one, other), masks, strict=True):
                value = w.op(f"shufflevector {kind} {a}, {kind} {b}, <{count} x i32> "
                             f"<{', '.join(f'i32 {lane}' for lane in mask)}>")
                vectors[number] = value, [(places_a + places_b)[lane] for lane in mask]
        distance, width = 2 * distance, 2 * width
    columns = {tuple(places): value for value, places in vectors}
    return [columns[*((row, column) for row in range(count))] for column in range(count)]


def _side_by_side(count: int, width: int, piece: int) -> tuple[list[int], list[int]]:
    """Groups of `width` lanes of two vectors in turns, from the first and from the second half of
    each piece.
    """
    halves: tuple[list[int], list[int]] = [], []
    for begin in range(0, count, piece):
        for half, lanes in enumerate(halves):
            first = begin + half * piece // 2
            for group in range(first, first + piece // 2, width):
                lanes += [*range(group, group + width),
                          *range(count + group, count + group + width)]
    return halves


def _pieces(count: int, piece: int) -> tuple[list[int], list[int]]:
    """The even pieces of two vectors, and the odd ones."""
    both = range(0, 2 * count, piece)
    even, odd = ([lane for begin in both[half::2] for lane in range(begin, begin + piece)]
                 for half in (0, 1))
    return even, odd


TRANSPOSES = {square: transpose(*square) for square in _NEEDS}
"""By type and size."""
