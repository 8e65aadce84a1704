"""Reads ELF files of 32 or 64 bits, little-endian, as in the System V ABI.

A file has a header, sections anywhere, and a table of their headers. Nothing is checked beyond the
header: who does not trust a file looks first where its offsets lead.
"""

from collections import namedtuple
from collections.abc import Iterator
from struct import Struct

FORMS = {1: ("<4s4B8xHHI3II6H", "<10I", "<IIIBBH"),
         2: ("<4s4B8xHHI3QI6H", "<IIQQQQIIQQ", "<IBBHQQ")}
"""By class: the header, the header of a section, a symbol."""

Section = namedtuple("Section", "name kind flags address offset size link info alignment entry")
"""A section's header; `name` is a place among the names of sections."""

Symbol = namedtuple("Symbol", "name section value size")
"""A symbol; `name` is a place among the strings that its section links, `section` a number."""


class Elf:
    """A file, with what its header says; `bits` are 0 where there is no such header."""

    def __init__(self, code: bytes):
        self.code, self.bits = code, 0
        forms = FORMS.get(code[4], ()) if code[:4] == b"\x7fELF" and code[5:6] == b"\1" else ()
        if forms and len(code) >= Struct(forms[0]).size:
            header, self.section, self.symbol = map(Struct, forms)
            self.bits, fields = 32 * code[4], header.unpack_from(code)
            self.kind, self.table = fields[5], fields[10]
            self.entry, self.count, self.names = fields[-3:]

    def sections(self) -> list[Section]:
        return [Section(*self.section.unpack_from(self.code, self.table + self.entry * place))
                for place in range(self.count)]

    def bytes_of(self, section: Section) -> bytes:
        return self.code[section.offset:section.offset + section.size]

    def symbols(self, section: Section) -> Iterator[Symbol]:
        for name, *fields in self.symbol.iter_unpack(self.bytes_of(section)):
            value, size, place = fields[:2] + fields[-1:] if self.bits == 32 else (
                fields[3:] + fields[2:3])
            yield Symbol(name, place, value, size)

    def text(self, strings: Section, place: int) -> str:
        """The text that begins at a place of a section of strings."""
        begin = strings.offset + place
        return self.code[begin:self.code.index(b"\0", begin)].decode()
