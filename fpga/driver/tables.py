"""Programs of the accelerator as tables of the driver, and where they lie in a board's memory.

::

    offset 0    words and constants of each program, one after the other: the image
                activations, shared by all programs, which run one after the other
                inputs and outputs, shared as well
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from accel.machine.dram import ALIGNMENT
from accel.machine.isa import BASES, DMA, WORD_BYTES
from accel.machine.program import AccelProgram, TensorSlot
from accel.mapping.memory.layout import BLOCKED, BLOCKED_LAST, PLAIN
from accel.mapping.positions.puts import PlacePut


def aligned(size_bytes: int) -> int:
    """The least multiple of the longest burst that holds so many bytes."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class BoardMemory:
    """The memory of some programs of one machine, as the module's docstring says."""

    programs: tuple[AccelProgram, ...]

    @property
    def image(self) -> np.ndarray:
        """The contents of the memory before the first run (uint8)."""
        parts = [array for program in self.programs
                 for array in (program.words.reshape(-1), program.weights)]
        padded = [np.pad(part, (0, aligned(part.size) - part.size)) for part in parts]
        return np.concatenate(padded) if padded else np.zeros(0, np.uint8)

    @property
    def size_bytes(self) -> int:
        return self._shared + sum(map(aligned, self._written))

    def bases(self, number: int) -> tuple[int, ...]:
        """The start of each segment of a program, in the order of `accel.machine.isa.BASES`."""
        words = sum(aligned(program.words.size) + aligned(program.weights.size)
                    for program in self.programs[:number])
        return (words, words + aligned(self.programs[number].words.size),
                self._shared, self._shared + aligned(self._written[0]))

    def place(self, number: int, slot: TensorSlot) -> int:
        """The start of a tensor of a program."""
        return self.bases(number)[BASES.index(slot.base)] + slot.offset

    @property
    def _shared(self) -> int:
        return sum(aligned(program.words.size) + aligned(program.weights.size)
                   for program in self.programs)

    @property
    def _written(self) -> tuple[int, int]:
        """Bytes of activations, and of inputs and outputs, that the largest program takes."""
        return (max((program.activations_bytes for program in self.programs), default=0),
                max((program.io_bytes for program in self.programs), default=0))


@dataclass(frozen=True, slots=True)
class TensorTable:
    """A `lockstep_tensor` of ``lockstep_board.h``; the fields are its members, in their order."""

    offset: int
    bytes: int
    images: int
    batch: int
    pixels: int
    channels: int
    padded: int
    last: bool
    element: int

    @property
    def text(self) -> str:
        """The initializer."""
        return "{" + ", ".join(str(int(getattr(self, name))) for name in self.__slots__) + "}"


def tensor_table(slot: TensorSlot, offset: int) -> TensorTable:
    """The table of a tensor whose bytes begin at `offset`."""
    batch, pixels, padded, last = 1, 1, slot.shape[-1], False
    logical = slot.logical or slot.shape
    if slot.layout in (BLOCKED, BLOCKED_LAST):
        _, height, width, batch, padded = slot.shape
        pixels, last = height * width, slot.layout == BLOCKED_LAST
        images = logical[0]
        channels = logical[-1] if last else prod(logical[1:]) // pixels
    elif slot.layout == PLAIN:
        images, height, width, channels = slot.shape
        pixels = height * width
    else:
        images, channels = prod(logical[:-1]), logical[-1]
    return TensorTable(offset, slot.size_bytes, images, batch, pixels, channels, padded, last,
                       slot.numpy_dtype.itemsize)


def byte_rows(data: bytes, columns: int = 20) -> Iterator[str]:
    """Bytes as rows of an initializer."""
    for begin in range(0, len(data), columns):
        yield ", ".join(map(str, data[begin:begin + columns])) + ","


def word_rows(words: Sequence[int]) -> Iterator[str]:
    """32-bit words as rows of an initializer."""
    for begin in range(0, len(words), 4):
        yield ", ".join(f"{word:#010x}u" for word in words[begin:begin + 4]) + ","


def store_rows(put: PlacePut, program: AccelProgram, base: int) -> Iterator[str]:
    """The stores of what is put, as rows of ``lockstep_store`` tables; the program's words begin at
    `base`.
    """
    at = DMA["dram"].offset // 8
    for index in put.stores:
        dram = int.from_bytes(program.words[index, at:at + 4].tobytes(), "little")
        yield f"{{{base + index * WORD_BYTES}, {dram}u, {put.stride}}},"
