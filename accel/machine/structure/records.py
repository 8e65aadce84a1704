"""The records of a structure: units, their ports, and buffers."""

from dataclasses import dataclass
from enum import StrEnum

from compiler.errors import Error

FETCH = "fetch"
"""The part of every core that reads the program; it reports like a unit."""

SEGMENTS = ("program", "weights", "activations", "io")
"""Segments of memory, in the order of their code in the `base` field."""

IMMEDIATE = "imm"
"""An immediate of the word, where a selector may name it in place of a buffer."""

CAUSES = ("command", "bank", "memory", "hazard", "signal")
"""The reasons why a unit stalls, but for the tokens of other units."""

MOST_UNITS, MOST_BUFFERS = 8, 16
"""Units that a mask of tokens has bits for; buffers that the field of a DMA word has codes for."""


class StructureError(Error, ValueError):
    """Units and buffers of which no core can be built: names them, the rule and the reason."""


class UnitKind(StrEnum):
    """The way in which instructions of a unit are executed; declarations say which they need.

    LOAD : runs of bytes from memory into a buffer.
    STORE : runs of bytes from a buffer into memory.
    GEMM : a nest of loops over entries; sums of products meet in accumulators.
    VECTOR : a nest of loops over entries; each lane by itself, or the lanes of a row.
    STREAM : rows of entries, which a component of one's own turns into rows of as many entries.
    """

    LOAD = "load"
    STORE = "store"
    GEMM = "gemm"
    VECTOR = "vector"
    STREAM = "stream"

    @property
    def moves(self) -> bool:
        """True if it moves bytes between memory and buffers; others compute on entries."""
        return self in (UnitKind.LOAD, UnitKind.STORE)


OPERANDS = {UnitKind.LOAD: ("dst",), UnitKind.STORE: ("src",), UnitKind.GEMM: ("a", "b", "dst"),
            UnitKind.VECTOR: ("a", "b", "record", "table", "dst"),
            UnitKind.STREAM: ("a", "table", "dst")}
"""What a port of a unit of each kind may serve. Ports of one operand are the choices of a selector;
a stream unit has one buffer of results, and a table or none."""

_TILE = ("batch", "block_out")

ENTRIES = {
    (UnitKind.GEMM, "a"): ((("batch", "block_in"), "operand"),),
    (UnitKind.GEMM, "b"): ((("block_out", "block_in"), "weight"),),
    (UnitKind.GEMM, "dst"): ((_TILE, "accumulator"),),
    (UnitKind.VECTOR, "a"): ((_TILE, "accumulator"), (_TILE, "output")),
    (UnitKind.VECTOR, "b"): ((_TILE, "accumulator"), (_TILE, "output"), (("block_out",), "param")),
    (UnitKind.VECTOR, "record"): ((("block_out",), "param"),),
    (UnitKind.VECTOR, "table"): (((256,), "int8"),),
    (UnitKind.VECTOR, "dst"): ((_TILE, "accumulator"), (_TILE, "output")),
}
"""The entries, shape and element, that an operand of gemm or vector may have: one buffer of each,
in this order, which is that of the selector's codes."""

EXTENTS = ("batch", "block_in", "block_out")
"""Fields of `AccelConfig` that may be extents of an entry."""

TYPES = ("operand", "weight", "accumulator", "output", "param", "int8", "uint8", "int16", "uint16",
         "int32", "uint32", "float16", "bfloat16", "float32")
"""What an element may be: fields of `AccelConfig`, records of channels, or a type."""


@dataclass(frozen=True, slots=True)
class UnitPort:
    """A port of a unit: the operand that it serves, and the buffer that it reads or, for ``dst``,
    writes. Addresses count entries; bytes where the unit moves them."""

    operand: str
    buffer: str


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that executes instructions of its own. Its place in the list is its bit in masks of
    tokens and its code in reports; the codes of a selector follow the order of its ports."""

    name: str
    kind: UnitKind
    ports: tuple[UnitPort, ...]

    def at(self, operand: str) -> tuple[str, ...]:
        """The buffers that an operand may be in, in the order of their codes."""
        return tuple(port.buffer for port in self.ports if port.operand == operand)

    @property
    def reads(self) -> tuple[str, ...]:
        """The buffers that it reads by an operand, each once."""
        return tuple(dict.fromkeys(port.buffer for port in self.ports if port.operand != "dst"))

    @property
    def writes(self) -> tuple[str, ...]:
        """The buffers that it writes."""
        return self.at("dst")

    @property
    def buffers(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(port.buffer for port in self.ports))


@dataclass(frozen=True, slots=True)
class BufferRecord:
    """A buffer between units. Its place in the list is its code in the words of units that move
    bytes.

    Parameters
    ----------
    shape : extents of an entry: fields of `AccelConfig` (`EXTENTS`), or numbers.
    element : the field of `AccelConfig` that has the type of an element, or a type (`TYPES`).
    size : the field of `AccelConfig` that has its bytes, or their number.
    banks : parts between which its units alternate, two or one; with two, units that compute may
        share it and instructions say which they touch.
    packed : elements may have fewer bits in memory (`AccelConfig.weight_bits`).
    """

    name: str
    shape: tuple[str | int, ...]
    element: str
    size: str | int
    banks: int = 1
    packed: bool = False
