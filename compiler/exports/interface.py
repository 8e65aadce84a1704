"""The interface of a network in C: the one description that headers and tests are written from."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from compiler.te import SMALL, numpy_dtype

from .names import ExportError, c_type, free_name, is_identifier

__all__ = ["STATUSES", "CArray", "CInterface", "ExportError"]

STATUSES = (
    ("DONE", "the outputs are written"),
    ("NO_MEMORY", "a thread has no memory for its own buffers"),
    ("NO_TILES", "the operating system refuses the tile registers of the processor"),
    ("ARENA", "the arena is missing or not aligned"),
    ("WEIGHTS", "the weights are missing, not aligned, or inside"),
    ("OTHER_WEIGHTS", "the weights are those of another network or machine"),
)
"""What NAME_init and NAME_run return, from 0 on: the end of NAME_..., and what it means. The first
three are those of kernels (`compiler.cpu_gpu_backends.llvm`)."""


@dataclass(frozen=True, slots=True)
class CArray:
    """An input or output, dense and in row-major order.

    Parameters
    ----------
    name : as the network has it.
    dtype, shape : of the elements, and the extents.
    scale, zero_point : where it is quantized: it means ``(element - zero_point) * scale``.
    offset : where it has a place in the arena, in bytes.
    codes : the type whose codes its bytes are, where C has none for it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float | None = None
    zero_point: int | None = None
    offset: int | None = None
    codes: str = ""

    @classmethod
    def of(cls, name: str, dtype: str, shape: tuple[int, ...], *numbers: Any) -> "CArray":
        """The array of a network's input or output; numbers of less than a byte, and others that no
        processor computes with, are bytes.
        """
        is_small = dtype in SMALL
        return cls(name, "uint8" if is_small else dtype, shape, *numbers,
                   codes=dtype if is_small else "")

    def __str__(self) -> str:
        text = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        return f"{text}, codes of {self.codes}" if self.codes else text

    def __post_init__(self):
        if not all(isinstance(extent, int) and extent >= 0 for extent in self.shape):
            raise ExportError(f"Shape of {self.name} must be known, not {self.shape}")
        c_type(self.dtype)
        if (self.scale is None) != (self.zero_point is None):
            raise ExportError(f"Scale and zero point of {self.name} must both be given, or neither")

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.elements * numpy_dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class CInterface:
    """A network in C.

    Parameters
    ----------
    name : identifier of C that all names begin with.
    hash : of the model, hexadecimal.
    inputs, outputs : in the order of the network.
    arena_bytes, arena_alignment : what a run computes in; both in bytes.
    weights_bytes, weights_alignment : of the file of constants; 0 bytes where they are inside.
    title : one line that says what it is, and for which machine.
    notes : further lines for the reader of the header, such as what to link with.
    fields : members of the caller's ``struct NAME``, as C declares them.
    statuses : what `STATUSES` lacks, numbered behind them.
    includes : headers that the fields and parameters need, by their file names.
    sizes : further numbers, each by the end of NAME_...
    parameters : further parameters of NAME_init, as C declares them.
    """

    name: str
    hash: str
    inputs: tuple[CArray, ...]
    outputs: tuple[CArray, ...]
    arena_bytes: int
    arena_alignment: int = 64
    weights_bytes: int = 0
    weights_alignment: int = 64
    title: str = ""
    notes: tuple[str, ...] = ()
    fields: tuple[str, ...] = ("const void *weights",)
    statuses: tuple[tuple[str, str], ...] = ()
    includes: tuple[str, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    parameters: tuple[str, ...] = ()

    def __post_init__(self):
        if not is_identifier(self.name):
            raise ExportError(f"Name of a network must be an identifier of C, not {self.name!r}")
        for what, value in (("arena", self.arena_alignment), ("weights", self.weights_alignment)):
            if value < 1 or value & (value - 1):
                raise ExportError(f"Alignment of the {what} must be a power of two, not {value}")

    @property
    def prefix(self) -> str:
        """The prefix of macros and of values of enumerations. and values of enumerations begin
        with."""
        return f"{self.name.upper()}_"

    @property
    def all_statuses(self) -> tuple[tuple[str, str], ...]:
        return (*STATUSES, *self.statuses)

    @property
    def input_members(self) -> tuple[str, ...]:
        """The members of ``NAME_inputs``, one for each input."""
        return members(self.inputs, self.prefix)

    @property
    def output_members(self) -> tuple[str, ...]:
        return members(self.outputs, self.prefix)

    @property
    def output_parameters(self) -> tuple[str, ...]:
        """Names of outputs beside inputs, as parameters of one function."""
        taken = set(self.input_members)
        return tuple(free_name(name, taken) for name in self.output_members)


def members(arrays: Sequence[CArray], prefix: str) -> tuple[str, ...]:
    """Members of a struct, one for each array; their names differ in capitals, too, and none is a
    macro of the header, which begin with the prefix.
    """
    taken: set[str] = set()
    found = []
    for array in arrays:
        name = free_name(array.name, set())
        if name.startswith(prefix):
            name += "_"
        while name.upper() in taken:
            name += "_"
        taken.add(name.upper())
        found.append(name)
    return tuple(found)
