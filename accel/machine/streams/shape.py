"""Components of one's own: what the hardware of a unit of kind ``stream`` looks like.

A stream unit reads rows of entries, hands them to a component, and writes the rows that it makes of
them. The component sees two streams and, where the unit has one, a table; addresses, loops, tokens
and errors are the unit's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from amaranth import Shape
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Member, Out, Signature

from compiler import te

Entry = tuple[tuple[int, ...], str]
"""Shape and element type of an entry of a buffer."""


def elements(entry: Entry) -> data.ArrayLayout:
    """The elements of an entry, row by row, as numbers; an entry's bits are a view of it."""
    shape, dtype = entry
    return data.ArrayLayout(number(dtype), prod(shape))


def number(dtype: str) -> Shape:
    """The shape of a number of an element type; floats and records as bits."""
    bits = 64 if te.is_record(dtype) else te.bits(dtype)
    return Shape(bits, te.is_integer(dtype) and not dtype.startswith("u"))


@dataclass(frozen=True)
class StreamShape:
    """The fit of a component of a stream unit: its argument, and the source of its members.

    ``super().__init__(shape.members)`` gives a component these members:

    i : stream of the entries of rows. ``data`` is an entry's bits, the first element lowest (a view
        of `a_elements`); ``fields`` are the immediates of the entry's instruction, the same in all
        entries of a row; ``last`` is set in the last entry of a row.
    o : stream of the results, as many entries to a row, in order: ``data`` (`dst_elements`) and
        ``last``, set in the last entry of a row. An entry whose ``last`` is not where its row ends
        is an error of the unit's instruction, *illegal*.
    table : only with a table: an address of an entry, and ``en``, in cycle t give its bits in
        ``data`` (`table_elements`) in cycle t + `read_cycles`. Every cycle may have a new one.

    Both streams have the rules of `amaranth.lib.stream`. The component may accept and offer
    whenever it likes; rows of the next instruction may follow at once, with other fields. Its time
    must not depend on data. It is reset before every run. Both sides are registers of the unit, so
    it may be combinational, from ``i`` to ``o`` and from ``o.ready`` to ``i.ready``.

    Parameters
    ----------
    a, dst : shape and element type of an entry that is read and of one that is written.
    fields : immediates of the instruction, each with its type: ``{"zp": "int8"}``.
    table : number of entries, shape of one, and element type; None without one.
    read_cycles : from an address of the table to its entry.
    """

    a: Entry
    dst: Entry
    fields: Mapping[str, str] = field(default_factory=dict)
    table: tuple[int, tuple[int, ...], str] | None = None
    read_cycles: int = 2

    @property
    def a_elements(self) -> data.ArrayLayout:
        """Elements of an entry that is read."""
        return elements(self.a)

    @property
    def dst_elements(self) -> data.ArrayLayout:
        """Elements of an entry that is written."""
        return elements(self.dst)

    @property
    def table_elements(self) -> data.ArrayLayout:
        """Elements of an entry of the table; AttributeError without one."""
        if self.table is None:
            raise AttributeError("table_elements: the unit has no table")
        return elements(self.table[1:])

    @property
    def i(self) -> Any:         # a layout, which stubs do not know as a shape
        """The payload of ``i``."""
        return data.StructLayout({
            "data": self.a_elements.size,
            "fields": data.StructLayout({name: number(dtype)
                                         for name, dtype in self.fields.items()}),
            "last": 1})

    @property
    def o(self) -> Any:
        """The payload of ``o``."""
        return data.StructLayout({"data": self.dst_elements.size, "last": 1})

    @property
    def members(self) -> dict[str, Member]:
        """The members of a component that fits."""
        streams = {"i": In(stream.Signature(self.i)), "o": Out(stream.Signature(self.o))}
        if self.table is None:
            return streams
        return streams | {"table": Out(Signature({
            "addr": Out(range(self.table[0])), "en": Out(1),
            "data": In(self.table_elements.size)}))}
