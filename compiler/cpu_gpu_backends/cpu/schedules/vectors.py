"""The facts that schedules know of a processor: its vectors, threads, and which floats it computes
with."""

from dataclasses import dataclass

from compiler.cpu_gpu_backends.cpu.schedules.byte_groups import (GROUP, dot_of, pairs_of,
                                                                  together_in)
from compiler.cpu_gpu_backends.intrinsics.cpu import TRANSPOSES
from compiler.cpu_gpu_backends.llvm.emitting.amx import grants_tiles
from compiler.cpu_gpu_backends.llvm.instruction_sets import InstructionSet, TileCosts
from compiler.cpu_gpu_backends.llvm.machine import Processor
from compiler.ir import Update
from compiler.ops.records.blocks import LANES
from compiler.tensorize import Intrinsic
from compiler.tune.accesses import VectorCore
from compiler.tune.chooser import OWN, Chooser

STACKED, STACKED_SMALL = 1 << 12, 1 << 8


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vector instructions of a processor, as schedules ask for them.

    sums_bytes : one of them sums products of bytes.
    threads : threads that share a kernel.
    tiles : there are registers for tiles of bytes.
    singles, doubles : there are instructions for float32, for float64.
    stacked : bytes of the largest local buffer that a kernel has on its stack.
    sums_words : one sums products of words, and none of bytes.
    fuses : fused multiply-adds of float32 requantize faster than float64.
    """

    instructions: InstructionSet
    sums_bytes: bool = False
    threads: int = 1
    tiles: bool = False
    singles: bool = True
    doubles: bool = True
    stacked: int = STACKED
    sums_words: bool = False
    fuses: bool = False

    def __str__(self) -> str:
        return self.instructions.name + ", bytes" * self.sums_bytes + ", tiles" * self.tiles

    @property
    def lanes(self) -> int:
        return self.instructions.lanes

    @property
    def registers(self) -> int:
        return self.instructions.registers

    @property
    def costs(self) -> TileCosts:
        return self.instructions.costs

    @property
    def scalar(self) -> bool:
        return self.instructions.scalar

    @property
    def core(self) -> VectorCore:
        """These facts for templates and models that know no intrinsic."""
        return VectorCore(self.lanes, self.instructions.registers_of_models, threads=self.threads)

    def dot(self, update: Update) -> Intrinsic:
        """The intrinsic that adds such products of bytes, or of words."""
        if together_in(update) == GROUP:
            return dot_of(self.instructions, self.sums_bytes)
        return pairs_of(self.instructions)

    def most_sums(self, together: int) -> int:
        """The registers that hold sums of products, so many of which are added at once, beside what
        these are read into.
        """
        if together == GROUP and not self.sums_bytes:
            return self.registers - self.instructions.words_apart
        return self.instructions.sums

    def squares(self, dtype: str, extent: int) -> int:
        """The size of squares that are transposed in registers; 0 where there are none."""
        most = min(extent, LANES if dtype in ("int8", "uint8") else self.lanes)
        return max((size for of, size in TRANSPOSES if of == dtype and size <= most), default=0)

    def columns(self, extent: int, chooser: Chooser = OWN) -> int:
        """The columns of a tile: two vectors, one, a half or a quarter, whichever wastes least."""
        time = {2 * self.lanes: 2.0, self.lanes: 1.1, self.lanes // 2: 1.1, self.lanes // 4: 1.1}
        return chooser.one_of("columns", [size for size in time if 2 <= size <= max(extent, 2)],
                              lambda size: -(-extent // size) * time[size])

    def rows(self, extent: int, columns: int, chooser: Chooser = OWN) -> int:
        """The rows of a tile: the most that divide the extent and fit the registers as vectors."""
        most = max(1, self.registers // -(-columns // self.lanes))
        return chooser.one_of("rows", [rows for rows in range(min(most, extent), 0, -1)
                                       if extent % rows == 0])


def vectors_of(machine: Processor, threads: int = 1) -> Vectors:
    """The vectors of a processor, tiles only where the system grants them."""
    vectors = machine.instructions
    sums_bytes = any(dot.a == "uint8" and machine.has(*dot.needs) for dot in vectors.dots)
    return Vectors(
        vectors, sums_bytes, threads,
        bool(vectors.tiles) and machine.has(*vectors.tiles) and grants_tiles(),
        "float32" in machine.floats, "float64" in machine.floats,
        STACKED_SMALL if machine.is_small else STACKED,
        not sums_bytes and vectors.sums_words(machine.has),
        machine.fuses)
