"""Whole sums of products of bytes in the tile registers of AMX: of windows of an image, and of rows
of a matrix.

Up to four registers hold a block of the destination, 16 columns each, while all steps are added,
two hold pixels (or rows) of a, two hold weights::

    for y, v, k:                                    taps of a window, pieces of its rows
        a0 a1 = a[pixels, y, v, k]
        b0 b1 = b[0 : 2, y, v, k]
        dst00 += a0 * b0    dst01 += a0 * b1    dst10 += a1 * b0    dst11 += a1 * b1

As many bytes are added in a step as divide a row of a window, 64 at most, and a register has as
many rows as suit the image, 16 at most: nothing is read that does not belong to the sum.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compiler import te
from compiler.cpu_gpu_backends.llvm.emitting.amx import TileShapes
from compiler.cpu_gpu_backends.llvm.emitting.llvm_calls import LlvmCall
from compiler.cpu_gpu_backends.llvm.emitting.writer import LlvmType
from compiler.cpu_gpu_backends.llvm.instruction_sets import AMX_BYTES
from compiler.te import Axis, Var
from compiler.tensorize import Intrinsic

from .vectors import operand

MOST_BYTES = 64
_LANES, _GROUP, _ROWS, _SUMS, _EACH = 16, 4, 16, 4, 2
_FIRST_A, _FIRST_B = _SUMS, _SUMS + _EACH


def step_of(depth: int) -> int:
    """Bytes that are added in a step: the most whole groups of four that divide the depth."""
    return max(size for size in range(_GROUP, MOST_BYTES + 1, _GROUP) if depth % size == 0)


@dataclass(frozen=True, slots=True)
class ByteWindows:
    """``dst: int32[blocks, high, wide, 16] += a * b`` where ::

        a: uint8[rows of an image, bytes]  at [i*down + y*apart, j*right + v*beside + d]
        b: int8[blocks, taps, taps, depth // 4, 16, 4]  at [block, y, v, d // 4, lane, d % 4]

    for pixels i, j and taps y, v of a window; a register has `rows` pixels of a row.
    """

    blocks: int
    high: int
    wide: int
    rows: int
    taps: tuple[int, int]
    depth: int
    strides: tuple[int, int]
    """Down, in rows, and right, in bytes."""
    dilations: tuple[int, int]
    """Apart, in rows, and beside, in bytes."""

    def __post_init__(self):
        _check(self.blocks, self.high, self.wide, self.rows, self.depth)

    @property
    def name(self) -> str:
        numbers = (self.blocks, self.high, self.wide, self.rows, *self.taps, self.depth,
                   *self.strides, *self.dilations)
        return f"byte_windows_{'_'.join(map(str, numbers))}"

    def intrinsic(self) -> Intrinsic:
        (down, right), (apart, beside) = self.strides, self.dilations
        reach = ((self.high - 1) * down + (self.taps[0] - 1) * apart + 1,
                 (self.wide - 1) * right + (self.taps[1] - 1) * beside + self.depth)
        a = te.placeholder(reach, "uint8", "a")
        b = te.placeholder((self.blocks, *self.taps, self.depth // _GROUP, _LANES, _GROUP), "int8",
                           "b")
        block, i, j, lane = (Axis(Var(name), extent) for name, extent in (
            ("block", self.blocks), ("i", self.high), ("j", self.wide), ("lane", _LANES)))
        y, v, k, t = (te.reduce_axis(extent, name) for name, extent in (
            ("y", self.taps[0]), ("v", self.taps[1]), ("k", self.depth // _GROUP), ("t", _GROUP)))
        pixel = a[i.var * down + y.var * apart,
                  j.var * right + v.var * beside + (_GROUP * k.var + t.var)]
        value = te.sum(pixel.astype("int32") * b[
            block.var, y.var, v.var, k.var, lane.var, t.var].astype("int32"), (y, v, k, t))
        step = step_of(self.depth)
        rule = _rule(
            self.rows, step,
            [(self.taps[0], (apart, 0), (0, 1, 0, 0, 0, 0)),
             (self.taps[1], (0, beside), (0, 0, 1, 0, 0, 0)),
             (self.depth // step, (0, step), (0, 0, 0, step // _GROUP, 0, 0))],
            [((i, j), (i * down, j * right))
             for i in range(self.high) for j in range(0, self.wide, self.rows)],
            self.blocks, lambda pitches: right * pitches[1])
        return Intrinsic(self.name, "tiles",
                         operand("dst", (self.blocks, self.high, self.wide, _LANES), "int32"),
                         (operand("a", reach, "uint8"), operand("b", b.shape, "int8")),
                         (block, i, j, lane), value, "sum", needs=AMX_BYTES, lower=rule)


@dataclass(frozen=True, slots=True)
class ByteRows:
    """``dst: int32[blocks, high, 16] += a * b`` with ``a: uint8[high, depth]`` and
    ``b: int8[blocks, depth // 4, 16, 4]``; a register has `rows` rows of a.
    """

    blocks: int
    high: int
    rows: int
    depth: int

    def __post_init__(self):
        _check(self.blocks, 1, self.high, self.rows, self.depth)

    @property
    def name(self) -> str:
        return f"byte_rows_{self.blocks}_{self.high}_{self.rows}_{self.depth}"

    def intrinsic(self) -> Intrinsic:
        a = te.placeholder((self.high, self.depth), "uint8", "a")
        b = te.placeholder((self.blocks, self.depth // _GROUP, _LANES, _GROUP), "int8", "b")
        block, i, lane = (Axis(Var(name), extent) for name, extent in (
            ("block", self.blocks), ("i", self.high), ("lane", _LANES)))
        k, t = te.reduce_axis(self.depth // _GROUP, "k"), te.reduce_axis(_GROUP, "t")
        value = te.sum(a[i.var, _GROUP * k.var + t.var].astype("int32")
                       * b[block.var, k.var, lane.var, t.var].astype("int32"), (k, t))
        step = step_of(self.depth)
        rule = _rule(self.rows, step,
                     [(self.depth // step, (0, step), (0, step // _GROUP, 0, 0))],
                     [((i,), (i, 0)) for i in range(0, self.high, self.rows)], self.blocks,
                     lambda pitches: pitches[0])
        return Intrinsic(self.name, "tiles",
                         operand("dst", (self.blocks, self.high, _LANES), "int32"),
                         (operand("a", a.shape, "uint8"), operand("b", b.shape, "int8")),
                         (block, i, lane), value, "sum", needs=AMX_BYTES, lower=rule)


def byte_tiles_named(name: str) -> Intrinsic | None:
    """The intrinsic of a name that one of these gives."""
    numbers = [int(number) for number in re.findall(r"\d+", name)]
    try:
        if name.startswith("byte_rows_"):
            made: ByteRows | ByteWindows = ByteRows(*numbers)
        else:
            blocks, high, wide, rows, y, v, depth, *moves = numbers
            down, right, apart, beside = moves
            made = ByteWindows(blocks, high, wide, rows, (y, v), depth, (down, right),
                               (apart, beside))
    except (TypeError, ValueError):
        return None
    return made.intrinsic() if made.name == name else None


def _check(blocks: int, high: int, extent: int, rows: int, depth: int) -> None:
    if not 1 <= rows <= _ROWS or extent % rows:
        raise ValueError(f"Rows of a register must be from 1 to {_ROWS} and divide {extent}, "
                         f"not {rows}")
    tiles = high * (extent // rows)
    if not 1 <= blocks <= _EACH or not 1 <= tiles <= _EACH:
        raise ValueError(f"A block of the destination must be of at most {_EACH} by {_EACH} "
                         f"registers, not {blocks} by {tiles}")
    if depth < _GROUP or depth % _GROUP:
        raise ValueError(f"Depth must be a multiple of {_GROUP}, not {depth}")


Loop = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Iterations of a sum, and how far each moves the places in a and in b."""


def _rule(rows: int, step: int, loops: Sequence[Loop],
          pixels: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], blocks: int,
          stride: Callable[[Sequence[int]], int]) -> Callable[[LlvmCall], bool]:
    """`pixels` are the places in the destination, and in a, of each register of a; `stride` is the
    distance of its rows.
    """
    shapes: TileShapes = (*((rows, MOST_BYTES),) * _SUMS, *((rows, step),) * _EACH,
                          *((step // _GROUP, MOST_BYTES),) * _EACH)
    number = {(block, place): block * len(pixels) + place
              for block in range(blocks) for place in range(len(pixels))}

    def lower(call: LlvmCall) -> bool:
        a, b, dst = (call.tiles[name].pitches for name in ("a", "b", "dst"))
        if (a[-1] != 1 or b[-2:] != (_GROUP, 1) or dst[-1] != 1
                or not call.prepare("amx", shapes)):
            return False
        rest = (0,) * (len(b) - 1)
        begin_a = [call.at("a", *where) for _, where in pixels]
        begin_b = [call.at("b", block, *rest) for block in range(blocks)]
        totals = [(register, call.at("dst", block, *pixels[place][0], 0))
                  for (block, place), register in number.items()]
        between = str(4 * dst[-2])
        _begin(call, totals, between)

        def add(places: tuple[str, str]) -> None:
            from_a, from_b = places
            for place, pointer in enumerate(begin_a):
                _load(call, _FIRST_A + place, _moved(call, pointer, from_a), str(stride(a)))
            for block, pointer in enumerate(begin_b):
                _load(call, _FIRST_B + block, _moved(call, pointer, from_b), str(b[-3]))
            for (block, place), register in number.items():
                call.w.call_void("llvm.x86.tdpbusd", *(("i8", str(tile)) for tile in (
                    register, _FIRST_A + place, _FIRST_B + block)))

        def run(depth: int, places: tuple[str, str]) -> None:
            if depth == len(loops):
                add(places)
                return
            count, *moves = loops[depth]
            sizes = [sum(move * pitch for move, pitch in zip(moved, pitches, strict=True))
                     for moved, pitches in zip(moves, (a, b), strict=True)]

            def step(index: str, _: list[str]) -> list[str]:
                first, second = (_sum(call, place, index, size)
                                 for place, size in zip(places, sizes, strict=True))
                run(depth + 1, (first, second))
                return []

            call.fold(count, _INDEX, [], step)

        run(0, ("0", "0"))
        for register, pointer in totals:
            call.w.call_void("llvm.x86.tilestored64", ("i8", str(register)), ("ptr", pointer),
                             ("i64", between))
        return True

    return lower


_INDEX = LlvmType("int64")


def _begin(call: LlvmCall, totals: Sequence[tuple[int, str]], between: str) -> None:
    """Registers of the destination: zero where the sum begins, else what is in memory."""
    def zero() -> None:
        for register, _ in totals:
            call.w.call_void("llvm.x86.tilezero", ("i8", str(register)))

    def load() -> None:
        for register, pointer in totals:
            _load(call, register, pointer, between)

    call.either(zero, load)


def _load(call: LlvmCall, register: int, pointer: str, stride: str) -> None:
    call.w.call_void("llvm.x86.tileloadd64", ("i8", str(register)), ("ptr", pointer),
                     ("i64", stride))


def _sum(call: LlvmCall, place: str, index: str, size: int) -> str:
    """The place, `index` times as many bytes further."""
    if index == "0" or not size:
        return place
    moved = call.w.op(f"mul nsw i64 {index}, {size}")
    return moved if place == "0" else call.w.op(f"add nsw i64 {place}, {moved}")


def _moved(call: LlvmCall, pointer: str, place: str) -> str:
    return pointer if place == "0" else call.w.op(f"getelementptr inbounds i8, ptr {pointer}, "
                                                  f"i64 {place}")
