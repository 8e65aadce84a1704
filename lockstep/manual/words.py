"""The fields of instruction words: where they are, how they are stored, what they mean."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from amaranth import Shape
from amaranth.lib import data

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import CODES, codes_of
from accel.machine.structure import SHIPPED_STRUCTURE

UNUSED = ("flags", "reserved", "rest")
"""Fields without a meaning: no unit reads them, and the encoder leaves them 0."""

MEANINGS: Mapping[str, str] = {
    "opcode": "which instruction it is",
    "waits": "units from which it takes a token before it starts; bit i: unit i of",
    "signals": "units that get a token when it retires; bits as in waits",
    "banks": "banks that it touches and holds, bit i is bank i, of",
    "reset": "1: iterations that begin a reduction assign, they do not accumulate",
    "a_source": "where a is",
    "entries": "of the table: 2^entries, from base.b on",
    "b_source": "where b is",
    "destination": "where the result goes",
    "buffer": "the buffer on the chip",
    "base": "the base register, to which dram is added",
    "dram": "bytes from the base register to the first byte in memory",
    "address": "the first byte in the buffer",
    "run": "bytes of an iteration",
    "bits": "bits of an element in memory; with fewer than 8, address and loops.buffer count what "
            "a byte of memory unpacks to, each element extended by its sign",
    "pad_value": "the byte that padding writes",
    "pad_high": "the byte that padding writes to odd addresses of the buffer, in place of "
                "pad_value",
    "base.dst": "first entry of the destination",
    "base.a": "first entry of the first source",
    "base.b": "first entry of the second source, or of the records of parameters, or of a table",
    "c": "entry of the table, or of the record of parameters, that stands beside another operand "
         "with an address at b; no loop moves it",
    "loops.extent": "iterations of the loop",
    "loops.dst": "entries from one iteration to the next, modulo 2^16, in the destination",
    "loops.a": "the same, in the first source",
    "loops.b": "the same, in the second source",
    "loops.dram": "bytes from one iteration to the next, in memory",
    "loops.buffer": "bytes from one iteration to the next, modulo 2^24, in the buffer",
    "loops.before": "iterations at the loop's beginning that are padding",
    "loops.after": "iterations at the loop's end that are padding",
}
"""The meaning of a field by its path; that of an immediate is its name in the formula."""


@dataclass(frozen=True)
class WordField:
    """A field of a word.

    Parameters
    ----------
    path : names from the word inward; the fields of all loops have the path ``loops.NAME``.
    offset, width : its lowest bit and how many; of a field of loops, in the first loop.
    signed : in two's complement.
    minus_one : stored minus one, so that no code is illegal.
    codes : what the numbers 0, 1, ... stand for; empty where it is a number.
    count, stride : the loops that have it, and bits from one loop to the next.
    units : the units that the bits of a mask stand for, or the buffer of which they do; empty where
        it is none.
    """

    path: str
    offset: int
    width: int
    signed: bool = False
    minus_one: bool = False
    codes: tuple[str, ...] = ()
    count: int = 1
    stride: int = 0
    units: tuple[str, ...] = ()

    @property
    def bits(self) -> str:
        """``24 ... 25``; of loops those of the first one."""
        last = self.offset + self.width - 1
        return f"{self.offset}" if self.width == 1 else f"{self.offset} ... {last}"

    @property
    def is_flag(self) -> bool:
        """True if it is one bit that a unit reads."""
        return self.width == 1 and not self.codes and self.path not in UNUSED

    @property
    def stored(self) -> str:
        """The number's form in the word, where it is not an unsigned number."""
        return "minus one" if self.minus_one else "signed" if self.signed else ""


def fields_of(layout: data.Layout, machine: Machine | None = None,
              unit: str = "") -> list[WordField]:
    """Every field of a word in order of its bits; those of loops stand once. Units and buffers have
    the names that they have in words of a unit of the machine; without, the shipped ones."""
    structure = SHIPPED_STRUCTURE if machine is None else machine.structure
    codes = CODES if machine is None else codes_of(structure, unit)
    masked = {"waits": structure.names, "banks": (structure.roles.acc,)}
    return [replace(field, codes=tuple(codes.get(field.path, ())),
                    units=masked.get(field.path, ()))
            for field in _fields(layout)]


def _fields(layout, path: str = "", base: int = 0, count: int = 1,
            stride: int = 0) -> Iterator[WordField]:
    for key, field in layout:
        name, offset, shape = f"{path}{key}", base + field.offset, field.shape
        if isinstance(shape, data.ArrayLayout):
            width = Shape.cast(shape.elem_shape).width
            yield from _fields(shape.elem_shape, f"{name}.", offset, shape.length, width)
        elif isinstance(shape, data.StructLayout):
            yield from _fields(shape, f"{name}.", offset, count, stride)
        else:
            cast = Shape.cast(shape)
            yield WordField(name, offset, cast.width, cast.signed, str(key) in isa.MINUS_ONE,
                            (), count, stride)


def loop_count(layout: data.Layout) -> int:
    """The loops of a word."""
    return max(field.count for field in fields_of(layout))


def meaning_of(field: WordField, immediates: Sequence[str] = ()) -> str:
    """A sentence without its end: what the field means, its codes, and how it is stored."""
    name = field.path
    if name in UNUSED:
        return "unused, 0"
    meaning = MEANINGS.get(name, f"the immediate {name}" if "." not in name else name)
    meaning += " " * bool(field.units) + ", ".join(field.units)
    codes = ", ".join(f"{code} {name}" for code, name in enumerate(field.codes))
    return "; ".join(filter(None, (
        meaning + (f": {codes}" if codes else ""),
        "stored minus one" if field.minus_one else "", "signed" if field.signed else "")))
