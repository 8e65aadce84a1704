"""The places of a user's own immediates in instruction words.

The word of gemm has bits to spare. That of vector has few, and fields of immediates that most
bodies do not take. So an immediate of one's own lies in spare bits, or on those of immediates that
no body takes that has it. It lies at one place in all words of its unit; the others stay as they
are.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from amaranth import Shape
from amaranth.lib import data

from accel.machine.isa import WORD_BITS
from compiler.te import is_integer
from compiler.tensorize import Immediate, Intrinsic


class NoRoom(Exception):
    """An immediate for which a word has no bits: the instruction, the immediate, the bits that it
    takes, and the most that are free in a row."""

    def __init__(self, body: str, name: str, wanted: int, free: int):
        super().__init__(body, name, wanted, free)
        self.body, self.name, self.wanted, self.free = body, name, wanted, free


def whole_range(immediate: Immediate) -> tuple[int, int]:
    """All numbers of the field that an immediate of this range needs."""
    low, high = immediate.low, immediate.high
    bits = max(1, high.bit_length(), (~low).bit_length() if low < 0 else 0)
    return (-(1 << bits), (1 << bits) - 1) if low < 0 else (0, (1 << bits) - 1)


def shape_of(immediate: Immediate) -> Shape:
    """The shape of its field."""
    low, high = whole_range(immediate)
    return Shape((high - low).bit_length(), low < 0)


def own_of(body: Intrinsic, known: Collection[str]) -> tuple[Immediate, ...]:
    """The immediates of a body that are not among the `known` ones of its unit."""
    return tuple(one for one in body.immediates
                 if one.name not in known and is_integer(one.dtype))


def placed(layout: data.StructLayout, bodies: Sequence[Intrinsic], known: Collection[str],
           ) -> dict[str, data.Field]:
    """The fields of all immediates of one's own, in the order of bodies; each lies where the first
    bits are that suffice. Raises `NoRoom`."""
    fields: dict[str, data.Field] = {}
    for body in bodies:
        for immediate in own_of(body, known):
            if immediate.name not in fields:
                beside = [one for one in bodies if immediate.name in _names(one)]
                free = _free(layout, beside, known, fields)
                shape = shape_of(immediate)
                start = next((start for start, width in _runs(free) if width >= shape.width), None)
                if start is None:
                    most = max((width for _, width in _runs(free)), default=0)
                    raise NoRoom(body.name, immediate.name, shape.width, most)
                fields[immediate.name] = data.Field(shape, start)
    return fields


def _names(body: Intrinsic) -> set[str]:
    """The immediates that a body takes; ``imm`` also as an operand."""
    return {one.name for one in body.immediates} | {
        "imm" for operand in body.operands if "imm" in operand.scopes}


def _free(layout: data.StructLayout, bodies: Sequence[Intrinsic], known: Collection[str],
          fields: Mapping[str, data.Field]) -> set[int]:
    """The bits that none of the bodies needs."""
    names = set().union(*map(_names, bodies))
    spare = [layout["reserved"], *(layout[name] for name in known if name not in names)]
    return set().union(*map(_bits, spare)).difference(
        *(_bits(field) for name, field in fields.items() if name in names))


def _bits(field: data.Field) -> range:
    return range(field.offset, field.offset + field.width)


def _runs(bits: set[int]) -> Iterator[tuple[int, int]]:
    """First bit and length of each run of neighbouring bits, in order."""
    start = None
    for bit in range(WORD_BITS + 1):
        if bit in bits:
            start = bit if start is None else start
        elif start is not None:
            yield start, bit - start
            start = None


def layout_with(layout: data.StructLayout, own: Mapping[str, data.Field]) -> data.Layout:
    """The word of an instruction with these immediates: without the fields on whose bits they
    lie."""
    if not own:
        return layout
    taken = set().union(*map(_bits, own.values()))
    kept = {name: field for name, field in layout
            if name != "reserved" and taken.isdisjoint(_bits(field))}
    return data.FlexibleLayout(WORD_BITS, dict(
        sorted({**kept, **own}.items(), key=lambda named: named[1].offset)))


def fields_in(layout: Any) -> dict[str, data.Field]:
    """The fields of a word, by name, in order."""
    return {name: field for name, field in layout}      # noqa: C416
